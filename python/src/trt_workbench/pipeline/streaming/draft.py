"""A first contract from what a model says of itself; what it does not say is left to a person, marked as undecided."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from trt_workbench.onnxtools.preflight import ModelTensor
from trt_workbench.pipeline.streaming.contract import CHUNK_NAMES
from trt_workbench.pipeline.streaming.expressions import RESERVED
from trt_workbench.pipeline.streaming.model_tensors import ModelTensors
from trt_workbench.pipeline.streaming.reading import UNDECIDED
from trt_workbench.pipeline.streaming.state_names import alike, state_pairs

_REAL = ("float32", "float16", "bfloat16", "float64")
_WHOLE = ("int64", "int32")
_ROLES = "signal, length, state or constant"


@dataclass(frozen=True)
class Known:
    """What the user says beside the model; None where that is undecided.

    Attributes:
        first: frames of the first chunk.
        later: frames of a later one.
        left_context: frames of the chunk before, at the start of every chunk.
        init: value of every state before the first chunk.
        batch: fewest, usual and most streams of a call.
    """

    first: int | None = None
    later: int | None = None
    left_context: int | None = None
    init: float | None = None
    batch: tuple[int, int, int] | None = None


def draft(name: str, model: ModelTensors, known: Known) -> dict[str, Any]:
    """Return the document of a contract; every value that begins with "TODO" has to be replaced.

    Args:
        name: of the contract.
        model: its inputs and outputs.
        known: what the user says.
    """
    return _Draft(model, known).document(name)


class _Draft:
    def __init__(self, model: ModelTensors, known: Known) -> None:
        self._model, self._known = model, known
        self._pairs, self._open = state_pairs(model.inputs, model.outputs)
        self._symbols: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        left = [one for name, one in model.inputs.items() if name not in self._pairs and name not in self._open]
        signals = [one for one in left if one.dtype in _REAL and one.shape and len(one.shape) > 1]
        # a second one may be a state whose output has another name
        self._signal = signals[0] if len(signals) == 1 and not self._like_output(signals[0]) else None
        lengths = [one.name for one in left if one.dtype in _WHOLE and "len" in one.name.lower()]
        # one of several is the length of a cache, as which the signal's would be wrong
        self._length = lengths[0] if self._signal and len(lengths) == 1 else None
        self._batch = self._batch_symbol()
        self._time = self._time_axis()

    def document(self, name: str) -> dict[str, Any]:
        inputs = {one: self._input(tensor) for one, tensor in self._model.inputs.items()}
        outputs = {one: self._output(tensor) for one, tensor in self._model.outputs.items()}
        return {
            "schema_version": 1,
            "name": name,
            "symbols": self._symbols,
            "inputs": inputs,
            "outputs": outputs,
            "state": self._states(),
            "chunking": self._chunking(),
            "profiles": [{"name": "all", "symbols": self._profile()}],
            "invariants": [],
        }

    def _like_output(self, given: ModelTensor) -> list[str]:
        """Return the outputs of no pair that an input may take."""
        return alike(given, (one for one in self._model.outputs.values() if one.name not in self._pairs.values()))

    def _symbol(self, text: str) -> str:
        """Return a symbol's name for a dimension's; exporters write anything there."""
        if text not in self._spelled:
            plain = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "size"
            plain = f"n{plain}" if plain[0].isdigit() else plain
            taken = {*CHUNK_NAMES, *RESERVED, *self._model.inputs, *self._model.outputs, *self._spelled.values()}
            while plain in taken or not plain.isidentifier():
                plain += "_size"
            self._spelled[text] = plain
        return self._spelled[text]

    def _batch_symbol(self) -> str | None:
        """Return what the model calls the number of streams: the signal's first dimension, if every state has it."""
        if self._signal is None or not self._signal.shape or not isinstance(self._signal.shape[0], str):
            return None
        symbol = self._signal.shape[0]
        states = [self._model.inputs[name].shape or () for name in self._pairs]
        return symbol if all(shape.count(symbol) == 1 for shape in states) and states else None

    def _time_axis(self) -> int | None:
        if self._signal is None or self._signal.shape is None:
            return None
        free = [axis for axis, dim in enumerate(self._signal.shape) if not isinstance(dim, int) and dim != self._batch]
        return free[0] if len(free) == 1 and self._batch else None

    def _shape(self, tensor: ModelTensor, *, given: bool) -> list[Any] | str:
        if tensor.shape is None:
            return f"{UNDECIDED}: the model gives no rank; a list of numbers, symbols and expressions"
        shape: list[Any] = []
        for axis, dim in enumerate(tensor.shape):
            if isinstance(dim, int):
                shape.append(dim)
            elif dim is None and not (given and tensor is self._signal):
                shape.append(f"{UNDECIDED}: the model gives no name; a number, a symbol or an expression")
            elif dim is not None and not given and dim not in self._input_symbols():
                shape.append(f"{UNDECIDED}: the model calls it {dim}; an expression of the inputs' symbols")
            else:
                symbol = self._symbol(dim or f"{tensor.name}_{axis}")
                self._symbols[symbol] = None
                shape.append(symbol)
        return shape

    def _input_symbols(self) -> set[str]:
        shapes = [one.shape or () for one in self._model.inputs.values()]
        return {dim for shape in shapes for dim in shape if isinstance(dim, str)}

    def _batch_axis(self, tensor: ModelTensor) -> dict[str, Any]:
        places = [axis for axis, dim in enumerate(tensor.shape or ()) if self._batch and dim == self._batch]
        return {"batch_axis": places[0]} if len(places) == 1 else {}

    def _input(self, tensor: ModelTensor) -> dict[str, Any]:
        found: dict[str, Any] = {"dtype": tensor.dtype, "shape": self._shape(tensor, given=True)}
        found |= self._batch_axis(tensor)
        if tensor is self._signal:
            if self._batch is None:
                found["batch_axis"] = (
                    f"{UNDECIDED}: the dimension along which streams lie, or null where there is one stream"
                )
            words = f"{UNDECIDED}: the dimension of the frames; its size is a symbol of its own"
            return {**found, "role": "signal", "time_axis": words if self._time is None else self._time}
        if tensor.name in self._pairs:
            return {**found, "role": "state"}
        if self._signal and tensor.name == self._length:
            high = self._time_size()
            return {
                **found,
                "role": "length",
                "of": self._signal.name,
                "range": [f"{UNDECIDED}: the fewest frames that the model takes", high],
            }
        others = self._open.get(tensor.name) or self._like_output(tensor)
        hint = f"; it may take {' or '.join(others)}" if others else ""
        return {**found, "role": f"{UNDECIDED}: {_ROLES}{hint}"}

    def _time_size(self) -> str | int:
        if self._time is None or self._signal is None or self._signal.shape is None:
            return f"{UNDECIDED}: the symbol of the chunk's size"
        dim = self._signal.shape[self._time]
        return self._symbol(dim if isinstance(dim, str) else f"{self._signal.name}_{self._time}")

    def _output(self, tensor: ModelTensor) -> dict[str, Any]:
        source = next((name for name, other in self._pairs.items() if other == tensor.name), None)
        if source is None:
            return {"dtype": tensor.dtype, "shape": self._shape(tensor, given=False), **self._batch_axis(tensor)}
        before = self._model.inputs[source]  # exporters lose the names of what is cut out of a longer cache
        return {"dtype": tensor.dtype, "shape": self._shape(before, given=True), **self._batch_axis(before)}

    def _states(self) -> list[dict[str, Any]]:
        init = self._known.init if self._known.init is not None else f"{UNDECIDED}: before the first chunk, mostly 0"
        return [{"output": other, "input": name, "init": init} for name, other in self._pairs.items()]

    def _chunking(self) -> dict[str, Any]:
        def size(value: int | None, words: str) -> int | str:
            return value if value is not None else f"{UNDECIDED}: {words}"

        left = size(self._known.left_context, "frames of the chunk before that it begins with, 0 without")
        first = {"size": size(self._known.first, "frames that the first chunk has, left context included")}
        later = {"size": size(self._known.later, "frames that every later chunk has, left context included")}
        return {"first": {**first, "left_context": left}, "later": {**later, "left_context": left}}

    def _profile(self) -> dict[str, Any]:
        ranges: dict[str, Any] = {}
        sizes = [value for value in (self._known.first, self._known.later) if value is not None]
        for symbol, rule in self._symbols.items():
            if rule is not None:
                continue
            words = f"{UNDECIDED}: [min, opt, max]"
            if symbol == self._spelled.get(self._batch or ""):
                ranges[symbol] = list(self._known.batch) if self._known.batch else words
            elif self._time is not None and symbol == self._time_size():
                ranges[symbol] = [min(sizes), sizes[-1], max(sizes)] if len(sizes) == 2 else words
            else:
                ranges[symbol] = words
        return ranges
