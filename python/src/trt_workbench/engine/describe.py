"""A build request and an engine as JSON documents, for people and scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trt_workbench.engine.builder import BuildPlan
from trt_workbench.engine.cache import PLAN_NAME, engines_dir


def request_document(plan: BuildPlan) -> dict[str, Any]:
    """Return what a build would do, as JSON values: key parts, options, place, and what is missing.

    Where TensorRT or the GPU is missing, `cache_key` and `plan` are None: the key of the real build would be another.
    """
    key = asdict(plan.key)
    options = key.pop("options")
    digest = plan.key.digest() if plan.key.is_complete else None
    where = str(engines_dir() / digest / PLAN_NAME) if digest else None
    return {
        "schema_version": 1,
        "model": str(plan.model),
        "inputs": [_tensor(tensor) for tensor in plan.facts.inputs],
        "outputs": [_tensor(tensor) for tensor in plan.facts.outputs],
        "operators": plan.facts.operators,
        "opset": plan.facts.opset,
        "options": options,
        "key": key,
        "cache_key": digest,
        "plan": where,
        "is_cached": plan.cached is not None,
        "missing": [str(missing) for missing in plan.target.missing],
        "conclusion": _conclusion(plan, where),
    }


def _conclusion(plan: BuildPlan, where: str | None) -> str:
    if plan.target.missing:
        return "Nothing can be built here until what is missing is there; the cache key depends on it."
    if plan.cached is not None:
        return f"The cache holds this engine: {where}"
    return f"It would be built and kept here: {where}"


def _tensor(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": None if tensor.shape is None else list(tensor.shape)}
