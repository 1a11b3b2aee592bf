"""The steps of a build of ONNX Runtime: what is there, what is missing, and every command in order."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trt_workbench.core.counts import counted
from trt_workbench.core.environment import available_processors
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.gpu import driver_report
from trt_workbench.core.memory import available_bytes
from trt_workbench.core.sizes import sized
from trt_workbench.core.workers import python_command
from trt_workbench.core.workspace import extern_root, tensorrt_root
from trt_workbench.engine.tensorrt import current_root, setup_advice

ARGUMENTS = Path("tools/ci_build/build_args.py")
SCRIPT = Path("tools/ci_build/build.py")
VERSION_FILE = Path("VERSION_NUMBER")

# Every flag that a build may have. A test keeps them within it, and each run checks it against the tree that is built.
USED_FLAGS = (
    "--allow_running_as_root",
    "--build",
    "--build_dir",
    "--build_wheel",
    "--cmake_extra_defines",
    "--cmake_generator",
    "--compile_no_warning_as_error",
    "--config",
    "--cuda_home",
    "--cudnn_home",
    "--enable_cuda_minimal_build",
    "--nvcc_threads",
    "--parallel",
    "--skip_submodule_sync",
    "--skip_tests",
    "--tensorrt_home",
    "--update",
    "--use_cache",
    "--use_cuda",
    "--use_tensorrt",
)
_DEFINE = re.compile(r"^(onnxruntime_\w+)=")


def known_flags(source: Path) -> frozenset[str]:
    """Return the flags that a source tree's build script takes, read from its text: nothing of it is executed.

    Raises:
        UsageProblem: the tree has no such script.
    """
    path = source / ARGUMENTS
    if not path.is_file():
        raise UsageProblem(f"The folder is not a source tree of ONNX Runtime: it has no {ARGUMENTS}: {source}")
    flags = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            flags |= {
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("--")
            }
    return frozenset(str(flag) for flag in flags)


def check_command(source: Path, words: Sequence[str]) -> None:
    """Check every flag and every definition of a build command against the source tree.

    Raises:
        UsageProblem: the tree's build script or CMake files do not know one of them.
    """
    known = known_flags(source)
    unknown = [word for word in words if word.startswith("--") and word not in known]
    if unknown:
        raise UsageProblem(
            f"The build script of this source tree does not support {', '.join(unknown)}: {source / ARGUMENTS}"
        )
    definitions = [match[1] for word in words if (match := _DEFINE.match(word))]
    text = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in (source / "cmake").glob("*")
        if path.name == "CMakeLists.txt" or path.suffix == ".cmake"
    )
    missing = [name for name in definitions if not re.search(rf"\b{name}\b", text)]
    if missing:
        raise UsageProblem(f"The CMake files of this source tree do not know {', '.join(missing)}: {source / 'cmake'}")


def source_version(source: Path) -> str:
    """Return the version of a source tree; "" if it does not say."""
    path = source / VERSION_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


VERSION = "1.31.1"
REPOSITORY = "https://github.com/microsoft/onnxruntime.git"
# Memory that one compiler may take: nvcc on the attention kernels, and without them.
_GIB_PER_JOB = {False: 5.0, True: 2.0}

# SM 5.2 and newer, as CMake writes it: 90, 90a, 120f, 120-real
_ARCHITECTURE = re.compile(r"(5[2-9]|[6-9]\d|1\d\d)[af]?(-real|-virtual)?")

StepName = Literal["clone", "configure", "compile", "uninstall", "install", "check"]


@dataclass(frozen=True)
class BuildRequest:
    """What the user requests; None is detected.

    Attributes:
        source: a source tree to build instead of a clone.
        git: repository to clone, a URL or a path.
        tag: what to clone.
        minimal_cuda: build only what the TensorRT provider needs of the CUDA provider: no kernels, no cuDNN.
        architectures: CUDA architectures such as "120"; those of the GPUs here by default.
        jobs: compilers at once.
        tensorrt_home: tree with include/ and lib/.
        cuda_home: CUDA toolkit with nvcc.
        cudnn_home: folder with cuDNN's include/ and lib/.
        build_dir: where to build.
        python: interpreter that builds and gets the wheel.
        install: install the wheel and check it.
        other_version: accept a source tree of another version than `tag`.
    """

    source: Path | None = None
    git: str = REPOSITORY
    tag: str = f"v{VERSION}"
    minimal_cuda: bool = False
    architectures: tuple[str, ...] = ()
    jobs: int | None = None
    tensorrt_home: Path | None = None
    cuda_home: Path | None = None
    cudnn_home: Path | None = None
    build_dir: Path | None = None
    python: Path = field(default_factory=lambda: Path(sys.executable))
    install: bool = True
    other_version: bool = False


@dataclass(frozen=True)
class BuildStep:
    """One command. `words` of "check" are run with the environment of the build's user."""

    name: StepName
    words: tuple[str, ...]


@dataclass(frozen=True)
class BuildSteps:
    """Everything that will be done.

    Attributes:
        source: tree that is built.
        build_dir: where.
        tensorrt_home: TensorRT that it is built against.
        wheel_folder: where the wheel will lie.
        steps: in order; the words of "install" end with the wheel, known after the build.
        missing: what is absent on this machine, with the fix; a real run refuses to start with any.
        notes: what the user should know.
    """

    source: Path
    build_dir: Path
    tensorrt_home: Path
    wheel_folder: Path
    steps: tuple[BuildStep, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def step(self, name: StepName) -> BuildStep | None:
        """Return the step called `name`, None if the build has none."""
        return next((step for step in self.steps if step.name == name), None)


def prepare_steps(request: BuildRequest) -> BuildSteps:
    """Return the steps; changes nothing.

    Raises:
        UsageProblem: an option is out of range.
    """
    if request.jobs is not None and request.jobs < 1:
        raise UsageProblem(f"--jobs must be at least 1, not {request.jobs}.")
    if wrong := [name for name in request.architectures if not _ARCHITECTURE.fullmatch(name)]:
        raise UsageProblem(f"A CUDA architecture is a number such as 120 or 90a, not {wrong[0]!r}.")
    if request.source is not None and not (request.source / SCRIPT).is_file():
        raise UsageProblem(f"--source is not a source tree of ONNX Runtime: it lacks {SCRIPT}: {request.source}")
    missing: list[str] = []
    notes: list[str] = []
    root = extern_root() / "onnxruntime"
    source = request.source or root / request.tag
    build_dir = request.build_dir or root / f"build-{request.tag}{'-minimal' if request.minimal_cuda else ''}"
    tensorrt = request.tensorrt_home or current_root() or tensorrt_root() / "current"
    if not (tensorrt / "include" / "NvInfer.h").is_file():
        missing.append(f"TensorRT's headers are missing in {tensorrt / 'include'}. {setup_advice()}")
    arguments = [
        *_homes(request, tensorrt, missing),
        *_settings(request, missing, notes),
    ]
    script = (str(request.python), str(source / SCRIPT), "--build_dir", str(build_dir), "--config", "Release")
    steps: list[BuildStep] = []
    if request.source is None:
        clone = (
            "git",
            "clone",
            "--depth",
            "1",
            "--branch",
            request.tag,
            "--recurse-submodules",
            "--shallow-submodules",
        )
        steps.append(BuildStep("clone", (*clone, request.git, str(source))))
        _needs("git", missing)
    steps += [
        BuildStep("configure", (*script, "--update", *arguments)),
        BuildStep("compile", (*script, "--build", *arguments)),
    ]
    wheels = build_dir / "Release" / "dist"
    if request.install:
        pip = tuple(python_command("-m", "pip", python=request.python))
        steps += [
            BuildStep("uninstall", (*pip, "uninstall", "--yes", "onnxruntime", "onnxruntime-gpu")),
            BuildStep(
                "install", (*pip, "install", "--no-deps", "--force-reinstall", str(wheels / "onnxruntime_gpu-*.whl"))
            ),
            BuildStep("check", tuple(python_command("-c", CHECK, str(tensorrt), python=request.python))),
        ]
    return BuildSteps(source, build_dir, tensorrt, wheels, tuple(steps), tuple(missing), tuple(notes))


# Which TensorRT does the provider open? Exit code 0 only for the one that was set up.
CHECK = """
import ctypes, os, sys
import onnxruntime
home = os.path.realpath(sys.argv[1])
if "TensorrtExecutionProvider" not in onnxruntime.get_available_providers():
    sys.exit(f"the installed onnxruntime {onnxruntime.__version__} has no TensorrtExecutionProvider")
folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
onnxruntime.preload_dlls()
ctypes.CDLL(os.path.join(folder, "libonnxruntime_providers_shared.so"), ctypes.RTLD_GLOBAL)
ctypes.CDLL(os.path.join(folder, "libonnxruntime_providers_tensorrt.so"))
opened = {os.path.realpath(line.split()[-1]) for line in open("/proc/self/maps") if "libnvinfer.so" in line}
if not opened:
    sys.exit("the TensorRT provider opened no libnvinfer")
allowed = {os.path.realpath(os.path.join(home, "lib", name)) for name in os.listdir(os.path.join(home, "lib"))}
foreign = opened - allowed
if foreign:
    sys.exit(f"the TensorRT provider opened {sorted(foreign)}, not the one in {home}/lib")
print(f"onnxruntime {onnxruntime.__version__} with TensorrtExecutionProvider on {sorted(opened)[0]}")
""".strip()


def _homes(request: BuildRequest, tensorrt: Path, missing: list[str]) -> list[str]:
    cuda = request.cuda_home or _cuda_home()
    if cuda is None or not (cuda / "bin" / "nvcc").is_file():
        missing.append(
            f"nvcc is not in {(cuda or Path('$CUDA_HOME')) / 'bin'}; use a CUDA environment or pass --cuda-home."
        )
    words = [
        "--use_cuda",
        "--use_tensorrt",
        "--tensorrt_home",
        str(tensorrt),
        "--cuda_home",
        str(cuda or "/usr/local/cuda"),
    ]
    cudnn = request.cudnn_home or _folder_of("CUDNN_HOME")
    if request.minimal_cuda:
        return [*words, "--enable_cuda_minimal_build"]
    if cudnn is None or not any((cudnn / "include").glob("cudnn*.h")):
        missing.append("cuDNN's headers were not found; pass --cudnn-home, or --minimal-cuda, which needs none.")
    return [*words, "--cudnn_home", str(cudnn or "/usr")]


def _settings(request: BuildRequest, missing: list[str], notes: list[str]) -> list[str]:
    architectures = request.architectures or _architectures()
    if not architectures:
        missing.append("Without a GPU, the architecture is unknown; pass --arch, such as --arch 120 for an RTX 5090.")
    jobs = request.jobs or _jobs(request.minimal_cuda)
    processors = available_processors()
    notes.append(
        f"{counted(jobs, 'compiler')} in parallel: {sized(available_bytes())} of memory, "
        f"{counted(processors, 'processor')}."
    )
    words = ["--parallel", str(jobs), "--nvcc_threads", "1", "--build_wheel", "--skip_tests", "--skip_submodule_sync"]
    words += ["--compile_no_warning_as_error", "--cmake_generator", "Ninja"]
    for tool in ("cmake", "ninja"):
        _needs(tool, missing)
    if shutil.which("ccache"):
        words.append("--use_cache")
    else:
        notes.append("ccache is missing: a restarted build compiles everything again.")
    if os.geteuid() == 0:
        words.append("--allow_running_as_root")
    joined = ";".join(architectures) or "ARCH"
    return [*words, "--cmake_extra_defines", f"CMAKE_CUDA_ARCHITECTURES={joined}", "onnxruntime_BUILD_UNIT_TESTS=OFF"]


def _needs(tool: str, missing: list[str]) -> None:
    if shutil.which(tool) is None:
        missing.append(f"{tool} is not on PATH; install it from conda-forge or your distribution.")


def _cuda_home() -> Path | None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := _folder_of(variable):
            return folder
    nvcc = shutil.which("nvcc")
    return Path(nvcc).resolve().parent.parent if nvcc else None


def _folder_of(variable: str) -> Path | None:
    chosen = os.environ.get(variable)
    return Path(chosen) if chosen else None


def _architectures() -> tuple[str, ...]:
    found = {gpu["compute_capability"] for gpu in driver_report()["gpus"] if gpu["compute_capability"]}
    return tuple(sorted(capability.replace(".", "") for capability in found))


def _jobs(minimal: bool) -> int:
    return max(1, min(available_processors(), int(available_bytes() / 2**30 / _GIB_PER_JOB[minimal])))
