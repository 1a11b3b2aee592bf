"""SHA-256 of files, of folders, of arrays and of JSON documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.input_files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray


def hash_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises OSError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
