"""What a model file, or the folder of a language model, is: read, never run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.input_files import open_regular, parse_json
from trt_workbench.engine.parser import ask_parser
from trt_workbench.model.facts import QUANTIZERS, ModelTensor
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench.model.opened import Model, checked_on_error
from trt_workbench.model.proto import STANDARD
from trt_workbench.model.reading import all_tensors
from trt_workbench.model.walking import all_graphs
from trt_workbench.vision import ADVICE, family_of

_LONGEST_HEADER = 100_000_000  # bytes, safetensors' own limit
_COUNTERS = ("INT64", "INT32", "UINT64", "UINT32", "BOOL", "STRING", "UNDEFINED")


def model_facts(path: Path) -> dict[str, Any]:
    """Return what an ONNX file says of itself; docs/guides/inspect.md describes the keys.

    Raises:
        UsageProblem: the file is absent or no sound ONNX, or its external data does not fit.
    """
    model = Model.open(path)
    with checked_on_error(model):
        return _facts(model)


def _facts(opened: Model) -> dict[str, Any]:
    path, facts, model = opened.path, opened.facts, opened.proto
    return {
        "schema_version": 2,
        "kind": "model",
        "model": str(path),
        "sha256": opened.sha256,
        "size_bytes": opened.size_bytes,
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))),
        "ir_version": model.ir_version,
        "opset": facts.opset,
        "other_opsets": {entry.domain: entry.version for entry in model.opset_import if entry.domain not in STANDARD},
        "inputs": [_tensor(tensor) for tensor in facts.inputs],
        "outputs": [_tensor(tensor) for tensor in facts.outputs],
        "detector": _detector(opened),
        "precision": read_precision(opened).document(),
        "quantizers": {name: facts.operators[name] for name in sorted(QUANTIZERS & facts.operators.keys())},
        "parameters": _parameters(model),
        "nodes": sum(facts.operators.values()),
        "operators": dict(sorted(facts.operators.items(), key=lambda one: (-one[1], one[0]))),
        "tensorrt": asdict(ask_parser(opened)),
        "external_files": [
            {"file": name, "size_bytes": file.stat().st_size}
            for name, file in zip(facts.external_locations, opened.external_files, strict=True)
        ],
        "metadata": facts.metadata,
    }


def language_model_facts(folder: Path) -> dict[str, Any]:
    """Return what the folder of a causal language model says of itself; docs/guides/inspect.md describes the keys.

    Raises:
        UsageProblem: as `examine_llm_directory`, or a file of weights is damaged.
        ComponentMissing: as `examine_llm_directory`.
    """
    found = examine_llm_directory(folder)
    elements: dict[str, int] = {}
    for file in found.weights:
        for dtype, count in _stored(file):
            elements[dtype] = elements.get(dtype, 0) + count
    return {
        "schema_version": 1,
        "kind": "language model",
        "model": str(folder),
        "architecture": found.model_type,
        "layers": found.layers,
        "vocabulary": found.vocabulary,
        "positions": found.positions,
        "parameters": sum(elements.values()),
        "parameters_by_type": elements,
        "tokenizer": found.has_tokenizer,
        "brings_code": found.brings_code,
        "weights": [{"file": file.name, "size_bytes": file.stat().st_size} for file in found.weights],
    }


def _tensor(tensor: ModelTensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": None if tensor.shape is None else list(tensor.shape)}


def _detector(model: Model) -> dict[str, Any]:
    """Return the family with what it makes of the model, or why there is none."""
    try:
        family = family_of(model)
    except (UsageProblem, ComponentMissing) as problem:
        # of this command it is no option
        return {"family": None, "reason": str(problem).replace(ADVICE, "eval-coco and predict take --family, one of")}
    return {
        "family": family.name,
        "classes": family.class_count,
        "names": list(family.names) if family.names else None,
        "input_size": list(family.input_size),
    }


def _parameters(model: onnx.ModelProto) -> int:
    """Return how many numbers the file holds that are no counters, such as shapes and indices."""
    counters = {onnx.TensorProto.DataType.Value(name) for name in _COUNTERS}
    held = (tensor for tensor in all_tensors(model, all_graphs(model)) if tensor.data_type not in counters)
    return sum(math.prod(tensor.dims) for tensor in held)


def _stored(file: Path) -> Iterable[tuple[str, int]]:
    """Yield type and elements of every tensor of a safetensors file, by its header."""
    with open_regular(file) as opened:
        text = opened.read(min(int.from_bytes(opened.read(8), "little"), _LONGEST_HEADER))
    try:
        header = parse_json(text)
        for name, entry in header.items():
            if name != "__metadata__":
                yield str(entry["dtype"]), math.prod(int(size) for size in entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageProblem(f"The header of the weights is damaged ({error}): {file}") from error
