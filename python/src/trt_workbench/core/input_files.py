"""Reading files from outside: only regular files, of bounded size; damaged JSON always raises ValueError."""

from __future__ import annotations

import errno
import functools
import io
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Of documents that are kept in memory whole, several times over once they are parsed; COCO's largest has 470 MB.
MOST_BYTES = 2**31
# Of texts and documents but for COCO's: detections on COCO's 5,000 images have 50 MB.
MOST_TEXT = 2**29
_CHUNK = 2**20
# Every digit is a 0 in these: what a number has that may be beyond the largest one.
_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")
_MAY_OVERFLOW = (b"e000", b"e+000", b"0" * 19)
_KINDS = (
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISSOCK, "it is a socket"),
)
_MADE_UP = (Path("/proc"), Path("/sys"))  # plain folders in a root where nothing is mounted there

_OF_LANGUAGE_MODELS, _CHECKPOINTS = ".safetensors", (".pt", ".pth", ".ckpt")


def checkpoint_problem(path: Path) -> str:
    """Return what to do with a file of weights where a model is asked for; "" for any other file."""
    if path.suffix.lower() == _OF_LANGUAGE_MODELS:
        return f"These are weights, not an ONNX model; `trtw eval-llm` and `trtw export-llm` take their folder: {path}"
    if path.suffix.lower() not in _CHECKPOINTS:
        return ""
    return (
        f"This is a checkpoint, not an ONNX model. Export it first: `yolo export model={path.name} format=onnx` of "
        f"Ultralytics, or torch.onnx.export: {path}"
    )


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; nothing else is waited for.

    Raises:
        OSError: it is absent, cannot be read, or is a folder, a pipe, a device or a socket; `strerror` says which.
    """
    # O_NONBLOCK: to open a pipe without a writer would wait for one
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        require_regular(path, os.fstat(handle))
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(path: Path, status: os.stat_result | None = None) -> None:
    """Raise OSError unless `path` is a regular file; for libraries that open files themselves."""
    status = status or path.stat()
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = next((words for test, words in _KINDS if test(mode)), "it is not a file")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", str(path))
    if status.st_dev in _made_up():
        raise OSError(errno.EINVAL, "it is a file of the operating system, not a regular file", str(path))


@functools.cache
def _made_up() -> frozenset[int]:
    """Return the devices of file systems whose files the kernel makes up: to read some of them waits for ever."""
    return frozenset(place.stat().st_dev for place in _MADE_UP if place.is_mount())


def read_bytes(path: Path, limit: int = MOST_BYTES, *, text: bool = False) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Args:
        path: the file.
        limit: in bytes.
        text: refuse a file with NUL bytes, such as one of zeros only, before all of it is read.

    Raises:
        OSError: as `open_regular`, the file is larger, or it is no text.
    """
    with open_regular(path) as file:
        if text and os.fstat(file.fileno()).st_size <= limit:
            while data := file.read(_CHUNK):
                if b"\0" in data:
                    raise OSError(errno.EINVAL, "it holds NUL bytes, so it is not text", str(path))
            file.seek(0)
        return read_all(file, path, limit)


def read_all(file: io.BufferedReader, path: Path, limit: int = MOST_BYTES) -> bytes:
    """Return the content of a file that `open_regular` opened. Raises OSError if it is larger than `limit` bytes."""
    size = os.fstat(file.fileno()).st_size
    data = file.read(size + 1) if size <= limit else b""
    # a file may grow
    while size < len(data) <= limit and (more := file.read(_CHUNK)):
        data += more
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"it exceeds the limit of {limit} bytes", str(path))
    return data


def read_text(path: Path, limit: int = MOST_TEXT) -> str:
    """Return the UTF-8 text in a regular file, without a byte order mark, which Windows' editors write.

    Raises:
        OSError: as `read_bytes`.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_bytes(path, limit, text=True).decode("utf-8-sig")


def parse_json(
    text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None, *, finite: bool = True
) -> Any:
    """Return what a JSON text holds.

    Args:
        text: the text.
        object_hook: as `json.loads` takes it.
        finite: refuse NaN and Infinity, which JSON does not have (RFC 8259) but Python reads, what is read as such, and
            whole numbers of more than 64 bits.

    Raises:
        ValueError: it is no JSON, nested too deeply, or holds a number with too many digits or one that is not finite.
    """
    hooks: dict[str, Any] = {"object_hook": object_hook}
    if finite:
        hooks["parse_constant"] = _finite
    try:
        found = json.loads(text, **hooks)
        # a function for every float takes long; few texts have one that could overflow
        if finite and _may_overflow(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")):
            return json.loads(text, **hooks, parse_float=_finite, parse_int=_whole)
        return found
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _may_overflow(text: bytes) -> bool:
    shapes = text.translate(_SHAPES)  # three searches for fixed bytes: a pattern takes six times as long
    return any(one in shapes for one in _MAY_OVERFLOW)


def _whole(number: str) -> int:
    if len(number) > 20 or not -(2**63) <= (value := int(number)) < 2**64:
        raise ValueError(f"a number has more than 64 bits: {number[:20]}")
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"a number is not finite: {number[:20]}")
    return value


def read_json(path: Path, limit: int = MOST_TEXT, *, finite: bool = True) -> Any:
    """Return what a JSON file holds.

    Raises:
        OSError: as `read_bytes`.
        ValueError: as `parse_json`, or it is not UTF-8.
    """
    return parse_json(read_text(path, limit), finite=finite)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and below, without hidden folders. Links are followed, each folder once.

    Raises:
        OSError: the folder holds the whole machine, or everybody's home.
    """
    if Path(os.path.realpath(folder)) in (Path("/"), *Path("~").expanduser().parents):
        raise OSError(errno.EINVAL, "it holds the whole machine, not a set of data", str(folder))
    seen = set()
    for here, below, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        below[:] = [name for name in below if not name.startswith(".")] if real not in seen else []
        if real not in seen:
            yield from (Path(here, name) for name in files)
        seen.add(real)


def refuse_special(path: Path) -> None:
    """Raise OSError if a file that is to be written exists and is a folder, a pipe, a device or a socket.

    Replacing it by a file would take it away from everybody else.
    """
    if path.exists():
        require_regular(path)
