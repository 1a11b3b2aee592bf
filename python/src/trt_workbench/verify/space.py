"""The shapes that a model or engine is offered at, and those of them that are tried.

Which shapes show faults is known from reports of wrong engines (NVIDIA/TensorRT #842, #1548, #3689, #4826, #4853): a
batch of 1 is right where 2 is wrong, and a profile's ends take other kernels than its middle. So every batch up to 8
and every power of two beyond is tried, and of other dimensions the ends, the corners and points between. Batches and
points that no rule names are drawn, different ones in each run: a fault at only a batch of 11 is found eventually.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import sum_parts, symbol_size
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import FREE_SIZE
from trt_workbench.core.verification import Shapes
from trt_workbench.verify.settings import Range

Dim = int | str
Symbols = Mapping[str, Sequence[int | str | None] | None]

_EVERY_BATCH = 8
_INNER_POINTS = 3
_DRAWN_BATCHES = 3
_MOST_CORNERS = 8
# Where nothing says how large a dynamic dimension may be.
DEFAULT_BATCH = (1, 4, 16)
DEFAULT_DIM = (1, 16, FREE_SIZE)


@dataclass(frozen=True)
class Case:
    """One set of input shapes.

    Attributes:
        values: sizes by symbol.
        shapes: by input name.
        batch: size of the batch; None where the inputs have none in common.
        profile: of the engine; None where it is chosen by the shapes.
        name: for display, where the sizes have no symbols.
        seed: of sizes that were drawn, and of their inputs; None of others.
    """

    values: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    batch: int | None
    profile: int | None = None
    name: str = ""
    seed: int | None = None

    def held(self, specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
        """Return the inputs that hold sizes of this case: integers whose symbols are in `values`."""
        arrays = {}
        for spec in specs:
            shape, places = self.shapes[spec.name], (spec.name, value_symbol(spec.name, 0))
            if spec.dtype in ("int32", "int64") and len(shape) < 2 and any(symbol in self.values for symbol in places):
                one = self.values.get(spec.name, 1)
                sizes = [self.values.get(value_symbol(spec.name, place), one) for place in range(math.prod(shape))]
                arrays[spec.name] = np.array(sizes, spec.dtype).reshape(shape)
        return arrays

    @property
    def size(self) -> int:
        """Return the number of elements of all inputs, at least 1."""
        return max(1, sum(math.prod(shape) for shape in self.shapes.values()))

    @property
    def label(self) -> str:
        """Return the sizes for display, such as `batch=2 sequence=17`."""
        sizes = self.name or " ".join(f"{name}={size}" for name, size in self.values.items()) or "fixed shapes"
        return sizes if self.profile is None else f"{sizes} (profile {self.profile})"


@dataclass(frozen=True)
class Space:
    """The shapes that one profile, or a model, accepts.

    Attributes:
        inputs: shape of every input; a dynamic dimension is a symbol.
        ranges: sizes by symbol.
        batch: symbol of the first dimension of every input that has one of its own; None without it.
        profile: of an engine with several.
    """

    inputs: Mapping[str, tuple[Dim, ...]]
    ranges: Mapping[str, Range]
    batch: str | None
    profile: int | None = None
    fixed_batch: int | None = field(default=None)

    def case(self, values: Mapping[str, int]) -> Case:
        """Return the case of these sizes, those that are not named being the best-tuned."""
        sizes = {name: values.get(name, around.best) for name, around in self.ranges.items()}
        shapes = {name: tuple(_size(dim, sizes) for dim in dims) for name, dims in self.inputs.items()}
        return Case(sizes, shapes, self.fixed_batch if self.batch is None else sizes[self.batch], self.profile)

    def sizes_of(self, shapes: Mapping[str, Sequence[int]], *, with_batch: bool = True) -> dict[str, int] | None:
        """Return the sizes by symbol of the shapes of some or all inputs; None where they are not offered.

        Args:
            shapes: by input name.
            with_batch: whether the batch has to be one that is offered too; it is left out of the sizes otherwise.
        """
        sizes: dict[str, int] = {}
        for name, shape in shapes.items():
            dims = self.inputs.get(name, ())
            if len(dims) != len(shape):
                return None
            for dim, size in zip(dims, shape, strict=True):
                if isinstance(dim, int):
                    if dim != size:
                        return None
                elif dim in self.ranges and (with_batch or dim != self.batch):
                    around = self.ranges[dim]
                    if not around.low <= size <= around.high or sizes.setdefault(dim, size) != size:
                        return None
        return sizes

    def case_of(self, shapes: Mapping[str, Sequence[int]]) -> Case | None:
        """Return the case with these input shapes, those that are not named being the best-tuned; None where none has.

        Args:
            shapes: by input name.
        """
        sizes = self.sizes_of(shapes)
        case = None if sizes is None else self.case(sizes)
        fits = case is not None and all(tuple(shape) == case.shapes[name] for name, shape in shapes.items())
        return case if fits else None

    def is_batched(self, name: str) -> bool:
        """Whether the first dimension of an input is the batch."""
        dims = self.inputs[name]
        if name in self.ranges or value_symbol(name, 0) in self.ranges:
            return False
        return bool(dims) and dims[0] == (self.fixed_batch if self.batch is None else self.batch)


def model_space(specs: Sequence[TensorSpec], symbols: Symbols, asked: Mapping[str, Range]) -> Space:
    """Return the space of a model without profiles.

    Args:
        specs: the inputs; a dynamic dimension is None.
        symbols: names of dynamic dimensions by input, as the ONNX file has them.
        asked: ranges by symbol or `input.axis`, a dynamic batch is 1 to 16 otherwise, another dimension 1 to 64; or by
            an input of integers, whose values are sizes then.

    Raises:
        UsageProblem: a range names no dynamic dimension.
    """
    inputs = {spec.name: _named(spec.name, spec.shape, symbols.get(spec.name)) for spec in specs}
    first = {dims[0] for dims in inputs.values() if dims}
    ranges, used = {}, set()
    for name, dims in inputs.items():
        for axis, dim in enumerate(dims):
            if not isinstance(dim, str) or len(sum_parts(dim)) > 1:
                continue
            default = DEFAULT_BATCH if dim in first and axis == 0 else DEFAULT_DIM
            known = [key for key in (dim, f"{name}.{axis}") if key in asked]
            used.update(known)
            if known or dim not in ranges:
                ranges[dim] = asked[known[0]] if known else Range(*default)
    # an input that may hold sizes: a few integers, whose number is fixed
    few = [
        one.name for one in specs if one.dtype in ("int32", "int64") and len(one.shape) < 2 and None not in one.shape
    ]
    sizes = (asked.keys() - used).intersection(few)
    ranges |= {name: asked[name] for name in sorted(sizes)}
    if unused := sorted(asked.keys() - used - sizes):
        there = ", ".join(ranges) or "none"
        raise UsageProblem(f"There is no dynamic dimension {unused[0]!r}; the model has: {there}.")
    return _space(inputs, ranges, None)


def within_batch(space: Space, most: int | None) -> Space:
    """Return the space without batches of more than `most` rows, where that is known.

    Raises:
        UsageProblem: no batch is left.
    """
    if most is None or space.batch is None or space.ranges[space.batch].high <= most:
        return space
    around = space.ranges[space.batch]
    if around.low > most:
        raise UsageProblem(f"Batches from {around.low} rows on are requested; the target takes at most {most}.")
    return replace(space, ranges={**space.ranges, space.batch: Range(around.low, min(around.best, most), most)})


def engine_spaces(tensors: Sequence[Any], symbols: Symbols) -> list[Space]:
    """Return the space of every profile of an engine.

    Args:
        tensors: the native engine's inputs.
        symbols: names of dynamic dimensions, where the model is known. Without them, dimensions with the same range on
            the same axis are treated as one.
    """
    count = max((len(tensor.profiles) for tensor in tensors), default=0) or 1
    spaces = []
    for profile in range(count):
        inputs: dict[str, tuple[Dim, ...]] = {}
        ranges: dict[str, Range] = {}
        for tensor in tensors:
            known = symbols.get(tensor.name)
            dims: list[Dim] = []
            for axis, size in enumerate(tensor.shape):
                low, best, high = (int(one[axis]) for one in tensor.profiles[profile]) if size < 0 else [int(size)] * 3
                if low == high:
                    dims.append(low)
                    continue
                around, named = Range(low, best, high), known[axis] if known else None
                symbol = "batch" if axis == 0 else f"dim{axis}_{low}_{best}_{high}"
                symbol = named if isinstance(named, str) else symbol
                if ranges.setdefault(symbol, around) != around:
                    symbol = f"{tensor.name}.{axis}"  # another range: a different dimension
                    ranges[symbol] = around
                dims.append(symbol)
            inputs[tensor.name] = tuple(dims)
            if tensor.is_shape_tensor and len(tensor.values) > profile:
                for place, ends in enumerate(zip(*tensor.values[profile], strict=True)):
                    ranges[value_symbol(tensor.name, place)] = Range(*map(int, ends))
        spaces.append(_space(inputs, ranges, profile if count > 1 else None))
    return spaces


def value_symbol(name: str, place: int) -> str:
    """Return the symbol of one value of an input whose values are sizes, where they are not all the same."""
    return f"{name}[{place}]"


def cases(
    space: Space, seed: int, *, quick: bool = False, needed: Sequence[Mapping[str, Sequence[int]]] = ()
) -> Iterator[Case]:
    """Yield the cases to try, each once: batches, then ends and corners of other dimensions, then points between.

    Args:
        space: what is offered.
        seed: of batches and points between.
        quick: only a batch of 1, 2, 3 and the largest, and the ends of other dimensions.
        needed: input shapes that come before all others, where the space has them.
    """
    seen = set()
    first = (case for shapes in needed if (case := space.case_of(shapes)))
    fixed = map(space.case, _values(space, quick=quick))
    drawn = (replace(space.case(values), seed=seed) for values in ([] if quick else _drawn_values(space, seed)))
    for case in itertools.chain(first, fixed, drawn):
        key = tuple(case.values.items())
        if key not in seen:
            seen.add(key)
            yield case


def batches(around: Range, *, quick: bool) -> list[int]:
    """Return the batches to try: every one up to 8, then powers of two, and both ends."""
    sizes = {1, 2, 3} if quick else set(range(1, _EVERY_BATCH + 1))
    if not quick:
        sizes |= {2**power for power in range(3, around.high.bit_length())}
    within = {size for size in sizes if around.low <= size <= around.high}
    return sorted(within | {around.low, around.high} | (set() if quick else {around.best}))


def _values(space: Space, *, quick: bool) -> Iterator[dict[str, int]]:
    others = {name: around for name, around in space.ranges.items() if name != space.batch}
    sizes = batches(space.ranges[space.batch], quick=quick) if space.batch else [None]
    for size in sizes:
        yield _with_batch(space, {}, size)
    ends = list(itertools.islice(itertools.product(*((r.low, r.high) for r in others.values())), _MOST_CORNERS))
    several = sizes[min(1, len(sizes) - 1)]
    for corner in ends if others else ():
        for size in dict.fromkeys((sizes[0], several) if quick else (sizes[0], several, sizes[-1])):
            yield _with_batch(space, dict(zip(others, corner, strict=True)), size)


def _drawn_values(space: Space, seed: int) -> Iterator[dict[str, int]]:
    draw = np.random.default_rng(seed)
    others = {name: around for name, around in space.ranges.items() if name != space.batch}
    around = space.ranges[space.batch] if space.batch else None
    if around:
        left = sorted(set(range(around.low, around.high + 1)) - set(batches(around, quick=False)))
        for size in sorted(draw.choice(left, min(_DRAWN_BATCHES, len(left)), replace=False).tolist() if left else []):
            yield _with_batch(space, {}, size)
    for _ in range(_INNER_POINTS if others else 0):
        inner = {name: int(draw.integers(one.low, one.high + 1)) for name, one in others.items()}
        yield _with_batch(space, inner, int(draw.integers(around.low, around.high + 1)) if around else None)


def _with_batch(space: Space, values: dict[str, int], size: int | None) -> dict[str, int]:
    return values if space.batch is None or size is None else {space.batch: size, **values}


def _space(inputs: dict[str, tuple[Dim, ...]], ranges: dict[str, Range], profile: int | None) -> Space:
    first = {dims[0] for dims in inputs.values() if len(dims) > 1}
    symbols = {dim for dim in first if isinstance(dim, str)}
    if len(symbols) == 1:
        return Space(inputs, ranges, symbols.pop(), profile)
    alike = first.pop() if len(first) == 1 else None
    return Space(inputs, ranges, None, profile, alike if isinstance(alike, int) and alike > 1 else None)


def _named(name: str, shape: Sequence[int | None], symbols: Sequence[int | str | None] | None) -> tuple[Dim, ...]:
    names = symbols if symbols is not None and len(symbols) == len(shape) else [None] * len(shape)
    return tuple(
        dim if dim is not None else symbol if isinstance(symbol, str) else f"{name}.{axis}"
        for axis, (dim, symbol) in enumerate(zip(shape, names, strict=True))
    )


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    size = dim if isinstance(dim, int) else symbol_size(dim, sizes)
    if size is None:
        raise UsageProblem(f"Dimension {dim!r} has no size; give its range with --dim.")
    return size


# Of the seconds that the build took, and the least.
SHARE, LEAST_S = 0.1, 5.0


class Budget:
    """Seconds that begin to run now.

    The first shape is always tried, and those that are needed: without them there is no verdict. One more is begun only
    where it fits into what is left, by the pace of those before. A suspected fault is always investigated,
    and ends the verification.

    Attributes:
        needed: input shapes to try in any case.
    """

    def __init__(
        self, seconds: float, needed: Sequence[Shapes] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.needed = tuple(needed)
        self._clock, self._end = clock, clock() + seconds
        self._begun: tuple[float, int] | None = None
        self._pace: float | None = None  # seconds for each element of the inputs

    @classmethod
    def of_build(cls, build_s: float, needed: Sequence[Shapes] = ()) -> Budget:
        """Return the time budget for a build that took `build_s` seconds."""
        return cls(max(LEAST_S, SHARE * build_s), needed)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._clock() >= self._end

    def begin(self, case: Case) -> bool:
        """Whether a case may be tried now; if so, `end` has to follow."""
        now = self._clock()
        if self._pace is not None and not self._is_needed(case) and now + self._pace * case.size > self._end:
            return False
        self._begun = now, case.size
        return True

    def end(self) -> None:
        """Note that the case is done."""
        assert self._begun is not None
        started, size = self._begun
        pace = (self._clock() - started) / size
        self._pace = pace if self._pace is None else min(pace, self._pace)

    def _is_needed(self, case: Case) -> bool:
        return any(all(case.shapes.get(name) == tuple(dims) for name, dims in one.items()) for one in self.needed)
