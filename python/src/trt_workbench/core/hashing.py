"""SHA-256 of files, of folders, of arrays and of JSON documents."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.input_files import MOST_BYTES, open_regular, read_all
from trt_workbench.core.stamps import Stamp, is_settled, settled_stamp, stamp_of

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
        lasts = stamp and is_settled(stamp)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if lasts:
            _keep(stamp, digest, file)
    return digest


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


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Return a hash over the names and contents of the files in `folder` that match `pattern`, in alphabetical order.

    Raises:
        OSError: a file cannot be read.
    """
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    return hash_parts((path.relative_to(folder).as_posix(), hash_file(path)) for path in files)


def hash_document(document: Mapping[str, Any]) -> str:
    """Return 32 hexadecimal digits for a JSON document, whatever the order of its keys."""
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
