"""The hash by which models, engines and language models are known in records, caches and manifests."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench.model.opened import Model


def sha256_of(path: Path) -> str:
    """Return the hash of a file or folder by its kind.

    That of an ONNX file is `Model.sha256`, that of any other file the SHA-256 of its bytes, as is that of one that
    cannot be read as ONNX: whatever loads it says what is wrong. A folder of a language model has a hash over its
    configuration and weights.

    Raises:
        UsageProblem: the folder holds no language model.
        OSError: a file cannot be read.
    """
    if path.is_dir():
        return examine_llm_directory(path).sha256
    if path.suffix == ".onnx":
        try:
            model = Model.open(path)
        except UsageProblem:
            return hash_file(path)
        return model.sha256
    return hash_file(path)
