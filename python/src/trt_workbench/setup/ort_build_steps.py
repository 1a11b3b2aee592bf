"""The steps of a build of ONNX Runtime's TensorRT provider: what is missing, and every command in order."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from trt_workbench.backends.ort.common import TENSORRT_PROVIDER, release
from trt_workbench.backends.ort.libraries import FILES
from trt_workbench.backends.ort.plugin import PLUGIN_MINIMUM, plugin_file
from trt_workbench.core.counts import sized
from trt_workbench.core.environment import available_processors, installed_packages
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.gpu import driver_report
from trt_workbench.core.launcher import ONNXRUNTIME_VERSION, package
from trt_workbench.core.memory import available_bytes
from trt_workbench.core.workers import python_command
from trt_workbench.core.workspace import extern_root, tensorrt_root
from trt_workbench.engine.tensorrt import (
    Version,
    current_root,
    find_library,
    format_version,
    headers_version,
    setup_advice,
)

REPOSITORY = "https://github.com/microsoft/onnxruntime.git"
PLUGIN_REPOSITORY = "https://github.com/onnxruntime/onnxruntime-ep-tensorrt.git"
PLUGIN_COMMIT = "3c4eadbb8d69e98f2ae9dd6f8693a05a979663da"
SCRIPT = Path("tools/ci_build/build.py")
PLUGIN_TARGET = "onnxruntime_ep_tensorrt"
TENSORRT_LIBRARIES = ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser")
LINKS = "links"
"""Folder of a build with links to TensorRT and ONNX Runtime, under the names that their builds look for."""

Product = Literal["plugin", "provider", "whole"]
"""The stand-alone plug-in, the provider's library of one ONNX Runtime, or all of ONNX Runtime."""
StepName = Literal["clone", "checkout", "configure", "compile", "uninstall", "install"]

# The oldest TensorRT that the plug-in compiles against.
_PLUGIN_TENSORRT = 10
# Memory in bytes that one compiler may take: nvcc on the kernels of the CUDA provider, and without them.
_KERNELS, _PLAIN = 5 * 2**30, 2 * 2**30
# glibc 2.41 refuses a library with an executable stack. The plug-in uses nothing of libonnxruntime.so, which no wheel
# has under the name that it would need.
_LINKER_FLAGS = ("-Wl,-z,noexecstack", "-Wl,--as-needed")
# The plug-in names two things that TensorRT 11 has not, in a function that it does not call there and for the DLA: it
# compiles with things in their place that change nothing (TF32 is on by default).
_TENSORRT_11 = ("'-DsetDynamicRange(low,high)=isNetworkInput()'", "-DkFP16=kTF32")
# Libraries are found at run time as the wheel's provider finds them. No package of the environment is compiled in:
# ONNX Runtime names the versions that it takes.
_PROVIDER = (
    "CMAKE_SKIP_BUILD_RPATH=ON",
    "FETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER",
    "onnxruntime_BUILD_UNIT_TESTS=OFF",
)
# What costs most to compile.
_WITHOUT = ("FLASH_ATTENTION", "LEAN_ATTENTION", "MEMORY_EFFICIENT_ATTENTION", "FPA_INTB_GEMM")
_DEFINITIONS: dict[Product, tuple[str, ...]] = {
    "plugin": ("CMAKE_BUILD_TYPE=Release", "CMAKE_SKIP_BUILD_RPATH=ON"),
    "provider": _PROVIDER,
    "whole": (*_PROVIDER, *(f"onnxruntime_USE_{name}=OFF" for name in _WITHOUT)),
}
# SM 5.2 and newer, as CMake writes it: 90, 90a, 120f, 120-real
_ARCHITECTURE = re.compile(r"(5[2-9]|[6-9]\d|1\d\d)[af]?(-real|-virtual)?")


@dataclass(frozen=True)
class BuildRequest:
    """What the user requests; None is detected.

    Attributes:
        whole: build all of ONNX Runtime, not the provider alone.
        sources: trees to build instead of clones, of ONNX Runtime or of the plug-in.
        architectures: CUDA architectures such as "120"; those of the GPUs here by default.
        jobs: compilers at once.
        tensorrt_home: tree with include/ and lib/.
        cuda_home: CUDA toolkit with nvcc.
        cudnn_home: folder with cuDNN's include/ and lib/.
        build_dir: where to build.
        definitions: for CMake, NAME=VALUE.
        install: install what was built.
    """

    whole: bool = False
    sources: tuple[Path, ...] = ()
    architectures: tuple[str, ...] = ()
    jobs: int | None = None
    tensorrt_home: Path | None = None
    cuda_home: Path | None = None
    cudnn_home: Path | None = None
    build_dir: Path | None = None
    definitions: tuple[str, ...] = ()
    install: bool = True


@dataclass(frozen=True)
class BuildStep:
    """One command; the last word of one that clones or installs is where to."""

    name: StepName
    words: tuple[str, ...]


@dataclass(frozen=True)
class BuildSteps:
    """Everything that will be done.

    Attributes:
        product: what is built.
        version: of the ONNX Runtime that it is for.
        source: tree of ONNX Runtime.
        build_dir: where.
        tensorrt_home: TensorRT that it is built against.
        built: the library that the build makes; of all of ONNX Runtime the folder of its wheel.
        steps: in order.
        missing: what is absent on this machine, with the fix; a real run refuses to start with any.
    """

    product: Product
    version: str
    source: Path
    build_dir: Path
    tensorrt_home: Path
    built: Path
    steps: tuple[BuildStep, ...]
    missing: tuple[str, ...]


def prepare_steps(request: BuildRequest) -> BuildSteps:
    """Return the steps; changes nothing.

    Raises:
        UsageProblem: an option is out of range, or a source tree is of something else.
    """
    if wrong := [name for name in request.architectures if not _ARCHITECTURE.fullmatch(name)]:
        raise UsageProblem(f"A CUDA architecture is a number such as 120 or 90a, not {wrong[0]!r}.")
    if wrong := [text for text in request.definitions if "=" not in text]:
        raise UsageProblem(f"--define takes NAME=VALUE, not {wrong[0]!r}.")
    folders = ("tensorrt_home", "cuda_home", "cudnn_home", "build_dir")  # read by commands that run elsewhere
    absolute = {name: folder.absolute() for name in folders if (folder := getattr(request, name))}
    request = replace(request, sources=tuple(tree.absolute() for tree in request.sources), **absolute)
    missing: list[str] = []
    tensorrt = request.tensorrt_home or current_root() or tensorrt_root() / "current"
    headers = _headers(tensorrt, missing)
    product, version = _product(request, headers, missing)
    root = extern_root() / "onnxruntime"
    name = f"build-{product}-{version}-tensorrt-{format_version(headers)}"
    build_dir = request.build_dir or root / name
    own = {"onnxruntime": root / f"v{version}", "plugin": root / "ep-tensorrt"}
    given = dict(map(_named, request.sources))
    trees = own | given
    steps = [] if "onnxruntime" in given else [_clone(REPOSITORY, own["onnxruntime"], f"v{version}")]
    if product == "plugin" and "plugin" not in given:
        checkout = ("git", "-C", str(own["plugin"]), "checkout", "--quiet", PLUGIN_COMMIT)
        steps += [_clone(PLUGIN_REPOSITORY, own["plugin"]), BuildStep("checkout", checkout)]
    missing += [
        f"{tool} is not on PATH; install it from conda-forge or your distribution."
        for tool in ("cmake", "ninja", *(["git"] if steps else []))
        if shutil.which(tool) is None
    ]
    nvcc = Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    cuda = _home(request.cuda_home, "CUDA_HOME", "CUDA_PATH") or nvcc.resolve().parent.parent
    if not (cuda / "bin" / "nvcc").is_file():
        missing.append(f"nvcc is not in {cuda / 'bin'}; use a CUDA environment or pass --cuda-home.")
    found = {gpu["compute_capability"] for gpu in driver_report()["gpus"] if gpu["compute_capability"]}
    architectures = request.architectures or sorted(capability.replace(".", "") for capability in found)
    if not architectures:
        missing.append("Without a GPU, the architecture is unknown; pass --arch, such as --arch 120 for an RTX 5090.")
    jobs = _jobs(request, product, missing)
    definitions = [f"CMAKE_CUDA_ARCHITECTURES={';'.join(architectures) or 'ARCH'}", *_DEFINITIONS[product]]
    if product == "plugin":
        built = build_dir / f"lib{PLUGIN_TARGET}.so"
        links = {"TENSORRT_HOME": build_dir / LINKS / "tensorrt", "ORT_HOME": build_dir / LINKS / "onnxruntime"}
        definitions += [f"{name}={place}" for name, place in links.items()]
        definitions += [f"TRT_MAJOR_VERSION={headers[0]}", f"CMAKE_CUDA_COMPILER={cuda / 'bin' / 'nvcc'}"]
        words = [f"-D{one}" for one in (*definitions, *request.definitions)]
        configure = ("cmake", "-S", str(trees["plugin"]), "-B", str(build_dir), "-G", "Ninja", *words)
        compile_: tuple[str, ...] = (
            "cmake",
            "--build",
            str(build_dir),
            "--parallel",
            str(jobs),
            "--target",
            PLUGIN_TARGET,
        )
    else:
        built = build_dir / "Release" / ("dist" if product == "whole" else FILES[TENSORRT_PROVIDER])
        script = (sys.executable, str(trees["onnxruntime"] / SCRIPT), "--build_dir", str(build_dir), "--config")
        words = _script_words(request, product, build_dir, cuda, jobs, missing)
        words += ["--cmake_extra_defines", *definitions, *request.definitions]
        configure = (*script, "Release", "--update", *words)
        compile_ = (*script, "Release", "--build", *words)
    flags = [_flags("LDFLAGS", _LINKER_FLAGS)]
    if product == "plugin" and headers[0] > _PLUGIN_TENSORRT:
        flags.append(_flags("CXXFLAGS", _TENSORRT_11))
    steps += [BuildStep("configure", ("env", *flags, *configure)), BuildStep("compile", compile_)]
    if request.install:
        steps += _installation(product, built, plugin_file(version, headers[0]))
    return BuildSteps(product, version, trees["onnxruntime"], build_dir, tensorrt, built, tuple(steps), tuple(missing))


def _headers(tensorrt: Path, missing: list[str]) -> Version:
    """Return the version of TensorRT's headers; 0.0.0 without any, which is missing."""
    found = headers_version(tensorrt / "include")
    if found is None:
        missing.append(f"TensorRT's headers are missing in {tensorrt / 'include'}. {setup_advice()}")
        return (0, 0, 0)
    absent = [stem for stem in TENSORRT_LIBRARIES if find_library(tensorrt / "lib", stem) is None]
    missing += [f"{stem} is missing in {tensorrt / 'lib'}. {setup_advice()}" for stem in absent]
    return found


def _product(request: BuildRequest, headers: Version, missing: list[str]) -> tuple[Product, str]:
    """Return what to build, and for which ONNX Runtime: the one that is installed."""
    installed = installed_packages()
    name = "onnxruntime-gpu" if "onnxruntime-gpu" in installed else "onnxruntime"
    version = installed.get(name, ONNXRUNTIME_VERSION)
    if request.whole:
        return "whole", version
    if name not in installed:
        missing.append(f"ONNX Runtime is not installed; a provider is built for one version of it. {package(name)}")
    if (headers[0] or _PLUGIN_TENSORRT) >= _PLUGIN_TENSORRT and release(version) >= release(PLUGIN_MINIMUM):
        return "plugin", version
    if name == "onnxruntime" or headers[0] > _PLUGIN_TENSORRT:
        missing.append(
            f"{name} {version} cannot load a provider for TensorRT {format_version(headers)}: the plug-in needs "
            f"ONNX Runtime {PLUGIN_MINIMUM} and TensorRT {_PLUGIN_TENSORRT} or newer, the provider of ONNX Runtime "
            f"itself needs onnxruntime-gpu and TensorRT {_PLUGIN_TENSORRT} or older."
        )
    return "provider", version


def _named(tree: Path) -> tuple[str, Path]:
    """Return which source tree a folder holds, and the folder."""
    marks = {"onnxruntime": SCRIPT, "plugin": Path("src/tensorrt_provider_factory.cc")}
    for name, mark in marks.items():
        if (tree / mark).is_file():
            return name, tree
    lacks = " nor ".join(map(str, marks.values()))
    raise UsageProblem(f"--source is neither ONNX Runtime's source tree nor its plug-in's: it has no {lacks}: {tree}")


def _clone(url: str, tree: Path, tag: str = "") -> BuildStep:
    depth = ("--depth", "1", "--branch", tag) if tag else ()
    return BuildStep("clone", ("git", "clone", *depth, url, str(tree)))


def _script_words(
    request: BuildRequest, product: Product, build_dir: Path, cuda: Path, jobs: int, missing: list[str]
) -> list[str]:
    """Return the words for ONNX Runtime's build script, without definitions for CMake."""
    cudnn = _home(request.cudnn_home, "CUDNN_HOME")
    if cudnn is None or not any((cudnn / "include").glob("cudnn*.h")):
        missing.append("cuDNN's headers were not found, without which ONNX Runtime is not built; pass --cudnn-home.")
    homes = {"tensorrt": build_dir / LINKS / "tensorrt", "cuda": cuda, "cudnn": cudnn or Path("/usr")}
    return [
        *(
            "--use_cuda",
            "--use_tensorrt",
            *(word for name, home in homes.items() for word in (f"--{name}_home", str(home))),
        ),
        *("--parallel", str(jobs), "--nvcc_threads", "1", "--skip_tests", "--skip_submodule_sync"),
        *("--compile_no_warning_as_error", "--cmake_generator", "Ninja", "--allow_running_as_root"),
        *(["--build_wheel"] if product == "whole" else ["--target", "onnxruntime_providers_tensorrt"]),
    ]


def _installation(product: Product, built: Path, plugin: Path) -> list[BuildStep]:
    if product != "whole":
        place = plugin if product == "plugin" else (onnxruntime_libraries() or Path("onnxruntime/capi")) / built.name
        return [BuildStep("install", ("cp", str(built), str(place)))]
    pip = tuple(python_command("-m", "pip"))
    wheel = str(built / "onnxruntime_gpu-*.whl")
    return [
        BuildStep("uninstall", (*pip, "uninstall", "--yes", "onnxruntime", "onnxruntime-gpu")),
        BuildStep("install", (*pip, "install", "--no-deps", "--force-reinstall", wheel)),
    ]


def onnxruntime_libraries() -> Path | None:
    """Return the folder with the libraries of the installed ONNX Runtime; None without one."""
    found = importlib.util.find_spec("onnxruntime")
    return Path(found.origin).parent / "capi" if found and found.origin else None


def _jobs(request: BuildRequest, product: Product, missing: list[str]) -> int:
    """Return how many compilers run at once."""
    free = available_bytes()
    each = _KERNELS if product == "whole" else _PLAIN
    fitting = free // each
    if request.jobs is None and not fitting:
        missing.append(
            f"One compiler takes up to {sized(each)}, and {sized(free)} of memory is free; pass --jobs 1 to try."
        )
    return request.jobs or max(1, min(available_processors(), fitting))


def _flags(variable: str, added: tuple[str, ...]) -> str:
    """Return a variable with flags for a compiler, for `env`: the user's, then those that are added."""
    return f"{variable}={' '.join(filter(None, [os.environ.get(variable), *added]))}"


def _home(given: Path | None, *variables: str) -> Path | None:
    """Return a folder that was given, or that the first of some variables names."""
    return given or next((Path(folder) for name in variables if (folder := os.environ.get(name))), None)
