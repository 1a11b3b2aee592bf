"""`doctor`: every component a backend needs, what was found, and the fix for what is missing or does not fit."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Literal, cast

from trt_workbench.core.counts import sized
from trt_workbench.core.environment import installed_distributions, installed_packages
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.gpu import driver_report, no_gpu
from trt_workbench.core.launcher import ONNXRUNTIME_VERSION, package, repair
from trt_workbench.core.workspace import cache_root, output_root, repository
from trt_workbench.engine.tensorrt import examine_tensorrt

State = Literal["ok", "absent", "problem"]


@dataclass(frozen=True)
class DoctorRow:
    """One row: a component, its state, what was found, and the fix if there is something to fix.

    "absent" is a component that some backend needs and this machine does without; "problem" is one that must be fixed.
    """

    component: str
    state: State
    found: str
    fix: str = ""


def examine() -> list[DoctorRow]:
    """Examine this machine. Never raises."""
    python = DoctorRow("Python", "ok", platform.python_version())  # pip installs the package into no other
    return [python, _workspace(), *_driver(), *_tensorrt(), *_onnxruntime(), *_cudnn()]


def _workspace() -> DoctorRow:
    try:
        root, output, caches = repository(), output_root(), cache_root()
    except WorkbenchError as error:
        return DoctorRow("workspace", "problem", "not usable", str(error))
    where = f"{root}, " if root else ""
    return DoctorRow("workspace", "ok", f"{where}output in {output}{'' if root else f', caches in {caches}'}")


def _driver() -> list[DoctorRow]:
    report = driver_report()
    if not report["gpus"]:
        reason, fix = no_gpu(report)
        # A driver that answers and shows no card must be fixed; other machines may do without one.
        state: State = "absent" if "error" in report else "problem"
        return [DoctorRow("NVIDIA driver", state, reason, f"Needed for every GPU backend. {fix}")]
    versions = f"{report['driver_version']}, CUDA up to {report['cuda_driver_version']}"
    gpus = [
        DoctorRow(
            f"GPU {gpu['index']}",
            "ok",
            f"{gpu['name']}, compute capability {gpu['compute_capability']}, "
            f"{sized(gpu['memory_total_bytes'] or 0)}, {gpu['uuid']}",
        )
        for gpu in report["gpus"]
    ]
    return [DoctorRow("NVIDIA driver", "ok", versions), *gpus]


def _tensorrt() -> list[DoctorRow]:
    capabilities = [gpu["compute_capability"] for gpu in driver_report()["gpus"] if gpu["compute_capability"]]
    rows = examine_tensorrt(capabilities)
    return [DoctorRow(component, cast(State, state), found, fix) for component, state, found, fix in rows]


def _cudnn() -> list[DoctorRow]:
    """Of the wheels: what ONNX Runtime's CUDA provider loads."""
    packages = installed_distributions("nvidia-cudnn-cu")
    if not packages:
        fix = f"ONNX Runtime on CUDA needs it. {package('onnxruntime-gpu')}"
        return [DoctorRow("cuDNN", "absent", "no wheel of it is installed", fix)]
    found = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
    if len(packages) > 1:
        fix = repair("Keep the one for the CUDA in use and uninstall the other with pip.")
        return [DoctorRow("cuDNN", "problem", found, fix)]
    return [DoctorRow("cuDNN", "ok", found)]


def _onnxruntime() -> list[DoctorRow]:
    installed = installed_packages()
    both = "onnxruntime" in installed and "onnxruntime-gpu" in installed
    if both:
        fix = "They overwrite each other's files. " + repair("Uninstall both with pip, then install the one you want.")
        return [DoctorRow("ONNX Runtime", "problem", "onnxruntime and onnxruntime-gpu are both installed", fix)]
    for name in ("onnxruntime-gpu", "onnxruntime"):
        if version := installed.get(name):
            if version == ONNXRUNTIME_VERSION:
                return [DoctorRow("ONNX Runtime", "ok", f"{name} {version}")]
            fix = repair(f"Run `pip install {name}=={ONNXRUNTIME_VERSION}`.")
            return [DoctorRow("ONNX Runtime", "ok", f"{name} {version}", f"Tested with {ONNXRUNTIME_VERSION}. {fix}")]
    fix = f"For the CPU: {package('onnxruntime')} For CUDA 13: {package('onnxruntime-gpu')}"
    return [DoctorRow("ONNX Runtime", "problem", "not installed", fix)]
