"""The manifest beside an engine: what it was made from, with what, and for which GPU."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from trt_workbench.core.builds import Builds
from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, refuse_foreign
from trt_workbench.core.hashing import has_hash
from trt_workbench.core.verification import Verification

SUFFIX = ".json"


class EngineFile(Strict):
    """The plan: SHA-256 of the file and its size."""

    sha256: str
    size_bytes: int


class ModelFile(Strict):
    """The model: file name, hash including external data, and the metadata it carries (`names`, `imgsz`, …)."""

    file: str
    sha256: str
    size_bytes: int
    external_files: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


class GpuIdentity(Strict):
    """The GPU that the engine was tuned on."""

    name: str
    uuid: str | None
    compute_capability: str


class Tensor(Strict):
    """An input or output of the engine; -1 is a dimension known at run time only."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Plugin(Strict):
    """A plugin library that was loaded for the build."""

    path: str
    sha256: str


class WorkaroundRecord(Strict):
    """How a wrong engine was made correct.

    Attributes:
        name: of the workaround.
        model_sha256: of the model that it was asked for, with its external data; `model` is the one with the change.
        verdict: of the engine as it is.
        latency_ms: median of a call at the best shape.
        plain_latency_ms: the same of the wrong engine; None where it did not run.
        rows: most rows of one call, into which the backend `trt` splits batches; None for no limit.
    """

    name: str
    model_sha256: str
    verdict: str
    latency_ms: float
    plain_latency_ms: float | None
    rows: int | None = None


class Manifest(Strict):
    """Everything that is recorded about an engine.

    Attributes:
        schema_version: of this document; 1 has no verification.
        created_at: UTC time in ISO 8601.
        cache_key: under which the cache keeps the engine.
        engine: the plan.
        model: what it was built from.
        tensorrt_version: that built it, and that can load it.
        tensorrt_headers: version of the headers that the native core was built with; None in older manifests.
        cuda_version: of the CUDA runtime.
        driver_version: of the NVIDIA driver.
        workbench_version: of this package.
        native_version: of the native core.
        gpu: on which it was tuned.
        options: the build settings as `BuildSettings` writes them.
        inputs: in the engine's order.
        outputs: in the engine's order.
        profiles: optimisation profiles as written on the command line.
        plugins: libraries loaded for the build.
        calibration_sha256: of the calibration data; None without.
        layer_count: layers of the network; the engine has fewer after fusion.
        build_s: duration of the build.
        skipped_tactics: kernels skipped for lack of GPU memory.
        warnings: TensorRT's warnings, without repetitions.
        verification: whether the engine computes what its model says; None if not verified.
        way_around: workaround applied because the engine was wrong without it; None for an engine as requested.
        several: builds of the same request, of which this one was kept; None for one that was built alone.
    """

    schema_version: Literal[1, 2] = 2
    created_at: str
    cache_key: str
    engine: EngineFile
    model: ModelFile
    tensorrt_version: str
    tensorrt_headers: str | None = None
    cuda_version: str | None
    driver_version: str | None
    workbench_version: str
    native_version: str
    gpu: GpuIdentity
    options: dict[str, Any]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    profiles: tuple[str, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    calibration_sha256: str | None = None
    layer_count: int
    build_s: float
    skipped_tactics: int = 0
    warnings: tuple[str, ...] = ()
    verification: Verification | None = None
    way_around: WorkaroundRecord | None = None
    several: Builds | None = None

    @field_validator("options")
    @classmethod
    def _names(cls, options: dict[str, Any]) -> dict[str, Any]:
        names = options.get("precision", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("options.precision is not a list of names")
        return options

    @property
    def precision(self) -> tuple[str, ...]:
        """Types that the engine's layers were allowed to use."""
        return tuple(self.options.get("precision", ("fp32",)))


def manifest_path(plan: Path) -> Path:
    """Return where the manifest of `plan` lies: `model.plan` has `model.plan.json`."""
    return plan.with_name(plan.name + SUFFIX)


def check_destination(plan: Path, sources: Iterable[Path]) -> None:
    """Check where a plan and its manifest are to be written, before the work begins.

    Raises:
        UsageProblem: it is a folder, or a file that no command wrote, such as one of `sources`: of the model that the
            plan is made from, and its timing cache.
    """
    if plan.is_dir():
        raise UsageProblem(f"The plan's path is a folder; name a file, such as {plan / 'model.plan'}")
    taken = {source.resolve() for source in sources}
    if taken & {plan.resolve(), manifest_path(plan).resolve()}:
        raise UsageProblem(
            f"The plan would replace the model, its external data or the timing cache; name another with --plan: {plan}"
        )
    refuse_foreign(plan, _is_ours)
    refuse_foreign(manifest_path(plan), lambda path: read_document(path, Manifest))


def _is_ours(plan: Path) -> bool:
    """Whether a plan is what its manifest says."""
    manifest = read_manifest(plan)
    return manifest is not None and has_hash(plan, manifest.engine.sha256)


def write_manifest(plan: Path, manifest: Manifest) -> None:
    """Write the manifest next to `plan`, whole or not at all. Raises OSError."""
    write_json(manifest_path(plan), manifest, over=anything)


def read_manifest(plan: Path) -> Manifest | None:
    """Return the manifest next to `plan`; None without one.

    Raises:
        UsageProblem: the manifest is damaged or of another schema.
    """
    path = manifest_path(plan)
    return read_document(path, Manifest, "build the engine again") if os.path.lexists(path) else None
