"""Verdicts of outputs, shapes and runs, and in which of the shapes a fault shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trt_workbench.core.precision import names
from trt_workbench.core.verification import UNDECIDED, UNVERIFIED, WRONG
from trt_workbench.verify.space import Case, Space


def share_of_limit(figures: Iterable[tuple[float | None, float | None]]) -> float:
    """Return the largest share of its limit that a figure takes.

    Args:
        figures: each with its limit; None for a figure that is not finite, and for no limit. Where the limit is 0, any
            figure takes infinitely much of it.
    """
    return max(math.inf if own is None or (own and most == 0) else own / most if most else 0.0 for own, most in figures)


@dataclass(frozen=True)
class WrongOutput:
    """One wrong output.

    Attributes:
        case: the shapes.
        space: that they are of.
        output: its name.
        number: of the folder in `failures` with the arrays of the call; 0 where they are not kept.
    """

    case: Case
    space: Space
    output: str
    number: int


RIGHT, CONSISTENT = "right", "consistent"
FINEST = "fp32"
"""What is correct within it is correct."""
_ORDER = [RIGHT, *(f"{RIGHT} within {name}" for name in reversed(names())), CONSISTENT, UNVERIFIED, UNDECIDED, WRONG]
# Zeros prove nothing by themselves: most outputs of them are constants.
PROVES_NOTHING = "zeros"
# How far from an end of an input's range numbers may be that are near it, of its width.
_NEAR = 1 / 16
_NAMED = 4
# How many times plain rounding, and the error of smaller sizes, that of a less exact kernel is; beyond the second, it
# is a fault.
_LESS_EXACT, _FAULT = 3.0, 50.0


def loosest(verdicts: Iterable[str]) -> str:
    """Return the verdict that holds for all: wrong above undecided above the loosest precision."""
    return max(verdicts, key=_ORDER.index, default=UNVERIFIED)


def of_case(rows: Sequence[dict[str, Any]]) -> str:
    """Return the verdict of a shape from those of its outputs for each set of inputs.

    An output is decided by any set of inputs but zeros; it is undecided where none decides it.
    """
    return loosest(_of_output([row for row in rows if row["output"] == name]) for name in _outputs(rows))


def unproven(cases: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for every shape and output for which nothing was proven, and one of what the model refuses."""
    found = []
    for case in cases:
        found += [
            f"{case['label']}, output {name}: "
            + next((row["reason"] for row in rows if row["verdict"] == UNDECIDED), "")
            for name in _outputs(case["outputs"])
            for rows in [[row for row in case["outputs"] if row["output"] == name]]
            if _of_output(rows) == UNDECIDED
        ]
        if case["verdict"] == UNVERIFIED and not (case["refused"] or case["outside"] or case["device_failed"]):
            found.append(f"{case['label']}: {case['reason']}")
    return found + _refusal(cases)


def _refusal(cases: Sequence[dict[str, Any]]) -> list[str]:
    """Return one sentence about the free dimensions of which the model itself does not take every size."""
    refused = [case for case in cases if case["refused"]]
    if not refused:
        return []
    taken = [case for case in cases if case["verdict"] != UNVERIFIED]
    names = list(refused[0]["values"])
    bad, good = ({name: {row["values"].get(name) for row in rows} for name in names} for rows in (refused, taken))
    alone = [name for name in names if not bad[name] & good[name]] or names
    which = " and ".join(f"{name} at {spans(sorted(bad[name]))}" for name in alone)
    of = f"{len(refused)} of {len(refused) + len(taken)} shapes"
    return [
        f"the model itself refuses its free dimension{'s' * (len(alone) > 1)} {which} ({of}): export it with that size "
        f"fixed, or give the sizes that it takes with --dim; {refused[0]['reason']}"
    ]


def where(cases: Sequence[dict[str, Any]]) -> str:
    """Return at which shapes and with which inputs the target is wrong, if not at all of them; "" otherwise."""
    tried = [case for case in cases if case["verdict"] != UNVERIFIED]
    wrong = [case for case in tried if case["verdict"] == WRONG]
    texts = []
    if 0 < len(wrong) < len(tried):
        texts.append(_at(wrong, tried))
    rows = [row for case in cases for row in case["outputs"]]
    labels = {row["inputs"] for row in rows}
    spoiled = {row["inputs"] for row in rows if row["verdict"] == WRONG}
    if 0 < len(spoiled) < len(labels) and len(spoiled) == 1:
        texts.append(f"only with {spoiled.pop()} inputs")
    return ", ".join(texts)


def less_exact(cases: Sequence[dict[str, Any]], precision: str, strength: float) -> list[str]:
    """Return a sentence for every output that is many times as inexact as plain rounding from some size on.

    A runtime takes another kernel there, such as one that adds up in the precision of its factors. Whether the output
    is within its limit is another question.

    Args:
        cases: rows of verify.json.
        precision: whose rounding it is.
        strength: how many units of roundoff the copies are disturbed by that the limits come from.
    """
    tried = [case for case in cases if case["verdict"] != UNVERIFIED]
    found = []
    for output in dict.fromkeys(row["output"] for case in tried for row in case["outputs"]):
        points = [(case["values"], point) for case in tried for point in _errors(case, output, precision, strength)]
        for name in dict.fromkeys(name for values, _ in points for name in values):
            if said := _from_size_on([(values[name], *point) for values, point in points if name in values], name):
                found.append(f"output {output}: {said}")
                break
    return found


def as_exact(tried: Sequence[dict[str, Any]], asked: str, record: Mapping[str, Any]) -> list[str]:
    """Say that results show nothing of a lower precision, unless the layers or nodes that ran show it.

    Args:
        tried: rows of verify.json whose shapes were run.
        asked: the precision, whose limits hold.
        record: of the session.
    """
    ran = (record.get("precision_ran") or {}).get("shares") or ()
    shown = asked in (FINEST, *ran) or any(row["verdict"] != RIGHT for row in tried)
    return [] if shown else [f"every output is as exact as in {FINEST}: nothing shows that it computes in {asked}"]


def _errors(case: dict[str, Any], output: str, precision: str, strength: float) -> Iterator[tuple[float, float]]:
    """Yield the relative L2 of an output for each set of inputs, and what plain rounding makes of it."""
    for row in case["outputs"]:
        if row["output"] != output or row["inputs"] == PROVES_NOTHING or row["verdict"] == UNDECIDED:
            continue
        error = (row.get("difference") or {}).get("rel_l2")
        noise = row.get("limits", {}).get(precision, {}).get("noise")
        if error is not None and noise:
            yield error, noise / strength


def _from_size_on(points: Sequence[tuple[int, float, float]], name: str) -> str:
    """Say from which size of a dimension on a kernel is less exact; "" if from none. Each side needs two points."""
    for size in sorted({size for size, *_ in points})[1:]:
        low, high = ([one for one in points if (one[0] >= size) is above] for above in (False, True))
        exact, inexact = ([error / plain for _, error, plain in side] for side in (low, high))
        if min(len(low), len(high)) < 2 or max(inexact) > _FAULT or min(inexact) < _LESS_EXACT * max(1.0, *exact):
            continue
        ends = [f"{end(error for _, error, _ in high):.1g}" for end in (min, max)]
        return (
            f"a less exact kernel from {name}={size} on: relative L2 {' to '.join(dict.fromkeys(ends))} there, at most "
            f"{max(error for _, error, _ in low):.1g} up to {name}={max(one[0] for one in low)}; rounding to the "
            f"precision alone gives {max(plain for *_, plain in high):.1g}"
        )
    return ""


def sizes(cases: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Return which sizes of every dimension were tried."""
    tried = [case["values"].items() for case in cases if case["verdict"] != UNVERIFIED]
    names = dict.fromkeys(name for values in tried for name, _ in values)
    return {name: sorted({size for values in tried for own, size in values if own == name}) for name in names}


def whole_numbers(cases: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by input of whole numbers the least and greatest that was tried, and that it takes; None if unknown."""
    found: dict[str, dict[str, Any]] = {}
    for name, one in ((name, one) for case in cases for name, one in case.get("whole_numbers", {}).items()):
        before = found.get(name, one)
        takes = one["takes"] and before["takes"] and [*one["takes"], *before["takes"]]
        drawn = [*one["drawn"], *before["drawn"]]
        found[name] = {"drawn": [min(drawn), max(drawn)], "takes": [min(takes), max(takes)] if takes else None}
    return found


def far_from_ends(numbers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for every input of whole numbers of which none near both ends of what it takes was tried."""
    found = []
    for name, one in numbers.items():
        low, high = one["takes"] or one["drawn"]
        if max(one["drawn"][0] - low, high - one["drawn"][1]) > (high - low) * _NEAR:
            found.append(f"input {name}: only {in_words(one)} were tried")
    return found


def in_words(numbers: Mapping[str, Any]) -> str:
    """Say which numbers were drawn, such as "1 to 16 of 1 to 64"."""
    drawn = " to ".join(map(str, numbers["drawn"]))
    return f"{drawn} of {' to '.join(map(str, numbers['takes']))}" if numbers["takes"] else f"{drawn} (range unknown)"


def spans(numbers: Sequence[int]) -> str:
    """Say sorted numbers in short, such as "1 to 8, 11, 16"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in runs)


def _at(wrong: Sequence[dict[str, Any]], tried: Sequence[dict[str, Any]]) -> str:
    sizes = [_size(case) for case in tried]
    right = f"right at {len(tried) - len(wrong)} other{'s' * (len(tried) - len(wrong) > 1)}"
    text = ", ".join(case["label"] for case in wrong[:_NAMED]) + (" and more" if len(wrong) > _NAMED else "")
    if len(wrong) == 1:
        largest = " (the largest shape)" if _size(wrong[0]) == max(sizes) and sizes.count(max(sizes)) == 1 else ""
        return f"only at {text}{largest}, {right}"
    by_batch = {case["batch"] for case in wrong}
    if len(by_batch) == 1 and None not in by_batch and all(c in wrong for c in tried if c["batch"] in by_batch):
        return f"only at a batch of {by_batch.pop()}"
    least = min((case["batch"] for case in wrong if case["batch"] is not None), default=None)
    if least is not None and least > 1 and all(((c["batch"] or 0) >= least) == (c in wrong) for c in tried):
        return f"from a batch of {least} on"
    return f"at {text}, {right}"


def _size(case: dict[str, Any]) -> int:
    return sum(math.prod(shape) for shape in case["shapes"].values())


def _outputs(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["output"] for row in rows))


def _of_output(rows: Sequence[dict[str, Any]]) -> str:
    decided = [row["verdict"] for row in rows if row["verdict"] != UNDECIDED]
    proving = [row for row in rows if row["verdict"] != UNDECIDED and row["inputs"] != PROVES_NOTHING]
    return loosest(decided) if proving or WRONG in decided else UNDECIDED
