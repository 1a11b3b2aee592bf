"""The hash by which a model is known in records, caches and manifests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trt_workbench.core.hashing import hash_file, hash_parts
from trt_workbench.errors import UsageProblem
from trt_workbench.model.facts import examine_model
from trt_workbench.onnxtools.llm_directory import examine_llm_directory


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
        return examine_llm_directory(path).sha256
    own = hash_file(path)
    locations = sorted(set(_external_locations(path) if external_locations is None else external_locations))
    if not locations:
        return own
    return hash_parts([("", own), *((location, hash_file(path.parent / location)) for location in locations)])


def _external_locations(path: Path) -> tuple[str, ...]:
    if path.suffix != ".onnx":
        return ()
    try:
        return examine_model(path).external_locations
    except UsageProblem:
        return ()
