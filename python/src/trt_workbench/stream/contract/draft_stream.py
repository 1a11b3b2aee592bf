"""What a model's file says about its stream: the signal, its axes and chunks, the states, the sizes of outputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.model.facts import ModelTensor
from trt_workbench.stream.contract.exporters import cache_sizes, chunk_of
from trt_workbench.stream.contract.graph import StreamGraph
from trt_workbench.stream.contract.model_tensors import ModelTensors
from trt_workbench.stream.contract.state_names import alike, state_pairs

_REAL = ("float32", "float16", "bfloat16", "float64")
WHOLE = ("int64", "int32")
# Numbers of mel bands, cepstra and bins of a spectrum that models have; the real and imaginary parts are last.
_USUAL_FEATURES = frozenset((23, 40, 64, 80, 83, 120, 128, 129, 161, 201, 257, 321, 481, 513, 560, 1025))
# Chunk sizes beyond its own at which output sizes are inspected.
_BEYOND = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40, 80, 160, 320)
_LARGEST_STRIDE = 64
# What was processed is no length of what comes.
_LENGTH = re.compile(r"^(?!.*processed).*len")


@dataclass(frozen=True)
class Known:
    """What the user says in addition to the model; None where that is undecided.

    Attributes:
        first: frames of the first chunk.
        later: frames of a later one.
        left_context: frames of the chunk before, at the start of every chunk.
        init: value of every state before the first chunk.
        batch: fewest, usual and most streams of a call.
        signal: name of the signal.
        time_axis: its dimension that holds the frames.
        states: outputs by the input that takes them.
    """

    first: int | None = None
    later: int | None = None
    left_context: int | None = None
    init: float | None = None
    batch: tuple[int, int, int] | None = None
    signal: str | None = None
    time_axis: int | None = None
    states: Mapping[str, str] = field(default_factory=dict)


class DraftedStream:
    """The stream of a model, as far as its files and the user describe it.

    Attributes:
        pairs: outputs by the state input that takes them.
        open_ones: by input that may be a state, the outputs that it may take.
        signal: the input that the stream comes in by.
        length: the name of the input that says how many frames are valid.
        batch: what the model calls the number of streams; None where it is a number, or not known.
        batch_axis: of the signal; None where it is not known.
        time_axis: of the signal; None where it is not known.
        sizes: frames of the first and of a later chunk.
        left_contexts: of the first and of a later chunk.
        exported: the chunk that the model's metadata gives; None where it gives none.
        notes: what was concluded, one sentence each.
    """

    def __init__(
        self, model: ModelTensors, known: Known, graph: StreamGraph | None = None, aliases: Collection[str] = ()
    ) -> None:
        """Look at a model.

        Args:
            model: its tensors.
            known: what the user says.
            graph: the model's; None for an engine.
            aliases: what the graph calls the number of streams besides.

        Raises:
            UsageProblem: what the user says contradicts the model.
        """
        self._model, self._known, self._graph, self._aliases = model, known, graph, aliases
        self.notes: list[str] = []
        self.pairs, self.open_ones = self._states()
        left = [one for name, one in model.inputs.items() if name not in self.pairs and name not in self.open_ones]
        self.signal = self._find_signal(left)
        lengths = [one.name for one in left if one.dtype in WHOLE and _LENGTH.search(one.name.lower())]
        # one of several is the length of a cache, as which the signal's would be wrong
        self.length = lengths[0] if self.signal and len(lengths) == 1 and self.signal.name != lengths[0] else None
        self._shape = (self.signal.shape or ()) if self.signal else ()
        self.exported = chunk_of(model.metadata)
        self.batch, self.batch_axis = self._find_batch()
        self.time_axis = self._find_time()
        self.sizes, self.left_contexts = self._find_chunks()

    @property
    def frames(self) -> int | str | None:
        """The size of the signal's time axis in the model."""
        return None if self.time_axis is None else self._shape[self.time_axis]

    def like_output(self, given: ModelTensor) -> list[str]:
        """Return the outputs of no pair that an input may take."""
        return alike(given, (one for one in self._model.outputs.values() if one.name not in self.pairs.values()))

    def output_sizes(self, batch: str, time: str) -> dict[str, tuple[int | str | None, ...]]:
        """Return the shapes of outputs by the graph, in terms of the names of both symbols.

        None is a size that the graph does not give, or not as a share of the frames.
        """
        if self._graph is None or None in self.sizes or self.time_axis is None:
            return {}
        largest, name = max(size for size in self.sizes if size), self.frames
        times = [largest + more for more in _BEYOND] if isinstance(name, str) else [largest]
        points = [(2 if self.batch else 1, frames) for frames in times] + [(3, largest)] * bool(self.batch)
        seen = [
            self._graph.output_shapes(
                cache_sizes(self._model)
                | {one: streams for one in (self.batch, *self._aliases) if one}
                | ({name: frames} if isinstance(name, str) else {}),
                {self.length: frames} if self.length else {},
            )
            for streams, frames in points
        ]
        found: dict[str, tuple[int | str | None, ...]] = {}
        for output, tensor in self._model.outputs.items():
            shapes = [one.get(output, ()) for one in seen]
            if tensor.shape is not None and all(len(shape) == len(tensor.shape) for shape in shapes):
                sizes = zip(*shapes, strict=True)
                found[output] = tuple(_said(points, list(one), batch, time) for one in sizes)
        return found

    def _states(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        model, said = self._model, self._known.states
        for kind, names, known in (("input", said, model.inputs), ("output", said.values(), model.outputs)):
            for name in names:
                if name not in known:
                    raise UsageProblem(f"--state names no {kind} of the model: {name}; {did_you_mean(name, known)}")
        for name, other in said.items():
            if not alike(model.inputs[name], [model.outputs[other]]):
                raise UsageProblem(f"--state {name}={other} pairs tensors of different types or shapes.")
        inputs = {name: one for name, one in model.inputs.items() if name not in (*said, self._known.signal)}
        outputs = {name: one for name, one in model.outputs.items() if name not in said.values()}
        pairs, open_ones = state_pairs(inputs, outputs)
        every = {**said, **pairs}
        return {name: every[name] for name in model.inputs if name in every}, open_ones

    def _find_signal(self, left: Sequence[ModelTensor]) -> ModelTensor | None:
        """Return the one input that can be the signal: of real numbers first, else of whole ones, such as tokens."""
        if (name := self._known.signal) is not None:
            if name not in self._model.inputs:
                raise UsageProblem(
                    f"--signal names no input of the model: {name}; {did_you_mean(name, self._model.inputs)}"
                )
            return self._model.inputs[name]
        reals = [
            one
            for one in left
            if one.dtype in _REAL and (bool(one.shape) and any(size != 1 for size in one.shape or ()))
        ]
        wholes = [
            one for one in left if one.dtype in WHOLE and len(one.shape or ()) > 1 and "len" not in one.name.lower()
        ]
        if len(reals) > 1:  # others may be states whose outputs have other names
            reals = [one for one in reals if not self.like_output(one)] or reals
        elif reals and wholes and self.like_output(reals[0]):
            return None  # tokens, and perhaps a state
        several = reals or wholes
        return several[0] if len(several) == 1 else None

    def _find_batch(self) -> tuple[str | None, int | None]:
        """Return symbol and axis of the streams: the signal's first dimension, if states or the length have it, too."""
        if len(self._shape) < 2:
            return None, None
        symbol = self._shape[0]
        if symbol == 1:
            return None, 0
        given = self.pairs or [self.length] * bool(self.length)
        shapes = [self._model.inputs[name].shape or () for name in given if name]
        if isinstance(symbol, str) and shapes and all(shape.count(symbol) == 1 for shape in shapes):
            return symbol, 0
        return None, None

    def _find_time(self) -> int | None:
        rank, asked = len(self._shape), self._known.time_axis
        if self.signal is None:
            return None
        if asked is not None:
            if asked >= rank or (asked == self.batch_axis and rank > 1):
                what = "the streams' dimension" if asked < rank else "outside the dimensions"
                has = "" if asked < rank else f", which has {rank}"
                raise UsageProblem(f"--time-axis {asked} is {what} of {self.signal.name}{has}.")
            return asked
        axes = [axis for axis in range(rank) if axis != self.batch_axis]
        free = [axis for axis in axes if not isinstance(self._shape[axis], int)]
        if free:  # the first of several may be the streams
            return free[0] if len(free) == 1 and (self.batch_axis is not None or rank == 1) else None
        return self._fixed_time(axes) if self.batch_axis is not None or rank == 1 else None

    def _fixed_time(self, axes: Sequence[int]) -> int | None:
        """Return the axis of the frames of a signal whose sizes are numbers."""
        assert self.signal is not None
        said = {self._known.first, self._known.later, self.exported.frames if self.exported else None} - {None}
        summed = self._graph.without_frames(self.signal.name, len(self._shape)) if self._graph else set[int]()
        last = len(self._shape) - 1
        parts = {last} if len(self._shape) > 3 and self._shape[last] == 2 else set[int]()
        features = {axis for axis in axes if self._shape[axis] in _USUAL_FEATURES}
        for reason, left in (
            ("the given size", [axis for axis in axes if self._shape[axis] in said]),
            ("it is the only one", list(axes)),
            ("the first layers take the others as features", [axis for axis in axes if axis not in summed]),
            (
                "the others have usual numbers of features",
                [axis for axis in axes if axis not in summed | parts | features],
            ),
            ("the others have one entry", [axis for axis in axes if self._shape[axis] != 1]),
        ):
            if len(left) == 1:
                self.notes.append(
                    f"Frames: dimension {left[0]} of {self.signal.name}, {self._shape[left[0]]} in every chunk "
                    f"({reason}; --time-axis sets another)"
                )
                return left[0]
        return None

    def _find_chunks(self) -> tuple[tuple[int | None, int | None], tuple[int | None, int | None]]:
        known, size = self._known, self.frames
        if isinstance(size, int):
            for option, value in (("--first", known.first), ("--later", known.later)):
                if value not in (None, size):
                    frames = counted(size, "frame")
                    raise UsageProblem(f"{option} {value} is not possible: every chunk of the model has {frames}.")
            sizes: tuple[int | None, int | None] = size, size
        else:
            own = self.exported.frames if self.exported and self.signal else None
            sizes = known.first or own, known.later or own
        left: tuple[int | None, int | None] = (known.left_context,) * 2
        if self.signal and not (self.pairs or self.open_ones or self.exported):
            self.notes.append("Chunks: each stands for itself, such as an utterance, as there is no state (--first)")
            sizes = sizes[0], sizes[1] or sizes[0]
            left = (known.left_context or 0,) * 2
        found = self.exported if self.signal and known.left_context is None else None
        if found and sizes == (found.frames, found.frames):
            left = found.frames - found.hop - found.right if found.valid else 0, found.frames - found.hop
            ahead = f", the last {found.right} of them ahead" if found.right else ""
            said = f"{found.frames} frames{ahead}, a later one every {found.hop} ({found.keys} of the model's metadata)"
            self.notes.append(f"Chunks: {said}")
        return sizes, left


def _said(
    points: Sequence[tuple[int, int]], sizes: Sequence[int | str | None], batch: str, time: str
) -> int | str | None:
    """Return a size that is known at points of streams and frames: a number, a symbol, or a share of the frames."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes) or not numbers:
        return None
    if len(set(numbers)) == 1:
        return numbers[0]
    if numbers == [streams for streams, _ in points]:
        return batch
    by_frames = {frames: size for (_, frames), size in zip(points, numbers, strict=True)}
    if [by_frames[frames] for _, frames in points] != numbers:
        return None
    shares = list(_shares(by_frames, time))
    return shares[0] if len(shares) == 1 else None


def _shares(sizes: Mapping[int, int], time: str) -> Iterator[str]:
    """Yield `(T - a) // b` and `T + a` that give these sizes by the number of frames."""
    (frames, size), *_ = sizes.items()
    for stride in range(1, _LARGEST_STRIDE + 1):
        for less in range(frames - (size + 1) * stride + 1, frames - size * stride + 1):
            if all((one - less) // stride == found for one, found in sizes.items()):
                shown = time if not less else f"{time} {'-' if less > 0 else '+'} {abs(less)}"
                yield shown if stride == 1 else f"({shown}) // {stride}" if less else f"{time} // {stride}"
