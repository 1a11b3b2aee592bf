"""The fixture `trees` makes TensorRT trees: small real shared libraries, and a git repository with tags."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

VERSION_HEADER = """#define NV_TENSORRT_MAJOR {0} //!< major
#define NV_TENSORRT_MINOR {1}
#define NV_TENSORRT_PATCH {2}
"""
ENTERPRISE_HEADER = """#define TRT_MAJOR_ENTERPRISE {0}
#define TRT_MINOR_ENTERPRISE {1}
#define TRT_PATCH_ENTERPRISE {2}
#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE //!< TensorRT major version.
#define NV_TENSORRT_MINOR TRT_MINOR_ENTERPRISE
#define NV_TENSORRT_PATCH TRT_PATCH_ENTERPRISE
"""


def compile_library(path: Path, version: tuple[int, int, int]) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    major, minor, patch = version
    number = major * (10000 if major >= 10 else 1000) + minor * 100 + patch
    path.parent.mkdir(parents=True, exist_ok=True)
    code = f"int getInferLibVersion(void) {{ return {number}; }}\n"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(path), "-"], input=code, text=True, check=True)


def write_headers(include: Path, version: tuple[int, int, int], *, parser: bool = True) -> None:
    include.mkdir(parents=True, exist_ok=True)
    template = ENTERPRISE_HEADER if version[0] >= 10 else VERSION_HEADER
    (include / "NvInferVersion.h").write_text(template.format(*version))
    (include / "NvInfer.h").write_text("// core\n")
    if parser:
        (include / "NvOnnxParser.h").write_text("// parser\n")


def make_libraries(folder: Path, version: tuple[int, int, int]) -> None:
    major = version[0]
    compile_library(folder / f"libnvinfer.so.{major}", version)
    for stem in ("libnvinfer_plugin", "libnvonnxparser"):
        compile_library(folder / f"{stem}.so.{major}", version)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


def headers_repository(folder: Path, versions: dict[str, tuple[int, int, int]], *, parser: bool = True) -> Path:
    """A repository with `include/` and one tag a version, as the public one of TensorRT has."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "samples").mkdir()
    (folder / "samples" / "big.txt").write_text("not wanted\n")
    for tag, version in versions.items():
        shutil.rmtree(folder / "include", ignore_errors=True)
        write_headers(folder / "include", version, parser=parser)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", tag)
        git(folder, "tag", tag)
    return folder


@pytest.fixture(scope="session")
def trees() -> SimpleNamespace:
    return SimpleNamespace(
        compile_library=compile_library,
        write_headers=write_headers,
        make_libraries=make_libraries,
        git=git,
        headers_repository=headers_repository,
    )
