"""Flags of ONNX Runtime's build script: those that are used, and whether a source tree knows them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from trt_workbench.core.errors import UsageProblem

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
        raise UsageProblem(f"This is no source tree of ONNX Runtime: it has no {ARGUMENTS}: {source}")
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
            f"The build script of this source tree does not take {', '.join(unknown)}: {source / ARGUMENTS}"
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
