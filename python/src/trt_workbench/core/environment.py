"""The environment as evidence: what `env.json` of every run directory holds."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trt_workbench import __version__
from trt_workbench.core.extensions import extension_packages
from trt_workbench.core.gpu import driver_report

# Settings of a repository that name programs, which commands as harmless as `status` start.
_HARMLESS = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null")


def ask_git(root: Path, *arguments: str, timeout_s: float = 10) -> str:
    """Return what a command that only reads prints about the repository whose work tree is `root`.

    No setting outside the repository is read, and no variable `GIT_…`; no folder above `root` is taken for it.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: `root` is no repository, or the command failed or took too long.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(root.parent),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    # the code of this work tree is what runs here, whoever owns its files
    command = ["git", "-C", str(root), *_HARMLESS, "-c", f"safe.directory={root}", *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=timeout_s, env=environment
    ).stdout


# Where this file lies in the repository.
_OWN_PLACE = Path("python", "src", "trt_workbench", "core", "environment.py")

PACKAGES = (
    "trt-workbench",
    "trt-workbench-native",
    "numpy",
    "opencv-python-headless",
    "hotcoco",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "tensorrt",
    "tensorrt-cu13",
    "torch",
    "transformers",
)
# Variables that change what a runtime loads or how fast it runs.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "LD_LIBRARY_PATH",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PIXI_ENVIRONMENT_NAME",
    "TENSORRT_HOME",
)


def collect_environment(command_line: Sequence[str]) -> dict[str, Any]:
    """Return everything about this machine and process that a measured number depends on, as JSON values."""
    import psutil

    return {
        "schema_version": 1,
        "command_line": list(command_line),
        "workbench_version": __version__,
        "git": git_revision(),
        "python": platform.python_version(),
        "packages": installed_packages(),
        "os": _os_name(),
        "kernel": platform.release(),
        "cpu": cpu_report(),
        "memory_total_bytes": psutil.virtual_memory().total,
        "driver": driver_report(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def installed_packages() -> dict[str, str]:
    """Return the versions of the packages that matter here, those that are installed."""
    import importlib.metadata

    versions = extension_packages()
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def installed_distributions(prefix: str) -> dict[str, str]:
    """Return the versions of the installed packages whose names begin with `prefix`."""
    import importlib.metadata

    found = ((entry.metadata["Name"], entry.version) for entry in importlib.metadata.distributions())
    return {name: version for name, version in found if name and name.lower().startswith(prefix)}


def available_processors() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0))


def cpu_report() -> dict[str, Any]:
    """Return the processor's model, how many this process may use, and the frequency governor."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "model": _cpu_model(),
        "processors": os.cpu_count(),
        "processors_available": available_processors(),
        "governor": governor.read_text().strip() if governor.is_file() else None,
    }


def git_revision() -> dict[str, Any]:
    """Return the commit of the repository that this package belongs to, and whether its tree differs from it.

    None where git cannot tell. A package that is installed, not developed in place, belongs to no repository:
    the one that it is used in is not asked.
    """
    root = Path(__file__).resolve().parents[4]
    try:
        if not (root / ".git").exists() or not Path(__file__).samefile(root / _OWN_PLACE):
            return {"commit": None, "dirty": None}
        commit = ask_git(root, "rev-parse", "HEAD").strip()
        changes = ask_git(root, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
        return {"commit": commit, "dirty": bool(changes)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.platform()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
