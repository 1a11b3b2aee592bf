"""A build request and an engine as JSON documents, for people and scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trt_workbench.core.workspace import PLAN_NAME
from trt_workbench.engine.builder import PreparedBuild
from trt_workbench.engine.cache import engines_dir


def request_document(prepared: PreparedBuild) -> dict[str, Any]:
    """Return what a build would do, as JSON values: key parts, options, place, what is missing, and what is refused.

    Where TensorRT or the GPU is missing, `cache_key` and `plan` are None: the key of the real build would be another.
    """
    key = asdict(prepared.key)
    options = key.pop("options")
    digest = prepared.key.digest() if prepared.key.is_complete else None
    where = str(engines_dir() / digest / PLAN_NAME) if digest else None
    return {
        "schema_version": 1,
        "model": str(prepared.model.path),
        "inputs": [_tensor(tensor) for tensor in prepared.model.facts.inputs],
        "outputs": [_tensor(tensor) for tensor in prepared.model.facts.outputs],
        "operators": prepared.model.facts.operators,
        "opset": prepared.model.facts.opset,
        "options": options,
        "key": key,
        "cache_key": digest,
        "plan": where,
        "is_cached": prepared.cached is not None,
        "missing": [str(missing) for missing in prepared.target.missing],
        "conclusion": _conclusion(prepared, where),
    }


def _conclusion(prepared: PreparedBuild, where: str | None) -> str:
    if prepared.target.missing:
        return "The cache key is unknown until the missing parts are installed; nothing can be built before."
    if prepared.cached is not None:
        return f"The cache holds this engine: {where}"
    return f"The engine would be stored here: {where}"


def _tensor(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": None if tensor.shape is None else list(tensor.shape)}
