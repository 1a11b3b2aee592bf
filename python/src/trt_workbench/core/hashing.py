"""SHA-256 of files, of folders, of arrays and of JSON documents."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trt_workbench.core.input_files import MOST_BYTES, files_below, open_regular, read_all

# File systems date a change by a clock that ticks this seldom at most: a second change within a tick is not seen.
_TICK_NS = 20_000_000


class Stamp(NamedTuple):
    """Identifies a file's state: where it is kept, and when it changed last."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    def has_content_of(self, other: Stamp) -> bool:
        """Whether the content is the same, too, for all that is known: a new name or new rights change no content."""
        return self[:-1] == other[:-1]


def stamp_of(file: Path | int) -> Stamp | None:
    """Return the stamp of a file, named or open; None where there is none."""
    try:
        status = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def settled_stamp(file: Path | int) -> Stamp | None:
    """Return the stamp of a file as `stamp_of`, once every further change will give another one."""
    stamp = stamp_of(file)
    if stamp and (left := _unsettled_ns(stamp)):
        time.sleep(left / 1e9)
        return stamp_of(file)
    return stamp


def _unsettled_ns(stamp: Stamp) -> int:
    age = time.time_ns() - stamp.changed_ns
    return _TICK_NS - age if 0 <= age < _TICK_NS else 0


# What files had when they were hashed; the oldest are forgotten.
_known: dict[Stamp, str] = {}
_MOST_KNOWN = 4096
_lock = threading.Lock()

if TYPE_CHECKING:
    from numpy.typing import NDArray


def hash_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal: worked out once a process until the file changes, unless it is new.

    Raises:
        OSError: it cannot be read.
    """
    if (before := stamp_of(path)) and (known := _known.get(before)):
        return known
    with open_regular(path) as file:
        stamp = stamp_of(file.fileno())
        lasts = stamp and not _unsettled_ns(stamp)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if lasts:
            _keep(stamp, digest, file)
    return digest


def has_hash(path: Path, sha256: str) -> bool:
    """Return whether a file is there and has this SHA-256. Raises OSError as `hash_file`."""
    return path.is_file() and hash_file(path) == sha256


def read_hashed(path: Path, limit: int = MOST_BYTES) -> tuple[bytes, str]:
    """Return a file's content, and the SHA-256 of this content in hexadecimal, which `hash_file` knows from then on.

    Raises:
        OSError: it cannot be read, or has more than `limit` bytes.
    """
    with open_regular(path) as file:
        stamp = settled_stamp(file.fileno())
        data = read_all(file, path, limit)
        digest = hash_bytes(data)
        _keep(stamp, digest, file)
    return data, digest


def _keep(stamp: Stamp | None, digest: str, file: io.BufferedReader) -> None:
    if stamp and stamp == stamp_of(file.fileno()):
        with _lock:
            _known[stamp] = digest
            while len(_known) > _MOST_KNOWN:
                _known.pop(next(iter(_known)))


def hash_folder(folder: Path) -> str:
    """Return a hash over the names and contents of all files in `folder` and below, in alphabetical order.

    They are those of `files_below`, by which data are read.

    Raises:
        OSError: a file cannot be read.
    """
    files = sorted(path for path in files_below(folder) if path.is_file())
    return hash_parts((path.relative_to(folder).as_posix(), hash_file(path)) for path in files)


def hash_document(document: Mapping[str, Any]) -> str:
    """Return 32 hexadecimal digits for a JSON document, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def hash_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a hash over the names, types, shapes and values of arrays, in alphabetical order."""
    return hash_parts(
        (f"{name} {array.dtype.name} {list(array.shape)}", hash_bytes(array.tobytes()))
        for name, array in sorted(arrays.items())
    )


def hash_parts(parts: Iterable[tuple[str, str]]) -> str:
    """Return a hash over names with their hashes, in the order given."""
    digest = hashlib.sha256()
    for name, value in parts:
        encoded = name.encode()
        # the length first: no name can imitate another entry
        digest.update(f"{len(encoded)}:".encode() + encoded + value.encode())
    return digest.hexdigest()
