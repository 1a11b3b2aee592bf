"""What holds for every correct engine, whatever it computes: no reference is needed.

A property that the model itself does not have, such as rows that depend on each other by design, is no property of its
engine either: where there is a reference, it is asked first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.measure.inputs import Arrays
from trt_workbench.core.compare import Difference
from trt_workbench.core.elements import equal
from trt_workbench.core.errors import UsageProblem
from trt_workbench.verify.diagnosis import diagnose
from trt_workbench.verify.space import Case, Space
from trt_workbench.verify.yardstick import Limit, Yardstick

Run = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]

_MOST_ROWS = 8
_REPEATS = 4


@dataclass(frozen=True)
class CallTrial:
    """One call that was made, for the properties to start from.

    Attributes:
        space: of shapes.
        case: its shapes.
        inputs: what it was given.
        outputs: what came back.
        rows: by output, whether its first dimension is the batch.
        limits: by output, within which two results count as the same.
        other: inputs of the same shapes with other values.
        brief: whether an earlier call was tried with more repetitions.
    """

    space: Space
    case: Case
    inputs: Arrays
    outputs: Arrays
    rows: Mapping[str, bool]
    limits: Mapping[str, Limit]
    other: Arrays
    brief: bool = False


@dataclass(frozen=True)
class PropertyResult:
    """Whether a property holds for one output.

    Attributes:
        name: of the property.
        output: name of the output.
        holds: whether it does.
        difference: the largest that was seen.
        detail: where it does not hold, how.
    """

    name: str
    output: str
    holds: bool
    difference: Difference
    detail: str = ""


def rows_equal_single_runs(run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether every row of the batch is what a run of only that row gives."""
    space, case = trial.space, trial.case
    if space.batch is None or case.batch is None or case.batch < 2 or space.ranges[space.batch].low > 1:
        return
    for row in _some_rows(case.batch):
        single = run(_rows(trial, _only(row)))
        expected = _batched(trial, trial.outputs, row)
        yield from _compared("row = single run", f"row {row} of {case.batch}", trial, expected, single, order=[row])


def permuted_rows_permute(run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether permuted rows give permuted outputs."""
    if not (batch := _several(trial)):
        return
    order = np.roll(np.arange(batch), 1)
    found = run(_rows(trial, lambda array: array[order]))
    expected = {name: array[order] for name, array in trial.outputs.items() if trial.rows[name]}
    yield from _compared("permuted rows", "rows rotated by one", trial, expected, found, order=list(order))


def other_rows_do_not_matter(run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether a row is unchanged when all others change."""
    if not (batch := _several(trial)):
        return
    for kept in {0, batch - 1}:
        inputs = {**trial.inputs}
        for name, array in trial.inputs.items():
            if trial.space.is_batched(name):
                inputs[name] = trial.other[name].copy()
                inputs[name][kept] = array[kept]
        found = {name: array[kept : kept + 1] for name, array in run(inputs).items() if trial.rows.get(name)}
        expected = _batched(trial, trial.outputs, kept)
        what = f"row {kept} with other rows around it"
        yield from _compared("other rows", what, trial, expected, found, order=[kept])


def padding_does_not_matter(run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether values under a mask of zeros do not affect what is not masked."""
    for name, mask in trial.inputs.items():
        if "mask" not in name.lower() or mask.ndim != 2 or mask.all():
            continue
        seen = mask.astype(bool)
        inputs = {
            other: np.where(_spread(seen, array.ndim), array, trial.other[other])
            if other != name and array.shape[:2] == mask.shape and "mask" not in other.lower()
            else array
            for other, array in trial.inputs.items()
        }
        if all(equal(inputs[other], trial.inputs[other]) for other in inputs):
            continue
        found = run(inputs)
        shown = {
            output: (
                np.where(_spread(seen, array.ndim), array, 0) if array.shape[:2] == mask.shape else array,
                np.where(_spread(seen, array.ndim), trial.outputs[output], 0)
                if array.shape[:2] == mask.shape
                else trial.outputs[output],
            )
            for output, array in found.items()
        }
        expected = {output: pair[1] for output, pair in shown.items()}
        yield from _compared(
            "padding", f"other values where {name} is 0", trial, expected, {k: v[0] for k, v in shown.items()}
        )


def calls_repeat(run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether the same call gives the same again, also after a call with other values."""
    repeats = 0 if trial.brief else _REPEATS
    calls = [list(_compared("repeated call", "", trial, trial.outputs, run(trial.inputs))) for _ in range(repeats)]
    for of_output in zip(*calls, strict=True):
        alternates = [one.holds for one in of_output] in ([False, True, False, True], [True, False, True, False])
        for number, one in enumerate(of_output):
            what = "every second call" if alternates else f"call {number + 2}"
            yield replace(one, detail="" if one.holds else f"{what}{one.detail}")
    stale = run(trial.other)
    if not trial.brief:
        stale = run(trial.other)  # what is stale by one call comes with the second
    found = run(trial.inputs)
    earlier = {"the one before": stale}
    yield from _compared("repeated call", "after a call with other values", trial, trial.outputs, found, earlier)


def calls_at_once(run: Run, trial: CallTrial, count: int) -> Iterator[PropertyResult]:
    """Yield whether calls in flight at once do not affect each other; for sessions with `count` calls in flight."""
    alone = run(trial.other)
    with ThreadPoolExecutor(count) as pool:
        calls = [pool.submit(run, inputs) for _ in range(_REPEATS) for inputs in (trial.inputs, trial.other)]
        results = [call.result() for call in calls]
    for number, found in enumerate(results):
        expected, concurrent = (trial.outputs, alone) if number % 2 == 0 else (alone, trial.outputs)
        earlier = {"another in flight at the same time": concurrent}
        yield from _compared(f"{count} calls at once", f"call {number + 1}", trial, expected, found, earlier)


def rows_at_once(run: Run, trial: CallTrial, count: int) -> Iterator[PropertyResult]:
    """Yield whether single rows in flight at once give what each gives in a batch of its own call.

    Whoever puts waiting calls together may hand a row the result of another; calls of different values show it.
    """
    space, case = trial.space, trial.case
    if space.batch is None or case.batch is None or space.ranges[space.batch].low > 1:
        return
    sources = [(trial.inputs, trial.outputs), (trial.other, run(trial.other))]
    rows = [(inputs, outputs, row) for row in _some_rows(case.batch) for inputs, outputs in sources]
    with ThreadPoolExecutor(count) as pool:
        calls = [
            (outputs, row, pool.submit(run, _rows(replace(trial, inputs=inputs), _only(row))))
            for _ in range(math.ceil(_REPEATS * count / len(rows)))
            for inputs, outputs, row in rows
        ]
        results = [(outputs, row, call.result()) for outputs, row, call in calls]
    for number, (outputs, row, found) in enumerate(results):
        expected = _batched(trial, outputs, row)
        others = {
            f"row {another} of a call in flight at the same time": _batched(trial, theirs, another)
            for _, theirs, another in rows
            if another != row or theirs is not outputs
        }
        yield from _compared("single rows at once", f"call {number + 1}", trial, expected, found, others, order=[row])


def _only(row: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda array: array[row : row + 1]


def _batched(trial: CallTrial, outputs: Mapping[str, NDArray[Any]], row: int) -> Arrays:
    """Return one row of the outputs that have rows."""
    return {name: array[row : row + 1] for name, array in outputs.items() if trial.rows[name]}


Check = Callable[[Run, CallTrial], Iterator[PropertyResult]]

EVERY_CALL: tuple[Check, ...] = (
    rows_equal_single_runs,
    permuted_rows_permute,
    other_rows_do_not_matter,
    padding_does_not_matter,
    calls_repeat,
)

# What a further shape is tried with: more rows of others, and more repetitions, add little to these.
OF_A_SHAPE: tuple[Check, ...] = (rows_equal_single_runs, padding_does_not_matter, calls_repeat)

# Those whose calls have other values or shapes than the call that they start from.
OTHER_INPUTS: tuple[Check, ...] = EVERY_CALL[:-1]


def agrees(name: str, run: Run, trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether another way to run the same engine, such as without a CUDA graph, gives the same, call by call."""
    for number in range(_REPEATS):  # a graph is captured at the second call of a shape, and replayed from then on
        yield from _compared(name, f"call {number + 1}", trial, trial.outputs, run(trial.inputs))


def follows_state(run: Run, stateless: Run, state: Mapping[str, str], trial: CallTrial) -> Iterator[PropertyResult]:
    """Yield whether a session that keeps its state, from zeros on, gives what one does that is handed it back.

    Args:
        run: of the session that keeps its state, which takes and returns everything else.
        stateless: of the same target with all inputs and outputs.
        state: output name to input name.
        trial: a call of `stateless`.
    """
    held = {fed: np.zeros_like(trial.inputs[fed]) for fed in state.values()}
    for number in range(_REPEATS):
        given = trial.other if number % 2 else trial.inputs
        expected = dict(stateless({**given, **held}))
        found = run({name: array for name, array in given.items() if name not in held})
        held = {fed: expected[output] for output, fed in state.items()}
        kept = {name: array for name, array in expected.items() if name not in state}
        yield from _compared("state on the device", f"call {number + 1}", trial, kept, found)


def worst(findings: Iterator[PropertyResult]) -> list[PropertyResult]:
    """Return one finding for every property and output: one that does not hold, else the largest difference."""
    found: dict[tuple[str, str], PropertyResult] = {}
    for one in findings:
        key = (one.name, one.output)
        before = found.get(key)
        if before is None or (before.holds, -before.difference.size) > (one.holds, -one.difference.size):
            found[key] = one
    return list(found.values())


def _compared(
    name: str,
    detail: str,
    trial: CallTrial,
    expected: Mapping[str, NDArray[Any]],
    found: Mapping[str, NDArray[Any]],
    earlier: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
    order: Sequence[int] | None = None,
) -> Iterator[PropertyResult]:
    for output, want in expected.items():
        got, limit = found[output], trial.limits[output]
        if not limit.decides:
            continue
        if order is not None:
            limit = limit.of_rows(order)
        apart = limit.apart(got, want, rows=trial.rows[output])
        holds = limit.allows(apart)
        text = ""
        if not holds:
            before = {label: (arrays[output], None) for label, arrays in (earlier or {}).items()}
            how = diagnose(got, want, limit, rows=trial.rows[output], earlier=before)
            text = f"{detail}: {how or limit.excess(apart)}"
        yield PropertyResult(name, output, holds, apart, text)


def _several(trial: CallTrial) -> int:
    """Return how many rows a call has, of which outputs have as many; 0 where it has one, or none has."""
    batch = trial.case.batch or 0
    return batch if batch > 1 and any(trial.rows.values()) else 0


def _rows(trial: CallTrial, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> Arrays:
    return {
        name: np.ascontiguousarray(pick(array)) if trial.space.is_batched(name) else array
        for name, array in trial.inputs.items()
    }


def _some_rows(batch: int) -> list[int]:
    some = {*range(_MOST_ROWS // 2), batch // 2, batch - 2, batch - 1}
    return sorted(some if batch > _MOST_ROWS else range(batch))


def _spread(mask: NDArray[np.bool_], rank: int) -> NDArray[np.bool_]:
    return mask.reshape(*mask.shape, *([1] * (rank - 2)))


class Calls:
    """Runs a target and keeps what it answered, in order."""

    def __init__(self, run: Run, earlier: Sequence[Mapping[str, NDArray[Any]]] = ()) -> None:
        """Take the target's `run`, and what it answered to the first calls before: an odd answer may not recur."""
        self._run, self._earlier = run, iter(earlier)
        self.answers: list[Mapping[str, NDArray[Any]]] = []

    def __call__(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Run it."""
        earlier = next(self._earlier, None)
        self.answers.append(self._run(inputs) if earlier is None else earlier)
        return self.answers[-1]


def without_rounding(
    check: Check, calls: Calls, trial: CallTrial, findings: list[PropertyResult], yardstick: Yardstick, precision: str
) -> list[PropertyResult]:
    """Return the findings, of which those hold that only rounding breaks.

    Args:
        check: that gave the findings.
        calls: that it made.
        trial: that it started from.
        findings: of the check, one an output.
        yardstick: of the model.
        precision: that the target computes in.
    """
    if check not in OTHER_INPUTS or all(one.holds for one in findings):
        return findings

    def settled(inputs: Mapping[str, NDArray[Any]], answer: Mapping[str, NDArray[Any]]) -> Arrays:
        """Return the model's own outputs where the target's are right, else the target's."""
        right = yardstick.exact(inputs)
        limits = yardstick.limits(precision, inputs, right, trial.rows, closely=True)
        return {
            name: right[name] if _explains(limits[name], array, right[name], rows=trial.rows[name]) else array
            for name, array in answer.items()
        }

    answers = iter(calls.answers)  # the calls themselves: an intermittent fault may not recur
    try:
        own = replace(trial, outputs=settled(trial.inputs, trial.outputs))
        still = {
            one.output for one in worst(check(lambda inputs: settled(inputs, next(answers)), own)) if not one.holds
        }
    except UsageProblem:  # ONNX Runtime does not take a shape that the target takes
        return findings
    return [one if one.output in still else replace(one, holds=True, detail="") for one in findings]


def _explains(limit: Limit, found: NDArray[Any], right: NDArray[Any], *, rows: bool) -> bool:
    apart = limit.apart(found, right, rows=rows)
    broken = apart.shape_differs or apart.nonfinite > 0
    return limit.allows(apart) or limit.is_overflow(apart) or not (limit.decides or broken)
