"""A first contract from what a model says of itself; what it does not say is left to the user, marked as undecided."""

from __future__ import annotations

import re
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.contract import CHUNK_NAMES
from trt_workbench.stream.contract.draft_stream import WHOLE, DraftedStream, Known
from trt_workbench.stream.contract.exporters import (
    ChunkKeys,
    cache_sizes,
    counted_of,
    front_end_of,
    named_constants,
    normalization,
    same_batch,
    subsampling,
    with_one_batch,
    with_sizes,
)
from trt_workbench.stream.contract.expressions import RESERVED
from trt_workbench.stream.contract.graph import StreamGraph
from trt_workbench.stream.contract.model_tensors import ModelTensors
from trt_workbench.stream.contract.reading import UNDECIDED

_ROLES = "signal, length, state, constant, counter or mask"
# In names of inputs that callers count.
# Streams per call where nothing is said.
_STREAMS = (1, 2, 4)
_COUNTED = re.compile(r"offset|pos|step|start|index|processed|frame")


def draft(
    name: str, model: ModelTensors, known: Known, graph: StreamGraph | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the document of a contract, and what was concluded, one sentence each.

    Every value of the document that begins with "TODO" has to be replaced.

    Args:
        name: of the contract.
        model: its inputs and outputs.
        known: what the user says.
        graph: the model's; None for an engine.

    Raises:
        UsageProblem: what the user says contradicts the model.
    """
    made = _Draft(model, known, graph)
    return made.document(name), made.notes


class _Draft:
    def __init__(self, model: ModelTensors, known: Known, graph: StreamGraph | None) -> None:
        self._counted = counted_of(model)
        aliases, model = same_batch(model), with_one_batch(model)
        if self._counted:
            model = with_sizes(model, self._counted.sizes)
            if graph:
                graph.fix(self._counted.sizes)
        self._model, self._known = model, known
        self._stream = stream = DraftedStream(model, known, graph, aliases)
        self.notes = list(stream.notes)
        self._signal, self._batch, self._time = stream.signal, stream.batch, stream.time_axis
        most = known.batch[2] if known.batch else 1
        unused = most > 1 and stream.batch is None  # one stream is what it takes
        if unused and stream.batch_axis is not None:
            raise UsageProblem(
                f"--batch {most} is not possible: the model takes one stream, as the first dimension of "
                f"{self._signal.name if self._signal else ''} says; export it with a dynamic one."
            )
        if self._counted:
            self.notes.append(self._counted.note)
        self._recurrent = graph.recurrent() if graph else []
        if self._recurrent and stream.pairs:
            self.notes.append(f"Memory: infinite, because the model has {' and '.join(self._recurrent)}")
        if unused:
            self.notes.append("--batch is not used: the dimension of the streams in the signal is not known")
        self._fixed, self._named = cache_sizes(model), named_constants(model)
        self._spelled: dict[str, str] = {}
        self._sizes: dict[str, tuple[int | str | None, ...]] = {}
        if self._time is not None:
            batch = self._symbol(self._batch) if self._batch else ""
            self._sizes = stream.output_sizes(batch, str(self._time_size()))

    def document(self, name: str) -> dict[str, Any]:
        inputs = {one: self._input(tensor) for one, tensor in self._model.inputs.items()}
        # a role that is to be decided may be one of version 2
        newer = any(one["role"] in ("counter", "mask") or UNDECIDED in one["role"] for one in inputs.values())
        outputs = {one: self._output(tensor) for one, tensor in self._model.outputs.items()}
        stream, chunking = self._stream, self._chunking()
        newest = bool(
            self._named
            or (stream.exported and stream.exported.valid)
            or "normalize" in chunking
            or "features" in chunking
        )
        return {
            "schema_version": 3 if newest else 2 if newer else 1,
            "name": name,
            "symbols": dict.fromkeys(self._spelled.values()),
            "inputs": inputs,
            "outputs": outputs,
            "state": self._states(),
            "chunking": chunking,
            "profiles": [{"name": "all", "symbols": self._profile()}],
            "invariants": [],
        }

    def _symbol(self, text: str, key: str | None = None) -> str:
        """Return a symbol's name for a dimension's; exporters write anything there. `key` is what has that name."""
        if (key or text) not in self._spelled:
            plain = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "size"
            plain = f"n{plain}" if plain[0].isdigit() else plain
            taken = {*CHUNK_NAMES, *RESERVED, *self._model.inputs, *self._model.outputs, *self._spelled.values()}
            while plain in taken or not plain.isidentifier():
                plain += "_size"
            self._spelled[key or text] = plain
        return self._spelled[key or text]

    def _shape(self, tensor: ModelTensor, *, given: bool) -> list[Any] | str:
        if tensor.shape is None:
            return f"{UNDECIDED}: the model gives no rank; a list of numbers, symbols and expressions"
        return [self._size(tensor, axis, dim, given=given) for axis, dim in enumerate(tensor.shape)]

    def _size(self, tensor: ModelTensor, axis: int, dim: int | str | None, *, given: bool) -> Any:
        if tensor is self._signal and axis == self._time:
            return self._time_size()
        if isinstance(dim, int):
            return dim
        by_graph = None if given else self._by_graph(tensor, axis, dim)
        if by_graph is not None:
            return by_graph
        if dim is None and not (given and tensor is self._signal):
            return f"{UNDECIDED}: the model gives no name; a number, a symbol or an expression"
        if dim is not None and not given and dim not in self._input_symbols():
            hint = "" if None not in self._stream.sizes else "; --first and --later may determine it"
            return f"{UNDECIDED}: the model calls it {dim}; an expression of the inputs' symbols{hint}"
        return self._symbol(dim or f"{tensor.name}_{axis}")

    def _by_graph(self, tensor: ModelTensor, axis: int, dim: int | str | None) -> int | str | None:
        """Return the size of an output that its graph gives, which goes before the name that an exporter gives it."""
        found = self._sizes.get(tensor.name, ())
        size = found[axis] if axis < len(found) else None
        if size is not None and dim in self._input_symbols() and size != self._spelled.get(str(dim), dim):
            self.notes.append(
                f"Sizes: dimension {axis} of {tensor.name} is {size} in the graph; the model calls it {dim}, like one "
                "of an input"
            )
        return size

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
            if self._batch is None and len(tensor.shape or ()) > 1:
                words = f"{UNDECIDED}: the dimension of the streams, or null for one stream"
                found["batch_axis"] = words if self._stream.batch_axis is None else self._stream.batch_axis
            words = f"{UNDECIDED}: the dimension of the frames (--time-axis)"
            return {**found, "role": "signal", "time_axis": words if self._time is None else self._time}
        if tensor.name in self._stream.pairs:
            return {**found, "role": "state"}
        if self._signal and tensor.name == self._stream.length:
            return {**found, **self._length(tensor.name)}
        if tensor.name in self._named:
            values = self._named[tensor.name]["values"]
            self.notes.append(
                f"Constant: {tensor.name}, {counted(len(values), 'value')} with names (the model's metadata)"
            )
            return {**found, **self._named[tensor.name]}
        if self._counted and tensor.name in self._counted.roles:
            return {**found, **self._counted.roles[tensor.name]}
        return {**found, "role": f"{UNDECIDED}: {_ROLES}{self._hint(tensor)}"}

    def _length(self, name: str) -> dict[str, Any]:
        """Return what an input of lengths is: always that of a whole chunk, until the user says that fewer will do."""
        assert self._signal is not None
        exported, sizes = self._stream.exported, [size for size in self._stream.sizes if size is not None]
        if exported and exported.valid:  # its padding is part of what it was trained on
            self.notes.append(f"Length: {name} is always {exported.frames}, the whole window")
            return {"role": "constant", "value": exported.frames}
        least: int | str = f"{UNDECIDED}: the fewest frames that the model takes"
        rate = subsampling(self._model.metadata)
        if rate and not exported and not self._stream.pairs:
            least = rate
            self.notes.append(f"Length: at least {counted(rate, 'frame')} (subsampling_factor of the model's metadata)")
        elif sizes:
            least = min(sizes)
            self.notes.append(
                f"Length: at least {counted(least, 'frame')}, a whole chunk; a smaller number in the range of {name} "
                "lets the last chunk of a stream be shorter"
            )
        return {"role": "length", "of": self._signal.name, "range": [least, self._time_size()]}

    def _hint(self, tensor: ModelTensor) -> str:
        """Return what may help to decide an input's role."""
        others = self._stream.open_ones.get(tensor.name) or self._stream.like_output(tensor)
        hint = f"; as a state it may take {' or '.join(others)} (--state INPUT=OUTPUT)" if others else ""
        name, several = tensor.name.lower(), len(tensor.shape or ()) > 1
        if self._signal is None and several:
            return f" (--signal {tensor.name}){hint}"
        if not others and (tensor.dtype == "bool" or "mask" in name):
            return '; a mask says which entries are valid: "role": "mask", "axis": 2, "valid": "start // 4"'
        if not others and not several and _COUNTED.search(name):
            return '; a counter says where the chunk is in the stream: "role": "counter", "value": "start // 4"'
        if not others and not several:
            return '; a constant has one value: "role": "constant", "value": 16000'
        return hint

    def _time_size(self) -> str | int:
        if self._time is None or self._signal is None or self._signal.shape is None:
            return f"{UNDECIDED}: the symbol of the chunk's size"
        dim = self._signal.shape[self._time]
        name = f"{self._signal.name}_{self._time}"
        return self._symbol("T", name) if isinstance(dim, int) else self._symbol(dim or name)

    def _output(self, tensor: ModelTensor) -> dict[str, Any]:
        source = next((name for name, other in self._stream.pairs.items() if other == tensor.name), None)
        if source is None:
            valid = self._valid(tensor)
            return {
                "dtype": tensor.dtype,
                "shape": self._shape(tensor, given=False),
                **self._batch_axis(tensor),
                **({} if valid is None else {"valid": valid}),
            }
        before = self._model.inputs[source]  # exporters lose the names of what is cut out of a longer cache
        return {"dtype": tensor.dtype, "shape": self._shape(before, given=True), **self._batch_axis(before)}

    def _valid(self, tensor: ModelTensor) -> dict[str, Any] | str | None:
        """Return which entries of an output count where a chunk is padded; None for one that has no frames."""
        length, exported = self._model.inputs.get(self._stream.length or ""), self._stream.exported
        if length is None or tensor.shape is None:
            return None
        if exported and exported.valid and len(tensor.shape) > 1:
            return self._middle(tensor, exported, exported.valid)
        kept = self._stream.pairs.values()
        lengths = [
            name
            for name, one in self._model.outputs.items()
            if one.dtype in WHOLE and "len" in name.lower() and one.shape == length.shape and name not in kept
        ]
        batch = (self._batch, self._spelled.get(self._batch or ""))
        sizes = enumerate(zip(tensor.shape, self._sizes.get(tensor.name) or tensor.shape, strict=True))
        axes = [axis for axis, (dim, size) in sizes if not isinstance(size, int) and not {dim, size} & {*batch}]
        if isinstance(self._stream.frames, int) and len(tensor.shape) > 2:
            axes = list(range(1, len(tensor.shape)))
        if tensor.name in lengths or not axes:
            return None
        if len(axes) == 1 and len(lengths) == 1:
            self.notes.append(
                f"Valid: {lengths[0]} gives the number of valid entries of {tensor.name}, along dimension {axes[0]}"
            )
            return {"axis": axes[0], "by": lengths[0]}
        by = lengths[0] if lengths else f"{length.name} // 4"
        return (
            f"{UNDECIDED}: which entries are valid in a padded chunk, such as "
            f'{{"axis": {axes[0]}, "by": "{by}"}}; null if padding changes none'
        )

    def _middle(self, tensor: ModelTensor, exported: ChunkKeys, valid: tuple[int, int]) -> dict[str, Any] | None:
        """Return the middle of a window, which alone counts; None for an output without frames."""
        axes = [axis for axis, dim in enumerate(tensor.shape or ()) if not isinstance(dim, int) and dim != self._batch]
        if len(axes) != 1:
            return None
        (first, count), right = valid, exported.right
        self.notes.append(f"Valid: entries {first} to {first + count - 1} of {tensor.name}, along dimension {axes[0]}")
        new = f"(new - ({right} if chunk == 0 else 0))" if right else "new"
        return {"axis": axes[0], "offset": first, "by": f"ceil({new} / {exported.hop // count})"}

    def _states(self) -> list[dict[str, Any]]:
        init = 0 if self._known.init is None else self._known.init
        if self._stream.pairs and self._known.init is None:
            self.notes.append("State: zeros before the first chunk (--init sets another value)")
        return [{"output": other, "input": name, "init": init} for name, other in self._stream.pairs.items()]

    def _chunking(self) -> dict[str, Any]:
        def kind(place: int, word: str, option: str) -> dict[str, Any]:
            size, left = self._stream.sizes[place], self._stream.left_contexts[place]
            words = f"{UNDECIDED}: frames that {word} has, left context included ({option})"
            before = f"{UNDECIDED}: frames of the previous chunk at its start, 0 for none (--left-context)"
            return {"size": words if size is None else size, "left_context": before if left is None else left}

        found: dict[str, Any] = {"first": kind(0, "the first chunk", "--first")}
        found["later"] = kind(1, "every later chunk", "--later")
        if self._stream.exported and self._stream.exported.right:
            found["right_context"] = self._stream.exported.right
        over = normalization(self._model.metadata, self._stream.exported, has_state=bool(self._stream.pairs))
        if over:
            frames = "all frames of a chunk" if over == "window" else "the frames of an utterance"
            self.notes.append(f"Features: normalised over {frames} (normalize_type of the model's metadata)")
            found["normalize"] = over
        if front := self._front_end():
            words, keys = front
            self.notes.append(f"{'Features' if 'features' in keys else 'Frames'}: {words} (the model's metadata)")
            found |= keys
        if self._recurrent and self._stream.pairs:
            found["memory"] = {"kind": "infinite"}
        return found

    def _front_end(self) -> tuple[str, dict[str, Any]] | None:
        """Return what frames are made of, where the signal has one dimension besides streams and frames."""
        shape = (self._signal.shape or ()) if self._signal else ()
        others = [dim for axis, dim in enumerate(shape) if axis not in (self._time, self._stream.batch_axis)]
        size = others[0] if len(shape) == 3 and len(others) == 1 else None
        return front_end_of(self._model.metadata, size) if isinstance(size, int) else None

    def _profile(self) -> dict[str, Any]:
        ranges: dict[str, Any] = {}
        sizes = [size for size in self._stream.sizes if size is not None]
        sizes_of = {self._spelled[name]: size for name, size in self._fixed.items() if name in self._spelled}
        for symbol in self._spelled.values():
            if symbol == self._spelled.get(self._batch or ""):
                ranges[symbol] = list(self._known.batch or _STREAMS)
                said = f"Streams per call: {_STREAMS[0]} to {_STREAMS[2]} (--batch sets another maximum)"
                self.notes += [] if self._known.batch else [said]
            elif symbol in sizes_of:
                ranges[symbol] = [sizes_of[symbol]] * 3
            elif self._time is not None and symbol == self._time_size():
                of_chunks = f"{UNDECIDED}: [min, opt, max] frames per chunk (--first and --later)"
                ranges[symbol] = [min(sizes), sizes[-1], max(sizes)] if len(sizes) == 2 else of_chunks
            else:
                ranges[symbol] = f"{UNDECIDED}: [min, opt, max] of this size"
        return ranges
