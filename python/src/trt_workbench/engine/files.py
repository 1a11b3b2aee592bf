"""Files that are written whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from trt_workbench.system.input_files import refuse_special

# Names of files may be no text: what UTF-8 cannot hold is escaped.
_TEXT: Any = {"encoding": "utf-8", "errors": "backslashreplace"}


@contextlib.contextmanager
def atomic_writer(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that takes its name when the block ends without an error.

    Args:
        path: the file to write; its folder is made if it is absent.
        mode: "wb" for bytes or "w" for UTF-8 text.

    Yields:
        The open file. An exception inside the block removes it and leaves an older `path` as it was.

    Raises:
        OSError: the folder is not writable or the disk is full.
    """
    refuse_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, mode, **({} if "b" in mode else _TEXT)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; give the finished one the permissions that open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        with _named(path):
            Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error name the file that was asked for; nobody knows the temporary one."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write `data` to `path`, whole or not at all. Raises OSError as `atomic_writer` does."""
    with atomic_writer(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all. Raises OSError as `atomic_writer` does."""
    with atomic_writer(path, "w") as file:
        file.write(text)


def write_json(path: Path, document: Any) -> None:
    """Write `document` as indented JSON with a final newline, whole or not at all.

    Raises:
        OSError: as `atomic_writer`.
        ValueError: the document holds a NaN or infinity, which JSON cannot carry.
    """
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
