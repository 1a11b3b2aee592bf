"""Where TensorRT is on this machine: headers, libraries, versions, and what does not fit together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trt_workbench.core import launcher
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.workspace import tensorrt_root

# Oldest version that the native core supports.
MINIMUM_VERSION = (8, 6, 0)

_HEADER_PART = r"^\s*#define\s+(?:NV_TENSORRT_{0}|TRT_{0}_ENTERPRISE)\s+(\d+)"
# Asked in a process of its own: an opened library stays mapped, and a second TensorRT beside it breaks both.
_ASK_VERSION = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).getInferLibVersion())"

Version = tuple[int, int, int]

# Blackwell (SM 10.0 and 12.0); an older TensorRT has no kernels for it.
_BLACKWELL_MAJOR, _BLACKWELL_VERSION = 10, (10, 8, 0)


def setup_advice(*arguments: str) -> str:
    """Return the sentence that names the command which sets TensorRT up, with arguments."""
    return f"Run {launcher.task('setup-tensorrt', *arguments)}."


@dataclass(frozen=True)
class TensorRTTree:
    """One TensorRT folder tree and what it holds. A part that is absent is None.

    Attributes:
        root: the folder with `include/` and `lib/`, links resolved.
        headers_version: of `include/NvInferVersion.h`.
        library_version: as `libnvinfer` itself reports it.
        library_error: why `libnvinfer` is there but cannot be opened; empty otherwise.
        library: `libnvinfer.so.N`.
        plugin: `libnvinfer_plugin.so.N`.
        parser: `libnvonnxparser.so.N`.
        trtexec: the command-line tool of TensorRT.
    """

    root: Path
    headers_version: Version | None
    library_version: Version | None
    library_error: str
    library: Path | None
    plugin: Path | None
    parser: Path | None
    trtexec: Path | None

    def problems(self) -> list[str]:
        """Return what is missing or does not fit, one sentence each."""
        found = []
        if self.library is None:
            found.append(f"libnvinfer is missing in {self.root / 'lib'}.")
        elif self.library_version is None:
            found.append(f"libnvinfer cannot be opened ({self.library_error}).")
        elif self.library_version < MINIMUM_VERSION:
            minimum, version = format_version(MINIMUM_VERSION), format_version(self.library_version)
            found.append(f"TensorRT {version} is too old: {minimum} or newer is needed.")
        if self.headers_version is None:
            found.append(f"NvInferVersion.h is missing in {self.root / 'include'}.")
        if self.parser is None:
            found.append("The ONNX parser's library (libnvonnxparser) is missing.")
        if not (self.root / "include" / "NvOnnxParser.h").is_file():
            found.append("The ONNX parser's header (NvOnnxParser.h) is missing.")
        if mismatch := version_mismatch(self.headers_version, self.library_version):
            found.append(mismatch)
        return found


def format_version(version: Version) -> str:
    """Return `10.16.1` for `(10, 16, 1)`."""
    return ".".join(map(str, version))


def version_mismatch(headers: Version | None, library: Version | None) -> str:
    """Return a sentence if headers and library are of two major versions, else "": within one, interfaces only grow."""
    if headers is None or library is None or headers[0] == library[0]:
        return ""
    return f"The headers are TensorRT {format_version(headers)}, the libraries {format_version(library)}."


def decode_version(number: int) -> Version:
    """Return the version in a number of `getInferLibVersion`: 8600 is 8.6.0, 101601 is 10.16.1.

    The factor of the major number changed from 1000 to 10000 with TensorRT 10 (NvInferVersion.h).
    """
    factor = 10000 if number >= 100000 else 1000
    return number // factor, number % factor // 100, number % 100


def headers_version(include: Path) -> Version | None:
    """Read the version from `NvInferVersion.h` in the folder `include`; None without such a file."""
    file = include / "NvInferVersion.h"
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    parts = [re.search(_HEADER_PART.format(part), text, re.MULTILINE) for part in ("MAJOR", "MINOR", "PATCH")]
    if any(part is None for part in parts):
        return None
    major, minor, patch = (int(part[1]) for part in parts if part)
    return major, minor, patch


def library_version(library: Path) -> Version:
    """Ask `libnvinfer` for its version, in a process of its own.

    Raises:
        ComponentMissing: the library cannot be opened; the message quotes the loader.
    """
    from trt_workbench.core.workers import WorkerFailure, ask_python

    environment = dict(os.environ)
    folders = [str(library.parent), str(library.resolve().parent)]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *filter(None, [environment.get("LD_LIBRARY_PATH")])])
    try:
        return decode_version(int(ask_python(_ASK_VERSION, str(library), timeout_s=60, environment=environment)))
    except WorkerFailure as failure:
        raise ComponentMissing(f"TensorRT's library cannot be opened ({failure}): {library}") from failure


def find_library(folder: Path, stem: str) -> Path | None:
    """Return `stem.so.N` in `folder`, the newest and the one with the shortest name; None if there is none."""
    found = []
    for path in folder.glob(f"{stem}.so.*"):
        numbers = path.name.removeprefix(f"{stem}.so.").split(".")
        if path.is_file() and all(part.isdigit() for part in numbers):
            found.append((-int(numbers[0]), len(numbers), path))
    return min(found)[2] if found else None


def examine_tree(root: Path) -> TensorRTTree:
    """Examine a folder with `include/`, `lib/` and perhaps `bin/`. Opens the library in a process of its own."""
    library = find_library(root / "lib", "libnvinfer")
    version, reason = None, ""
    if library:
        try:
            version = library_version(library)
        except ComponentMissing as error:
            reason = str(error)
    trtexec = root / "bin" / "trtexec"
    return TensorRTTree(
        root=root.resolve(),
        headers_version=headers_version(root / "include"),
        library_version=version,
        library_error=reason,
        library=library,
        plugin=find_library(root / "lib", "libnvinfer_plugin"),
        parser=find_library(root / "lib", "libnvonnxparser"),
        trtexec=trtexec if trtexec.is_file() else None,
    )


def current_root() -> Path | None:
    """Return the TensorRT tree in use: `$TENSORRT_HOME`, else `extern/tensorrt/current`; None without either."""
    if chosen := os.environ.get("TENSORRT_HOME"):
        return Path(chosen)
    try:
        current = tensorrt_root() / "current"
    except UsageProblem:
        return None
    return current if current.is_dir() else None


def library_dir() -> Path | None:
    """Return the folder from which TensorRT's libraries are opened; None for the loader's own search path."""
    root = current_root()
    return root / "lib" if root and find_library(root / "lib", "libnvinfer") else None


def examine_tensorrt(compute_capabilities: Iterable[str] = ()) -> list[tuple[str, str, str, str]]:
    """Return rows (component, state, found, fix) about TensorRT for `doctor`; states "ok", "absent", "problem".

    Args:
        compute_capabilities: of this machine's GPUs, such as "12.0".
    """
    root = current_root()
    named = root is not None and not _is_default(root)
    if root is None or not (named or root.is_dir()):
        return [("TensorRT", "absent", "not set up", setup_advice())]
    unset = (
        "TENSORRT_HOME points to it: set it to another TensorRT, or unset it and use the one that "
        f"{launcher.task('setup-tensorrt')} installs."
    )
    if not root.is_dir():
        return [("TensorRT", "problem", f"TENSORRT_HOME points to a folder that does not exist: {root}", unset)]
    tree = examine_tree(root)
    archive = launcher.task("setup-tensorrt", "--from", "DIR")
    rows = [
        _row("TensorRT headers", tree.headers_version and format_version(tree.headers_version), root / "include"),
        _row("TensorRT library", tree.library_version and format_version(tree.library_version), tree.library),
        _row("TensorRT plugins", tree.plugin.name if tree.plugin else None, tree.plugin),
        _row("TensorRT ONNX parser", tree.parser.name if tree.parser else None, tree.parser),
        _row(
            "trtexec",
            "linked" if tree.trtexec else None,
            tree.trtexec,
            f"It is needed only for comparisons: {archive} links that of an archive.",
        ),
    ]
    fix = unset if named else f"{setup_advice()} Use --from DIR to choose another TensorRT."
    problems = [*tree.problems(), *unknown_gpus(tree.library_version, compute_capabilities)]
    return rows + [("TensorRT", "problem", problem, fix) for problem in problems]


def _is_default(root: Path) -> bool:
    """Whether `root` is what `setup-tensorrt` makes, under any name."""
    try:
        return root.resolve() == (tensorrt_root() / "current").resolve()
    except UsageProblem:
        return False


def unknown_gpus(library: Version | None, compute_capabilities: Iterable[str]) -> list[str]:
    """Return a sentence for each compute capability, such as "12.0", that a version of TensorRT does not know."""
    if library is None or library >= _BLACKWELL_VERSION:
        return []
    unknown = {text for text in compute_capabilities if int(text.partition(".")[0]) >= _BLACKWELL_MAJOR}
    needed = format_version(_BLACKWELL_VERSION)
    return [
        f"TensorRT {format_version(library)} is too old for compute capability {text}, which needs {needed} or newer."
        for text in sorted(unknown)
    ]


def _row(component: str, found: str | None, where: Path | None, fix: str = "") -> tuple[str, str, str, str]:
    if found:
        return (component, "ok", f"{found}, {where}", "")
    return (component, "absent", "not found", fix or setup_advice())
