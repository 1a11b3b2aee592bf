"""`doctor`: every component a backend needs, what was found, and the mend for what is missing or does not fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, cast

from trt_workbench.errors import ComponentMissing
from trt_workbench.system.environment import installed_distributions, installed_packages
from trt_workbench.system.gpu import driver_report
from trt_workbench.system.launcher import ONNXRUNTIME_VERSION, package, repair
from trt_workbench.system.tensorrt import examine_tensorrt
from trt_workbench.system.workspace import output_root, workspace_root

State = Literal["ok", "absent", "problem"]

# What this release was developed against; see the table in docs/compatibility.md.
PYTHON_RANGE = ((3, 11), (3, 14))


@dataclass(frozen=True)
class Finding:
    """One row: a component, its state, what was found, and the mend if there is something to mend.

    "absent" is a component that some backend needs and this machine does without; "problem" is one that must be mended.
    """

    component: str
    state: State
    found: str
    mend: str = ""


def examine() -> list[Finding]:
    """Examine this machine. Never raises."""
    return [_python(), _workspace(), *_driver(), *_tensorrt(), *_onnxruntime(), *_cudnn()]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    low, high = PYTHON_RANGE
    if low <= sys.version_info[:2] < high:
        return Finding("Python", "ok", version)
    return Finding("Python", "problem", version, "Use Python 3.11, 3.12 or 3.13.")


def _workspace() -> Finding:
    try:
        root, output = workspace_root(), output_root()
    except ComponentMissing as error:
        return Finding("workspace", "problem", "not found", str(error))
    return Finding("workspace", "ok", f"{root}, output in {output}")


def _driver() -> list[Finding]:
    report = driver_report()
    if not report["gpus"]:
        reason = report.get("error", "the driver sees no GPU")
        mend = "Needed for every GPU backend: install NVIDIA's driver (580 or newer for CUDA 13)."
        return [Finding("NVIDIA driver", "absent", reason, mend)]
    versions = f"{report['driver_version']}, CUDA up to {report['cuda_driver_version']}"
    gpus = [
        Finding(
            f"GPU {gpu['index']}",
            "ok",
            f"{gpu['name']}, compute capability {gpu['compute_capability']}, "
            f"{(gpu['memory_total_bytes'] or 0) >> 20} MiB, {gpu['uuid']}",
        )
        for gpu in report["gpus"]
    ]
    return [Finding("NVIDIA driver", "ok", versions), *gpus]


def _tensorrt() -> list[Finding]:
    capabilities = [gpu["compute_capability"] for gpu in driver_report()["gpus"] if gpu["compute_capability"]]
    rows = examine_tensorrt(capabilities)
    return [Finding(component, cast(State, state), found, mend) for component, state, found, mend in rows]


def _cudnn() -> list[Finding]:
    """Of the wheels: what ONNX Runtime's CUDA provider loads."""
    packages = installed_distributions("nvidia-cudnn-cu")
    if not packages:
        mend = f"ONNX Runtime on CUDA needs it. {package('onnxruntime-gpu')}"
        return [Finding("cuDNN", "absent", "no wheel of it is installed", mend)]
    found = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
    if len(packages) > 1:
        mend = repair("Keep the one for the CUDA in use: pip uninstall the other.")
        return [Finding("cuDNN", "problem", found, mend)]
    return [Finding("cuDNN", "ok", found)]


def _onnxruntime() -> list[Finding]:
    installed = installed_packages()
    both = "onnxruntime" in installed and "onnxruntime-gpu" in installed
    if both:
        mend = "They overwrite each other's files. " + repair("Uninstall both with pip, then install the one you want.")
        return [Finding("ONNX Runtime", "problem", "onnxruntime and onnxruntime-gpu are both installed", mend)]
    for name in ("onnxruntime-gpu", "onnxruntime"):
        if version := installed.get(name):
            if version == ONNXRUNTIME_VERSION:
                return [Finding("ONNX Runtime", "ok", f"{name} {version}")]
            fix = repair(f"Run `pip install {name}=={ONNXRUNTIME_VERSION}`.")
            return [Finding("ONNX Runtime", "ok", f"{name} {version}", f"Tested with {ONNXRUNTIME_VERSION}. {fix}")]
    mend = f"For the CPU: {package('onnxruntime')} For CUDA 13: {package('onnxruntime-gpu')}"
    return [Finding("ONNX Runtime", "problem", "not installed", mend)]
