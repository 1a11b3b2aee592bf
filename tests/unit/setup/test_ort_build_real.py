"""The commands of `build-ort`, given to the real build scripts of ONNX Runtime, with a stand-in for CMake alone.

$TRTW_ORT_SOURCES names source trees, separated by colons; `.ci/run` fetches one by tests/ort_source.py.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.setup.test_ort_build import tensorrt

from trt_workbench.setup import ort_build_steps
from trt_workbench.setup.ort_build_steps import BuildRequest, BuildSteps, prepare_steps

SOURCES = [Path(name) for name in os.environ.get("TRTW_ORT_SOURCES", "").split(":") if name]
pytestmark = pytest.mark.skipif(not SOURCES, reason="$TRTW_ORT_SOURCES names no source tree of ONNX Runtime")

# Notes how it is called. The build script asks it for its version.
CMAKE = """#!/bin/sh
case "$1" in --version) echo cmake version 3.31.0;; *) printf '%s\\n' "$@" >> {log};; esac
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BuildSteps]:
    version = "1.21.0"
    monkeypatch.setattr(ort_build_steps, "installed_packages", lambda: {"onnxruntime-gpu": version})
    for folder, file, text in (
        ("cuda/bin", "nvcc", "#!/bin/sh\n"),
        ("cudnn/include", "cudnn.h", ""),
        ("tools", "ninja", "#!/bin/sh\n"),
        ("tools", "cmake", CMAKE.format(log=tmp_path / "log")),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_text(text)
        (tmp_path / folder / file).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{os.environ['PATH']}")
    (tmp_path / "build" / "links").mkdir(parents=True)
    (tmp_path / "build" / "links" / "tensorrt").symlink_to(tensorrt(tmp_path / "trt", 8, 6))

    def prepared(source: Path, **changes: object) -> BuildSteps:
        request = BuildRequest(
            sources=(source.absolute(),),
            architectures=("90", "120"),
            tensorrt_home=tmp_path / "trt",
            cuda_home=tmp_path / "cuda",
            cudnn_home=tmp_path / "cudnn",
            build_dir=tmp_path / "build",
            definitions=("FETCHCONTENT_SOURCE_DIR_CUTLASS=/cutlass",),
        )
        return prepare_steps(replace(request, **changes))

    return prepared


def run(build: BuildSteps, name: str, log: Path) -> list[str]:
    """Run one step for real; return the words that CMake got."""
    (words,) = (step.words for step in build.steps if step.name == name)
    log.unlink(missing_ok=True)
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return log.read_text().splitlines()


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_the_provider_alone(plan: Callable[..., BuildSteps], source: Path, tmp_path: Path) -> None:
    build = plan(source)
    assert (build.product, build.missing) == ("provider", ())
    words = run(build, "configure", tmp_path / "log")
    for word in (
        "-Donnxruntime_USE_TENSORRT=ON",
        "-Donnxruntime_USE_TENSORRT_BUILTIN_PARSER=ON",
        "-Donnxruntime_USE_CUDA=ON",
        # its streams serve the CUDA provider, too, which needs cuBLAS and cuDNN in them
        "-Donnxruntime_CUDA_MINIMAL=OFF",
        f"-Donnxruntime_TENSORRT_HOME={tmp_path / 'build' / 'links' / 'tensorrt'}",
        f"-Donnxruntime_CUDNN_HOME={tmp_path / 'cudnn'}",
        f"-DCMAKE_CUDA_COMPILER={tmp_path / 'cuda' / 'bin' / 'nvcc'}",
        "-DCMAKE_CUDA_ARCHITECTURES=90;120",
        "-DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER",
        "-DFETCHCONTENT_SOURCE_DIR_CUTLASS=/cutlass",
        "-DCMAKE_BUILD_TYPE=Release",
    ):
        assert word in words
    built = run(build, "compile", tmp_path / "log")
    assert built[built.index("--target") + 1] == "onnxruntime_providers_tensorrt"


@pytest.mark.parametrize("minimal", [False, True])
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_all_of_it(plan: Callable[..., BuildSteps], source: Path, minimal: bool, tmp_path: Path) -> None:
    definitions = ("onnxruntime_CUDA_MINIMAL=ON",) if minimal else ()
    build = plan(source, whole=True, jobs=1, definitions=definitions)
    assert (build.product, build.missing) == ("whole", ())
    words = run(build, "configure", tmp_path / "log")
    # of several, CMake takes the last
    assert [word for word in words if "CUDA_MINIMAL" in word][-1].endswith("ON" if minimal else "OFF")
    assert f"-Donnxruntime_CUDNN_HOME={tmp_path / 'cudnn'}" in words
    assert "-Donnxruntime_ENABLE_PYTHON=ON" in words
    text = (source / "cmake" / "CMakeLists.txt").read_text()
    for name in ("FLASH_ATTENTION", "LEAN_ATTENTION", "MEMORY_EFFICIENT_ATTENTION", "FPA_INTB_GEMM"):
        assert f"-Donnxruntime_USE_{name}=OFF" in words
        assert f"onnxruntime_USE_{name}" in text or name == "FPA_INTB_GEMM"  # which older releases lack
