"""The parts of a streaming contract, each a model of a part of its document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from trt_workbench.core.documents import Inside, Strict
from trt_workbench.core.errors import did_you_mean
from trt_workbench.core.precision import STREAM, find, get, names
from trt_workbench.stream.contract.expressions import Expression

_Limit = Annotated[float, Field(gt=0)]


class Gate(Strict):
    """Limits of one precision; None leaves one out.

    Attributes:
        rel_l2_max: relative L2 of a tensor in any chunk.
        abs_max: largest absolute error.
        abs_p95: its 95th percentile over chunks.
        abs_mean: its mean over chunks.
    """

    rel_l2_max: _Limit | None = None
    abs_max: _Limit | None = None
    abs_p95: _Limit | None = None
    abs_mean: _Limit | None = None


class Gates(Strict):
    """Limits by format, under its name, and those that hold in all of them.

    A format that is left out has the limit that follows from its roundoff (`core.precision.STREAM`).

    Attributes:
        drift_exponent_lower_max: of the lower confidence bound of b, where the error grows as chunk ** b.
        integers: outputs of whole numbers must be equal.
        finite: outputs must be finite.
        head_agreement_min: share of rows where the largest entry of a head is the same.
        live_state: a state that carries nothing must be declared dead.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Gate] = Field(init=False)

    drift_exponent_lower_max: float | None = 0.25
    integers: Literal["equal"] | None = "equal"
    finite: bool = True
    head_agreement_min: Annotated[float, Field(ge=0, le=1)] | None = 0.999
    live_state: bool = True

    @model_validator(mode="before")
    @classmethod
    def _by_format(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if unknown := [name for name in value if name not in cls.model_fields and not find(name)]:
            known = [*reversed(names()), *cls.model_fields]
            raise ValueError(f"there is no gate or format {unknown[0]!r}; {did_you_mean(unknown[0], known)}")
        return {name: {"rel_l2_max": STREAM.limit(name)} for name in reversed(names())} | {**value}

    def of(self, name: str) -> Gate:
        """Return the limits of a format."""
        return self.__pydantic_extra__[name]


Name = Annotated[str, Field(min_length=1, max_length=500)]
# Least and largest values of whole numbers that a float holds.
_WHOLE = {
    "int64": (-(2**53), 2**53),
    "int32": (-(2**31), 2**31 - 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "bool": (0, 1),
}


_LARGEST = {get(name).numpy: get(name).largest for name in names(lambda one: one.is_float)}


def holds(dtype: str, number: float) -> bool:
    """Whether a type holds a number as it is, of one with fractions rounded."""
    if dtype in _LARGEST:
        return not math.isfinite(number) or abs(number) <= _LARGEST[dtype]
    least, largest = _WHOLE.get(dtype, (None, None))
    return least is None or largest is None or (number % 1 == 0 and least <= number <= largest)


Dtype = Literal["float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool"]
Axis = Annotated[int, Field(ge=0, le=31)]
Frames = Annotated[int, Field(ge=0, le=2**31 - 1)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]


class TensorOf(Strict):
    """What every tensor has.

    Attributes:
        dtype: numpy's name of the type.
        shape: each dimension as a number, a symbol or an expression of symbols.
        batch_axis: the dimension that indexes streams; by default the one that is the signal's batch symbol.
    """

    dtype: Dtype
    shape: Annotated[tuple[Expression, ...], Field(max_length=32)]
    batch_axis: Axis | None = None


class Signal(TensorOf):
    """The input that the stream comes in by, chunk by chunk.

    Attributes:
        time_axis: the dimension of its frames, such as samples or feature vectors.
    """

    role: Literal["signal"]
    time_axis: Axis


class Length(TensorOf):
    """An input that says how many frames of a chunk are valid, its left context among them; the rest is padding.

    Attributes:
        of: the signal.
        range: smallest and largest value that the model takes, as expressions of symbols.
    """

    role: Literal["length"]
    of: Name
    range: tuple[Expression, Expression]


class StateInput(TensorOf):
    """An input that takes what an output of the chunk before gave.

    Attributes:
        range: smallest and largest value, of a state of whole numbers.
    """

    role: Literal["state"]
    range: tuple[Expression, Expression] | None = None


class Constant(TensorOf):
    """An input that has one value in every chunk of a stream, such as a sample rate or the number of a language.

    Attributes:
        value: of streams that say no other: a number, or the name of one.
        values: numbers by name, such as those of languages.
    """

    role: Literal["constant"]
    value: float | Name
    values: Annotated[Mapping[Name, float], Field(max_length=4096, default_factory=dict)]

    @model_validator(mode="after")
    def _known(self) -> Self:
        self.number()
        return self

    def number(self, value: float | str | None = None) -> float:
        """Return the number of a value, by default the own one.

        Raises:
            ValueError: a name has none, or the type does not hold it.
        """
        asked = self.value if value is None else value
        if isinstance(asked, str):
            if asked not in self.values:
                raise ValueError(f"there is no value {asked!r}; {did_you_mean(asked, self.values)}")
            asked = self.values[asked]
        if not holds(self.dtype, asked):
            raise ValueError(f"{self.dtype} does not hold the value {asked:g}")
        return asked


class FrameCounter(TensorOf):
    """An input that the caller counts, such as the frames before a chunk; every element of a row has the value.

    Attributes:
        value: of symbols and the chunk's numbers.
    """

    role: Literal["counter"]
    value: Expression


class Mask(TensorOf):
    """An input that says which entries along an axis are valid, by 1 or true: so many at its end or start.

    Attributes:
        axis: of the entries.
        valid: how many are, of symbols and the chunk's numbers.
        valid_at: the end where they are.
    """

    role: Literal["mask"]
    axis: Axis
    valid: Expression
    valid_at: Literal["start", "end"] = "end"


Input = Annotated[Signal | Length | StateInput | Constant | FrameCounter | Mask, Field(discriminator="role")]


class Valid(Strict):
    """How much of an output counts.

    Attributes:
        axis: along which.
        by: so many entries, as a tensor or expression says by row.
        offset: after so many that do not count, such as those of left context.
    """

    axis: Axis
    by: Expression
    offset: Expression = Expression(0)

    def part(self, known: Mapping[str, int], size: int) -> slice:
        """Return the entries that count of `size`, by what expressions may use. Raises ValueError as they do."""
        start = min(max(self.offset.whole(known), 0), size)
        return slice(start, min(start + max(self.by.whole(known), 0), size))


class Output(TensorOf):
    """An output; `head` marks one whose largest entry along the last axis is the answer."""

    valid: Valid | None = None
    head: Literal["argmax"] | None = None


class Shift(Strict):
    """Which part of a state is valid, and how it moves.

    Attributes:
        axis: along which old frames are next to new ones.
        valid_at: where the valid part lies.
        by: its length by row, of the values of the chunk's inputs, such as the name of another state; None: all of it.
        moves: by how many entries what was there before a chunk has moved towards the start after it, at `valid_at`
            "end"; None where that is not promised.
    """

    axis: Axis
    valid_at: Literal["start", "end"] = "end"
    by: Expression | None = None
    moves: Expression | None = None


class FromFile(Strict):
    """An initial value from an array file beside the contract, of one stream: its batch axis is 1 or left out."""

    file: Inside


def _kind_of_init(value: object) -> str:
    """Return as what an initial value is read, so that a wrong one is named once."""
    if isinstance(value, dict | FromFile):
        return "file"
    return "number" if isinstance(value, float) else "expression"


Init = Annotated[
    Annotated[float, Tag("number")] | Annotated[Expression, Tag("expression")] | Annotated[FromFile, Tag("file")],
    Discriminator(_kind_of_init),
]


class State(Strict):
    """A pair: what an output gave is the next chunk's input.

    Attributes:
        output: name of the output.
        input: name of the input.
        init: before the first chunk: a number or expression of symbols, or a file.
        shift: which part of it is valid.
        dead: whether it is known to carry nothing from one chunk to later outputs.
    """

    output: Name
    input: Name
    init: Init = 0.0
    shift: Shift | None = None
    dead: bool = False

    @property
    def starts_from_zeros(self) -> bool:
        """Whether `init` says 0: a number, or an expression without names, as which whole numbers are read."""
        if isinstance(self.init, Expression):
            return not self.init.names and self.init({}) == 0
        return self.init == 0.0


class ChunkSize(Strict):
    """How many frames the model is fed, and how many of them are the end of the chunk before."""

    size: Size
    left_context: Frames = 0

    @property
    def hop(self) -> int:
        """New frames of the stream in a whole chunk."""
        return self.size - self.left_context


class Memory(Strict):
    """How long a stream remembers: a state is forgotten after `chunks` (finite), or never."""

    kind: Literal["finite", "infinite"]
    chunks: Expression | None = None


class Chunking(Strict):
    """How a stream is cut.

    Attributes:
        first: the first chunk.
        later: every other one.
        right_context: frames at the end of every chunk that the model looks ahead into; the next chunk repeats them
            as the end of its left context. A stream that is transcribed ends with so many frames of `left_fill`.
        left_fill: value of left context, and of padding, where the stream has no frames.
        normalize: over which frames each feature gets the mean 0 and the deviation 1: all of a chunk (`window`), or
            those that are no padding (`valid`); not at all by default.
        features: which front end makes frames of audio: kaldi's, WeNet's, NeMo's or Whisper's; by default what the
            shape says.
        sample_rate: of the audio that frames are samples or are made of, in Hz.
        frame_seconds: duration of a frame.
        memory: how long a stream remembers.
    """

    first: ChunkSize
    later: ChunkSize
    right_context: Frames = 0
    left_fill: float = 0.0
    normalize: Literal["window", "valid"] | None = None
    features: Literal["kaldi", "wenet", "nemo", "whisper"] | None = None
    sample_rate: Size | None = None
    frame_seconds: Annotated[float, Field(gt=0)] | None = None
    memory: Memory | None = None


class SymbolProfile(Strict):
    """An optimisation profile: smallest, best-tuned and largest value of every free symbol."""

    name: Name
    symbols: dict[str, tuple[Size, Size, Size]]

    def covers(self, values: Mapping[str, int]) -> bool:
        """Return whether values of free symbols lie within."""
        return all(low <= values[name] <= high for name, (low, _, high) in self.symbols.items() if name in values)

    def at(self, symbol: str, value: int) -> Self:
        """Return the profile with one value of a symbol alone."""
        return self.model_copy(update={"symbols": {**self.symbols, symbol: (value, value, value)}})


class Invariant(Strict):
    """What must hold.

    Attributes:
        id: its name in findings.
        check: over symbols, `hop`, `left_context`, `new`, `chunk` and tensors of one entry a row.
        when: where it must; everywhere by default.
        why: what its failure would mean.
    """

    id: Name
    check: Expression
    when: Expression | None = None
    why: str = ""

    @property
    def streams(self) -> bool:
        """Whether it is about a whole stream: it has a total in it."""
        return self.check.streams


class Chunk(Strict):
    """One chunk of a stream.

    Attributes:
        index: from 0.
        start: the first new frame, counted in the stream.
        new: new frames of the stream in it; fewer than `hop` only in the last chunk.
        left_context: frames before the new ones.
        size: frames that the model is fed; those after the new ones are padding.
    """

    index: int
    start: int
    new: int
    left_context: int
    size: int

    @property
    def hop(self) -> int:
        """New frames of a whole chunk of this size."""
        return self.size - self.left_context

    @property
    def valid(self) -> int:
        """Frames that are no padding."""
        return self.left_context + self.new

    def after(self) -> Chunk:
        """Return the place of the next chunk, by which what a state then holds is counted; its size is this one's."""
        return self.model_copy(update={"index": self.index + 1, "start": self.start + self.new})

    @property
    def names(self) -> dict[str, int]:
        """What expressions may use of it; `Contract.chunk_names` says which of them."""
        numbers = {"chunk": self.index, "hop": self.hop, "left_context": self.left_context, "new": self.new}
        return {**numbers, "start": self.start}
