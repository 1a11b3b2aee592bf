"""The calls of a run: every case with its inputs, drawn, the user's own or recorded, and what to compare it with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import SURE, Arrays, Kind, Ranges, random_inputs, whole_numbers
from trt_workbench.core.counts import sized
from trt_workbench.model.index import empty_tensors
from trt_workbench.model.narrow_formats import input_ranges
from trt_workbench.model.opened import Model
from trt_workbench.verify.data import Data, at, within
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.reference import RecordedCase, Reference
from trt_workbench.verify.space import Case, Space, cases

# Of one call's inputs. Chosen: a run holds the inputs, outputs of several copies of the model, and float64 copies.
MOST_BYTES = 1 << 30
# Inputs by label: what is drawn, and what is added to the seed. Two calls with other values show stale results.
_DRAWN: Mapping[str, tuple[Kind, int]] = {
    "random": ("random", 0),
    "other random": ("signed", 1_000_003),
    "zeros": ("zeros", 0),
    "large": ("large", 0),
}
_QUICK = 2


@dataclass(frozen=True)
class Call:
    """One case and what it is called with.

    Attributes:
        space: that the case is of.
        case: shapes.
        inputs: by label, made when they are needed.
        reference: what it is compared with; None without one.
        left_out: why it is not tried; "" where it is.
        outside: whether it is none of the model's: a smaller case stands for it, or an inner tensor has no elements.
        takes: by input of whole numbers, the least and greatest that it takes, where that is known.
        narrower: the same with whole numbers that surely fit, for a model that refuses the others; None of these.
    """

    space: Space
    case: Case
    inputs: Mapping[str, Callable[[], Arrays]]
    reference: Reference | None
    left_out: str = ""
    outside: bool = False
    takes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    narrower: Call | None = None


def calls(request: VerifyRequest, opened: Opened) -> Iterator[Call]:
    """Yield the calls of every profile; inputs that would take gigabytes are sampled by a smaller case.

    Raises:
        UsageProblem: the user's inputs fit nothing that is offered, or a record was changed.
    """
    specs = opened.inputs
    if opened.record:
        for recorded in opened.record.cases():
            yield from _of_record(recorded, opened.spaces, specs)
        return
    data = Data(request.inputs, specs, opened.graph, request.preparation, request.split) if request.inputs else None
    ranges = input_ranges(opened.graph.proto) if opened.graph else {}
    needed = request.budget.needed if request.budget else ()
    for space in opened.spaces:
        always_empty = _empty(opened.graph, space.case({name: one.high for name, one in space.ranges.items()}))
        for offered, samples in data.spaces(space) if data else [(space, [])]:
            for call in _sampled(
                cases(offered, request.sizes_seed, quick=request.quick, needed=needed), offered, specs
            ):
                call = dataclasses.replace(call, reference=opened.reference)
                if empty := sorted(_empty(opened.graph, call.case) - always_empty):
                    why = f"the inner tensor {empty[0]} has no elements at this shape, which is none of the model's"
                    yield dataclasses.replace(call, left_out=call.left_out or why, outside=True)
                    continue
                if data:
                    yield dataclasses.replace(call, inputs=_given(call, samples, request))
                    continue
                # only a reference says what it does not take: a device may end at an index beyond a table
                asks = opened.reference is not None and any(map(_is_whole, specs))
                found: Call | None = None
                for caution in range(SURE, -1 if asks else SURE - 1, -1):
                    found = dataclasses.replace(_drawn(call, specs, request, ranges, caution), narrower=found)
                assert found is not None
                yield found


def _drawn(call: Call, specs: Sequence[TensorSpec], request: VerifyRequest, ranges: Ranges, caution: int) -> Call:
    case = call.case
    seed = request.seed if case.seed is None else case.seed

    def make(kind: Kind, further: int) -> Callable[[], Arrays]:
        return lambda: {
            **random_inputs(specs, case.shapes, seed + further, kind, ranges=ranges, caution=caution),
            **case.held(specs),
        }

    labels = list(_DRAWN)[: _QUICK if request.quick else None]
    held = case.held(specs)
    found = {one.name: whole_numbers(one, specs, case.shapes, caution=caution) for one in specs if _is_whole(one)}
    takes = {name: (low, high) for name, (low, high, known) in found.items() if known and name not in held}
    return dataclasses.replace(call, inputs={label: make(*_DRAWN[label]) for label in labels}, takes=takes)


def _empty(graph: Model | None, case: Case) -> set[str]:
    return empty_tensors(graph.proto, case.shapes) if graph else set()


def _is_whole(spec: TensorSpec) -> bool:
    return spec.dtype.lstrip("u").startswith("int")


def _given(call: Call, samples: Sequence[Arrays], request: VerifyRequest) -> dict[str, Callable[[], Arrays]]:
    own = {
        "given": lambda: at(samples, call.space, call.case, 0),
        "given, the next rows": lambda: at(samples, call.space, call.case, 1),
    }
    seed = request.seed if call.case.seed is None else call.case.seed
    drawn = {"within the range of those given": lambda: within(samples, own["given"](), seed)}
    return own if request.quick else own | drawn


def _of_record(recorded: RecordedCase, spaces: Sequence[Space], specs: Sequence[TensorSpec]) -> Iterator[Call]:
    names = {spec.name for spec in specs}
    shapes = {name: shape for name, shape in recorded.shapes.items() if name in names}
    inputs = {label: partial(recorded.inputs, label, specs) for label in recorded.labels}
    found = [(space, case) for space in spaces if names == shapes.keys() and (case := space.case_of(shapes))]
    for space, case in found:
        yield Call(space, case, inputs, recorded)
    if not found:
        text = " ".join(f"{name}={list(shape)}" for name, shape in recorded.shapes.items())
        case = dataclasses.replace(spaces[0].case({}), values={}, shapes=recorded.shapes, name=text)
        yield Call(spaces[0], case, inputs, recorded, left_out="the target does not accept these recorded shapes")


def _sampled(tried: Iterator[Case], space: Space, specs: Sequence[TensorSpec]) -> Iterator[Call]:
    seen: list[Mapping[str, int]] = []
    for case in tried:
        size = _bytes(case, specs)
        if size <= MOST_BYTES:
            seen.append(case.values)
            yield Call(space, case, {}, None)
            continue
        smaller = _shrunk(case, space, specs)
        why = f"its inputs take {sized(size)}, the limit is {sized(MOST_BYTES)}"
        if smaller is None:
            yield Call(space, case, {}, None, left_out=f"{why}, and no smaller shape fits")
            continue
        yield Call(space, case, {}, None, left_out=f"{why}: {smaller.label} is tried instead", outside=True)
        if smaller.values not in seen:
            seen.append(smaller.values)
            yield Call(space, smaller, {}, None)


def _shrunk(case: Case, space: Space, specs: Sequence[TensorSpec]) -> Case | None:
    """Return the largest case of a smaller batch that fits, else of all dimensions smaller by the same share."""
    others = [name for name in space.ranges if name != space.batch]
    for names in ([space.batch] if space.batch else [], [*others, *([space.batch] if space.batch else [])]):
        most = max((case.values[name] - space.ranges[name].low for name in names), default=0)

        def at_share(step: int, names: Sequence[str] = names, most: int = most) -> Case:
            sizes = {n: space.ranges[n].low + (case.values[n] - space.ranges[n].low) * step // most for n in names}
            return space.case({**case.values, **sizes})

        if not most or _bytes(at_share(0), specs) > MOST_BYTES:
            continue
        low, high = 0, most  # the share `low` fits, `high` does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _bytes(at_share(middle), specs) <= MOST_BYTES else (low, middle)
        return at_share(low)
    return None


def _bytes(case: Case, specs: Sequence[TensorSpec]) -> int:
    return sum(
        np.dtype("uint16" if spec.dtype == "bfloat16" else spec.dtype).itemsize * math.prod(case.shapes[spec.name])
        for spec in specs
    )
