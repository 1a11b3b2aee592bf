"""How the user started the workbench (pixi, tasks/run or pip), and the commands that fix things in those words."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from trt_workbench.core.gpu import first_gpu
from trt_workbench.core.workspace import repository, tensorrt_root

ONNXRUNTIME_VERSION = "1.31.1"

# Set by tasks/run (tasks/taskrunner.py) in addition to pixi's own variables.
_TASKS_RUN = "TRTW_TASKS_RUN"
_SCRIPTS = ("trtw", "build-engine", "infer-engine", "eval-coco", "eval-llm")
_UNKNOWN = "…"  # a command line that is none of ours
# Tasks that are not `trtw TASK` without pixi.
_WITHOUT_TASKS = {"build-native": "pip install ./cpp"}

# The environments of pixi.toml that hold CUDA's stack: those made for cards of one compute capability, the usual one
# first, and those for every card that CUDA 13 serves. test_launcher.py holds these tables to the manifest.
_CARD_ENVIRONMENTS = {"12.0": ("rtx5090", "rtx5090-llm", "rtx5090-trt11"), "9.0": ("h200",)}
_ANY_CARD = ("gpu", "gpu-llm", "gpu-trt11", "gpu-ort-rtx")


@dataclass(frozen=True)
class _Package:
    """How a package is installed: by pip, and in which environments of pixi.toml it is."""

    pip: str
    environments: tuple[str, ...]


_PACKAGES = {
    "onnxruntime": _Package(
        f"pip install onnxruntime=={ONNXRUNTIME_VERSION}",
        ("default", "dev", "dev-llm", "dev-readers", "llm", "mutation", "served", "rtx", "ray"),
    ),
    "onnxruntime-gpu": _Package(
        f'pip uninstall -y onnxruntime && pip install "onnxruntime-gpu[cuda,cudnn]=={ONNXRUNTIME_VERSION}"',
        ("gpu", "gpu-llm", "rtx5090", "rtx5090-llm", "h200", "gpu-ort-rtx", "stand-ins"),
    ),
    "torch": _Package("pip install 'torch>=2.10'", ("llm", "gpu-llm", "rtx5090-llm", "h200", "dev-llm")),
    "transformers": _Package(
        "pip install 'torch>=2.10' 'transformers>=5.17,<6'", ("llm", "gpu-llm", "rtx5090-llm", "h200", "dev-llm")
    ),
    # By the extra: pip keeps the package that is installed and adds what its extra names, in its version.
    "tritonclient": _Package(
        "pip install 'trt-workbench-serving[triton]'", ("served", "gpu", "rtx5090", "h200", "dev-readers")
    ),
    "tensorrt-rtx": _Package("pip install 'trt-workbench-rtx[compiler]'", ("rtx",)),
    "ray": _Package("pip install 'trt-workbench-fleet[ray]'", ("ray",)),
    "onnxruntime-ep-nv-tensorrt-rtx": _Package("pip install 'trt-workbench-rtx[ort]'", ("gpu-ort-rtx", "stand-ins")),
}


@dataclass(frozen=True)
class Launcher:
    """How this process was started.

    Attributes:
        kind: "pixi", "tasks/run" or "pip".
        environment: the environment of pixi.toml; None for "pip".
    """

    kind: Literal["pixi", "tasks/run", "pip"]
    environment: str | None = None

    def in_environment(self, environment: str, words: str) -> str:
        """Return the command line that runs `words`, a task and its arguments, in an environment."""
        return f"{'pixi run' if self.kind == 'pixi' else self.kind} -e {environment} {words}"


def launcher() -> Launcher:
    """Return how this process was started: both managers of environments say so in variables."""
    environment = os.environ.get("PIXI_ENVIRONMENT_NAME")
    if not environment or "PIXI_PROJECT_ROOT" not in os.environ:
        return Launcher("pip")
    return Launcher("tasks/run" if os.environ.get(_TASKS_RUN) else "pixi", environment)


def task(name: str, *arguments: str) -> str:
    """Return the command, in backquotes, that runs a task here: `pixi run -e gpu setup-tensorrt`.

    Tasks around TensorRT and the C++ core go to an environment for GPUs, all others to the one that is active.
    """
    started = launcher()
    words = " ".join([name, *arguments])
    if started.environment is None:
        command = f"`{' '.join([_WITHOUT_TASKS.get(name, f'trtw {name}'), *arguments])}`"
        return command if name != "build-native" or repository() else _outside(command)
    environment = started.environment
    if name == "build-ort":
        environment = next(name for name in (environment, *_suited(), *_ANY_CARD) if name.endswith("-trt11"))
    elif name in ("setup-tensorrt", "build-native") and environment not in (
        *_ANY_CARD,
        *chain(*_CARD_ENVIRONMENTS.values()),
    ):
        environment = gpu_environment()
    return f"`{started.in_environment(environment, words)}`"


def package(name: str) -> str:
    """Return the sentence that installs a package of `_PACKAGES`; it says pip only outside managed environments."""
    started, wanted = launcher(), _PACKAGES[name]
    if started.environment is None:
        return f"Run `{wanted.pip}`."
    if holds(started.environment, name):
        return _remake(started)
    suited = [environment for environment in _suited() if holds(environment, name)]
    command = started.in_environment((suited or wanted.environments)[0], this_command())
    return f"Use an environment that has it: `{command}`."


def plug_in(name: str) -> str:
    """Return the sentence that installs a plug-in, a folder of python/plugins in the repository."""
    command = f"`pip install ./python/plugins/{name}`"
    return repair(f"Run {command if repository() else f'{command} in a clone of the repository'}.")


def holds(environment: str, name: str) -> bool:
    """Whether an environment of pixi.toml holds a package of `_PACKAGES`."""
    return environment in _PACKAGES[name].environments


def repair(pip: str) -> str:
    """Return the sentence that repairs the installed packages: the given one for pip, else a new environment."""
    started = launcher()
    return pip if started.environment is None else _remake(started)


def gpu_environment() -> str:
    """Return the environment of pixi.toml for this machine's GPU."""
    return next(iter(_suited()), _ANY_CARD[0])


def card_environment() -> str | None:
    """Return the environment that is made for this machine's GPU where the active one is `gpu`, else None."""
    usual = gpu_environment()
    return usual if launcher().environment == _ANY_CARD[0] != usual else None


def this_command() -> str:
    """Return the command line of this process as a task and its arguments."""
    place = Path(sys.argv[0])
    program = "trtw" if place.parts[-2:] == ("trt_workbench", "__main__.py") else place.name
    return shlex.join([program, *sys.argv[1:]]) if program in _SCRIPTS else _UNKNOWN


def continuing(directory: Path) -> str:
    """Return the command line, in backquotes, that goes on with the unfinished run of this command in a directory."""
    command, started = this_command(), launcher()
    named = command != _UNKNOWN and any(word.startswith(("-o", "--output")) for word in sys.argv)
    if started.environment and command != _UNKNOWN:
        command = started.in_environment(started.environment, command)
    return f"`{command}{'' if named else f' --output {shlex.quote(str(directory))}'}`"


def _outside(command: str) -> str:
    """Say where the C++ core is, which no installed package has, and where its headers are."""
    return f"{command} in a clone of the repository, with TENSORRT_HOME={shlex.quote(str(tensorrt_root() / 'current'))}"


def _remake(started: Launcher) -> str:
    if started.kind == "pixi":
        return f"Install the environment again: `pixi clean -e {started.environment}`, then the same command."
    return f"Remove tmp/venvs/{started.environment}, then run the same command again, which creates it."


def _suited() -> tuple[str, ...]:
    """Return the environments that serve this machine's GPU, best first; none without a GPU."""
    gpu = first_gpu()
    capability = gpu["compute_capability"] if gpu else None
    return (*_CARD_ENVIRONMENTS.get(capability, ()), *_ANY_CARD) if capability else ()
