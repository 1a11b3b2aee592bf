"""SHA-256 of files, of models with their external data, of folders and of JSON documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.errors import UsageProblem
from trt_workbench.system.input_files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray


def hash_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises OSError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_model(path: Path, external_locations: Iterable[str] | None = None) -> str:
    """Return the hash by which a model is known in records, caches and manifests.

    Without external data it is the SHA-256 of the file. With it, it is the SHA-256 over the file's hash and then, in
    alphabetical order, each location with the hash of its file, so that a renamed or changed weight file counts. A
    folder of a language model has a hash over its configuration and weights.

    Args:
        path: an ONNX file, a model file of another kind, an engine, or a folder of a language model.
        external_locations: as the ONNX file names them, relative to its folder; read from the file where they are not
            given. A file that cannot be read as ONNX has the hash of its bytes: whatever loads it says what is wrong.

    Raises:
        UsageProblem: the folder holds no language model.
        OSError: a file cannot be read.
    """
    if path.is_dir():
        from trt_workbench.onnxtools.llm_directory import examine_llm_directory

        return examine_llm_directory(path).sha256
    own = hash_file(path)
    locations = sorted(set(_external_locations(path) if external_locations is None else external_locations))
    if not locations:
        return own
    return _hash_parts([("", own), *((location, hash_file(path.parent / location)) for location in locations)])


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Return a hash over the names and contents of the files in `folder` that match `pattern`, in alphabetical order.

    Raises:
        OSError: a file cannot be read.
    """
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    return _hash_parts((path.relative_to(folder).as_posix(), hash_file(path)) for path in files)


def hash_document(document: Mapping[str, Any]) -> str:
    """Return 32 hexadecimal digits for a JSON document, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def hash_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a hash over the names, types, shapes and values of arrays, in alphabetical order."""
    return _hash_parts(
        (f"{name} {array.dtype.name} {list(array.shape)}", hash_bytes(array.tobytes()))
        for name, array in sorted(arrays.items())
    )


def _external_locations(path: Path) -> tuple[str, ...]:
    if path.suffix != ".onnx":
        return ()
    from trt_workbench.onnxtools.preflight import examine_model

    try:
        return examine_model(path).external_locations
    except UsageProblem:
        return ()


def _hash_parts(parts: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for name, value in parts:
        encoded = name.encode()
        # the length first: no name can imitate another entry
        digest.update(f"{len(encoded)}:".encode() + encoded + value.encode())
    return digest.hexdigest()
