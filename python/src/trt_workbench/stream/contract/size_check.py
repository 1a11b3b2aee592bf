"""Whether a contract's sizes are those of a model or engine: one sentence for each symbol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trt_workbench.core.counts import grouped
from trt_workbench.engine.profiles import Profile
from trt_workbench.stream.contract.contract import Contract, Symbols
from trt_workbench.stream.contract.exporters import with_own_names
from trt_workbench.stream.contract.expressions import Expression
from trt_workbench.stream.contract.model_tensors import ModelTensors

Points = Sequence[tuple[str, Symbols]]


class Dimension(NamedTuple):
    """A dimension as the contract says it, and its size or symbol in the model; None where that has neither."""

    name: str
    axis: int
    said: Expression
    there: int | str | None

    def __str__(self) -> str:
        return f"dimension {self.axis} of {self.name}"


def sizes(contract: Contract, model: ModelTensors, points: Points) -> Iterator[str]:
    """Yield where sizes differ.

    Args:
        contract: that contradicts itself nowhere at `points`.
        model: what it is compared with.
        points: symbols at which they are compared, and in words which these are.
    """
    dimensions = list(_dimensions(contract, with_own_names(model)))
    numbers = _Numbers(contract, model, points)
    yield from numbers.off(dimensions)
    yield from _same_symbols(contract, dimensions, points)
    if model.profiles:
        yield from _profiles(contract, model, dimensions, numbers.believed(points))


def places(dimensions: Sequence[tuple[str, int]]) -> str:
    """Return in words how many dimensions of tensors these are; each is a tensor's name and the dimension's place."""
    (name, axis), count = dimensions[0], len({name for name, _ in dimensions})
    first = f"dimension {axis} of {name}"
    return first if len(dimensions) == 1 else f"{count} tensors ({first}, for one)"


def _dimensions(contract: Contract, model: ModelTensors) -> Iterator[Dimension]:
    for name, there in {**model.inputs, **model.outputs}.items():
        said = contract.tensors.get(name)
        if said is not None and there.shape is not None and len(there.shape) == len(said.shape):
            for axis, (dim, size) in enumerate(zip(said.shape, there.shape, strict=True)):
                yield Dimension(name, axis, dim, size)


class _Numbers:
    """Sizes that are numbers in a model, and the symbols that they give a value: `fixed`."""

    def __init__(self, contract: Contract, model: ModelTensors, points: Points) -> None:
        self._contract, self._model, self._points = contract, model, points
        self.fixed: dict[str, int] = {}

    def off(self, dimensions: Iterable[Dimension]) -> Iterator[str]:
        """Yield where the contract has another number; what follows from a symbol is part of its sentence."""
        left = [one for one in dimensions if isinstance(one.there, int) and _first_off(one, self._points)]
        for symbol in _by_need(self._contract):
            found = dict.fromkeys(one.there for one in left if one.said.text == symbol)
            for size in found:
                assert isinstance(size, int)
                group = [one for one in left if self._follows(one, symbol, size)]
                left = [one for one in left if one not in group]
                yield self._of_symbol(symbol, size, group)
                if len(found) == 1:
                    self.fixed[symbol] = size
        # a number says nothing about another one
        groups = grouped(left, lambda one: (one.said.text, one.there) if one.said.names else (one.name, one.axis))
        for group in groups.values():
            where, wanted = self._first_off(group[0])
            said = f"{group[0].said}, which is {wanted} {where}" if group[0].said.names else f"{wanted}"
            more = f", and so in {len(group) - 1} more" if len(group) > 1 else ""
            yield f"{group[0]} is {group[0].there} in the {self._model.kind}, but the contract says {said}{more}"

    def believed(self, points: Points, **more: int) -> list[tuple[str, dict[str, int]]]:
        """Return points with the values of `fixed`, and what follows from them."""
        fixed = {**self.fixed, **more}
        return [(where, _with(self._contract, values, fixed)) for where, values in points]

    def _follows(self, one: Dimension, symbol: str, size: int) -> bool:
        """Whether a dimension is the symbol, or would be right if the symbol had this size."""
        if one.said.text == symbol:
            return one.there == size
        if symbol not in _needs(self._contract, one.said):
            return False
        try:
            return all(one.said.whole(at) == one.there for _, at in self.believed(self._points, **{symbol: size}))
        except ValueError:
            return False

    def _of_symbol(self, symbol: str, size: int, group: Sequence[Dimension]) -> str:
        contract, model = self._contract, self._model
        there = f"and {size} in the {model.kind}, in {places([(one.name, one.axis) for one in group])}"
        if symbol not in contract.free:
            said = contract.symbols[symbol]
            if said is not None and said.names:
                where, wanted = self._first_off(group[0])
                return f"{symbol} is {said} in the contract, which is {wanted} {where}, {there}"
            fix = f"give it its size in symbols, or pass the {model.kind} that the contract is of"
            return f"{symbol} is {said} in the contract {there}: {fix}"
        span = _span(values[symbol] for _, values in self._points)
        give = f'give the profiles "{symbol}": {[size] * 3}'
        if symbol == contract.time_symbol:
            give = f'give the chunks {size} frames and the profiles "{symbol}": {[size] * 3}'
        return f"{symbol} is {span} in the contract's profiles {there}: {give}, or {_made_for(model, span)}"

    def _first_off(self, one: Dimension) -> tuple[str, int]:
        """Return where a dimension has another size, and which; with the values of `fixed` if it has one then."""
        known = sorted(_needs(self._contract, one.said) & self.fixed.keys())
        try:
            found = _first_off(one, self.believed(self._points)) if known else None
        except ValueError:
            found = None
        if found:
            return "where " + " and ".join(f"{name} is {self.fixed[name]}" for name in known), found[1]
        where, wanted = _first_off(one, self._points) or ("", 0)
        return f"at {where}", wanted


def _made_for(model: ModelTensors, span: str) -> str:
    return f"build the engine for {span}" if model.is_engine else f"export the model with a dimension that takes {span}"


def loosely_named(contract: Contract, model: ModelTensors) -> Iterator[str]:
    """Yield dimensions of outputs that an exporter named after the input's dimension that they are made of."""
    first: dict[str, Dimension] = {}
    for one in _dimensions(contract, model):
        if isinstance(one.there, str) and _is_made_of(contract, one, first.setdefault(one.there, one)):
            other = first[one.there]
            yield f"the model calls {one} {one.there}, as {other}; by the contract it is {one.said}"


def _is_made_of(contract: Contract, one: Dimension, other: Dimension) -> bool:
    """Whether a dimension of an output is another size by the contract that follows from one of an input.

    Runtimes do not hold outputs to the names of their dimensions, and WeNet calls frames before and behind the
    subsampling T.
    """
    is_output = one.name in contract.outputs and other.name in contract.inputs
    return is_output and one.said != other.said and bool(other.said.names & _needs(contract, one.said))


def _same_symbols(contract: Contract, dimensions: Iterable[Dimension], points: Points) -> Iterator[str]:
    """Yield where dimensions that the model gives one name have different sizes in the contract."""
    first: dict[str, Dimension] = {}
    groups: dict[tuple[str, str], list[Dimension]] = {}
    for one in dimensions:
        if isinstance(one.there, str):
            other = first.setdefault(one.there, one)
            if _is_made_of(contract, one, other):
                continue
            if any(other.said.whole(values) != one.said.whole(values) for _, values in points):
                groups.setdefault((one.there, one.said.text), []).append(one)
    for (symbol, _), group in groups.items():
        other, one = first[symbol], group[0]
        pairs = ((where, other.said.whole(values), one.said.whole(values)) for where, values in points)
        where, said, there = next(pair for pair in pairs if pair[1] != pair[2])
        more = f", and so in {len(group) - 1} more" if len(group) > 1 else ""
        yield f"the model calls {other} and {one} {symbol}, but the contract says {said} and {there} at {where}{more}"


def _profiles(
    contract: Contract, model: ModelTensors, dimensions: Iterable[Dimension], points: Points
) -> Iterator[str]:
    """Yield what no profile of an engine takes: symbols by themselves first, then what is left of the points."""
    inputs = [one for one in dimensions if one.name in model.inputs]
    clamped: dict[str, list[tuple[int, int]]] = {}
    for symbol in contract.free:
        group = [one for one in inputs if one.said.text == symbol and any(one.name in p.shapes for p in model.profiles)]
        ranges = [found for profile in model.profiles if (found := _range(profile, group)) is not None]
        if not group or all(any(low <= at[symbol] <= high for low, high in ranges) for _, at in points):
            continue
        clamped[symbol] = ranges
        span = _span(values[symbol] for _, values in points)
        taken = " or ".join(dict.fromkeys(_span(one) for one in sorted(ranges))) or "nothing"
        yield (
            f"{symbol} is {span} in the contract's profiles and {taken} in the engine's, in "
            f"{places([(one.name, one.axis) for one in group])}: give the contract those of the engine, or "
            f"{_made_for(model, span)}"
        )
    for where, values in points:
        nearest = {symbol: _nearest(values[symbol], ranges) for symbol, ranges in clamped.items() if ranges}
        try:
            at = _with(contract, values, nearest)
            shapes = {name: contract.shape(name, at) for name in contract.inputs}
        except ValueError:
            continue  # sizes that only the nearest ones to those of the contract do not give
        if not any(_accepts(profile, shapes) for profile in model.profiles):
            written = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
            yield f"the engine has no profile that accepts {where} ({written})"


def _range(profile: Profile, group: Iterable[Dimension]) -> tuple[int, int] | None:
    """Return from where to where a profile takes a symbol in all of its dimensions; None if nowhere."""
    found = [
        (shape.min[one.axis], shape.max[one.axis])
        for one in group
        if (shape := profile.shapes.get(one.name)) and one.axis < len(shape.min)
    ]
    low, high = max((low for low, _ in found), default=1), min((high for _, high in found), default=0)
    return (low, high) if low <= high else None


def _accepts(profile: Profile, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether shapes lie within a profile, which has ranges only of dynamic inputs."""
    return all(
        len(shape.min) == len(shapes[name])
        and all(low <= size <= high for low, size, high in zip(shape.min, shapes[name], shape.max, strict=True))
        for name, shape in profile.shapes.items()
        if name in shapes
    )


def _nearest(value: int, ranges: Iterable[tuple[int, int]]) -> int:
    return min((min(max(value, low), high) for low, high in ranges), key=lambda one: abs(one - value))


def _span(values: Iterable[int]) -> str:
    several = list(values)
    low, high = min(several), max(several)
    return f"{low}" if low == high else f"{low} to {high}"


def _with(contract: Contract, values: Symbols, fixed: Symbols) -> dict[str, int]:
    """Return symbols' values where some have others, and what follows from these."""
    if not fixed:
        return dict(values)
    return contract.as_far_as({**{name: values[name] for name in contract.free}, **fixed})


def _first_off(one: Dimension, points: Points) -> tuple[str, int] | None:
    """Return where the contract says another size than the model, and which; None if nowhere."""
    found = ((where, one.said.whole(values)) for where, values in points)
    return next(((where, size) for where, size in found if size != one.there), None)


def _needs(contract: Contract, expression: Expression) -> set[str]:
    """Return every symbol that an expression depends on."""
    found, todo = set[str](), list(expression.names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            rule = contract.symbols.get(name)
            todo += rule.names if rule is not None else ()
    return found


def _by_need(contract: Contract) -> list[str]:
    """Return the symbols, those first that others follow from."""
    rules = {
        name: _needs(contract, rule) if rule is not None else set[str]() for name, rule in contract.symbols.items()
    }
    return sorted(contract.symbols, key=lambda name: (name not in contract.free, len(rules[name])))
