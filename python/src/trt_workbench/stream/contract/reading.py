"""Reading a contract: all problems are reported at once, one sentence each."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trt_workbench.core.counts import counted, some
from trt_workbench.core.documents import key_of, read_document, reason_in
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.model_tensors import ModelTensors
from trt_workbench.stream.contract.parts import TensorOf
from trt_workbench.stream.contract.size_check import sizes
from trt_workbench.stream.contract.static_check import contradictions, near
from trt_workbench.stream.contract.static_sizes import chunk_points, corners

_NARROWED = {"int64": "int32", "float64": "float32"}


def disagreements(contract: Contract, model: ModelTensors) -> list[str]:
    """Return where a contract and a model contradict one another.

    Sizes are compared at the smallest, best-tuned and largest symbols of every profile, and at both chunks; at symbols
    that contradict one another nothing is.
    """
    try:
        points = [*corners(contract), *((f"the {word}", values) for word, _, values in chunk_points(contract))]
        for _, values in points:
            for name in contract.tensors:
                contract.shape(name, values)
    except (ValueError, LookupError):
        points = []  # the contract contradicts itself, which is reported separately
    found = [
        *_names(contract.inputs, model.inputs, "input", model.kind),
        *_names(contract.outputs, model.outputs, "output", model.kind),
        *_tensors(contract, model),
        *sizes(contract, model, points),
    ]
    return list(dict.fromkeys(found))


def _names(said: Mapping[str, TensorOf], there: Mapping[str, ModelTensor], kind: str, file: str) -> Iterator[str]:
    for name in said:
        if name not in there:
            yield f"the {file} has no {kind} {name}{near(name, there)}"
    for name in there:
        if name not in said:
            yield f"the contract lacks the {file}'s {kind} {name}{near(name, said)}"


def _tensors(contract: Contract, model: ModelTensors) -> Iterator[str]:
    for name, there in {**model.inputs, **model.outputs}.items():
        if (said := contract.tensors.get(name)) is None:
            continue
        allowed = {said.dtype, _NARROWED.get(said.dtype, said.dtype)} if model.narrows else {said.dtype}
        if there.dtype not in allowed:
            yield f"{name} is {there.dtype} in the {model.kind} and {said.dtype} in the contract"
        if there.shape is not None and len(there.shape) != len(said.shape):
            rank = counted(len(there.shape), "dimension")
            yield f"{name} has {rank} in the {model.kind} and {len(said.shape)} in the contract"


# How a draft marks what the user has to decide.
UNDECIDED = "TODO"
_SHOWN = 20


class Contradictions(UsageProblem):
    """A contract that contradicts itself or a model.

    Attributes:
        problems: one sentence each.
    """

    def __init__(self, problems: list[str], path: Path) -> None:
        """Make the message of the problems of the contract at `path`."""
        self.problems = problems
        super().__init__(
            f"{path.name} cannot be used because of {counted(len(problems), 'problem')}: "
            f"{some(problems, _SHOWN, '; ')}. Contract: {path}"
        )


def read_contract(path: Path, model: ModelTensors | None = None) -> Contract:
    """Return a contract that contradicts neither itself nor its model.

    Args:
        path: of the JSON document.
        model: what it is compared with, as `read_tensors` returns it.

    Raises:
        Contradictions: it is a draft with undecided fields, or contradicts itself or the model.
        UsageProblem: the file cannot be read.
    """
    require_file("contract", path)
    document = read_document(path, dict[str, Any])
    left = dict(undecided(document))
    try:
        contract = Contract.model_validate(_with_time_symbol(document))
    except ValidationError as error:
        # what is undecided is no expression, no role and no number either, which would say it twice
        problems = [
            f"{key_of(one) or 'the document'}: {reason_in(one)}"
            for one in error.errors(include_url=False)
            if one["type"] == "missing" or not any(undecided(one["input"]))
        ]
        raise Contradictions([*(f"{place}: {text}" for place, text in left.items()), *problems], path) from error
    problems = [f"{place}: {text}" for place, text in left.items()] + contradictions(contract)
    problems += disagreements(contract, model) if model else []
    if problems:
        raise Contradictions(problems, path)
    return contract


def _with_time_symbol(document: dict[str, Any]) -> dict[str, Any]:
    """Return a contract in which a number of frames is a symbol with that one value: a model of one chunk size."""
    document = copy.deepcopy(document)
    inputs, symbols, outputs, profiles = map(document.get, ("inputs", "symbols", "outputs", "profiles"))
    if not isinstance(inputs, dict) or not isinstance(symbols, dict):
        return document
    for one in inputs.values():
        shape, axis = (one.get("shape"), one.get("time_axis")) if isinstance(one, dict) else (None, None)
        if not isinstance(shape, list) or type(axis) is not int or not 0 <= axis < len(shape):
            continue
        size = shape[axis]
        frames = symbols.get(size) if isinstance(size, str) else size
        if type(frames) is not int:
            continue
        names = (f"frames{'_size' * count}" for count in range(len(inputs) + len(symbols) + 2))
        taken = {*symbols, *inputs, *(outputs if isinstance(outputs, dict) else ())}
        shape[axis] = size if isinstance(size, str) else next(name for name in names if name not in taken)
        symbols[shape[axis]] = None
        for profile in profiles if isinstance(profiles, list) else ():
            if isinstance(profile, dict) and isinstance(profile.get("symbols"), dict):
                profile["symbols"].setdefault(shape[axis], [frames] * 3)
    return document


def undecided(value: Any, *place: str) -> Iterator[tuple[str, str]]:
    """Yield the places of a document that are still to be decided, with their text."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from undecided(part, *place, key)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from undecided(part, *place, str(index))
    elif isinstance(value, str) and value.startswith(UNDECIDED):
        yield ".".join(place), value
