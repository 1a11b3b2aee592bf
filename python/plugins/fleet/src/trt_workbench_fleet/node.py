"""Whether this machine is what a run needs: checked by every task before its work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from trt_workbench import __version__
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.gpu import driver_report, first_gpu
from trt_workbench.engine.tensorrt import current_root, examine_tree, format_version
from trt_workbench.model.opened import sha256_of
from trt_workbench_fleet.array import JobArray


def check_node(array: JobArray) -> None:
    """Check this machine against the run's settings. Raises ComponentMissing with everything that is not as asked."""
    problems = [*_packages(array), *_tensorrt(array), *_gpu(array), *_model(array), *_room(array)]
    if problems:
        raise ComponentMissing(f"This node is not what {array.name} needs: {'; '.join(problems)}.")


def _packages(array: JobArray) -> Iterator[str]:
    for name, wanted in array.run.checks.packages.items():
        try:
            found = __version__ if name == "trt-workbench" else metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "not installed"
        if found != wanted:
            yield f"{name} is {found}, wanted {wanted}"


def _tensorrt(array: JobArray) -> Iterator[str]:
    if (wanted := array.run.checks.tensorrt) is None:
        return
    root = current_root()
    version = root and examine_tree(root).library_version
    found = format_version(version) if version else "not set up"
    if found != wanted:
        yield f"TensorRT is {found}, wanted {wanted}"


def _gpu(array: JobArray) -> Iterator[str]:
    report, wanted = driver_report(), array.run.checks.driver
    if wanted is not None and (found := report.get("driver_version") or "not there") != wanted:
        yield f"NVIDIA's driver is {found}, wanted {wanted}"
    if array.gpu_type:
        gpu = first_gpu() or {}
        if (name := gpu.get("name") or "not there") != (asked := array.run.gpu_types[array.gpu_type]):
            yield f"the GPU is {name}, wanted {asked}"


def _model(array: JobArray) -> Iterator[str]:
    if (wanted := array.run.model_sha256) is None:
        return
    model = Path(str(array.run.model))
    if not model.exists():
        yield f"the model is not there: {model}"
    elif (found := sha256_of(model)) != wanted:
        yield f"the model's SHA-256 is {found}, wanted {wanted}: {model}"


def _room(array: JobArray) -> Iterator[str]:
    free, wanted = shutil.disk_usage(array.folder).free / 1e9, array.run.checks.free_gb
    if free < wanted:
        yield f"{free:.1f} GB are free, wanted {wanted:g}: {array.folder}"
