"""From what was tried at shapes to the one document about all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.core.verification import UNDECIDED, UNVERIFIED, WRONG
from trt_workbench.report.verdict import Reach
from trt_workbench.verify.verdict import (
    WrongOutput,
    as_exact,
    far_from_ends,
    less_exact,
    loosest,
    sizes,
    unproven,
    where,
    whole_numbers,
)
from trt_workbench.verify.yardstick import STRENGTH


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        document: JSON values for `verify.json`.
        failures: one sentence for each wrong output, the first ones first.
        unproven: one sentence for each shape and output, and each other way to run it, for which nothing was proven.
        faults: the wrong outputs of calls that ran, in the order of `failures`.
    """

    document: dict[str, Any]
    failures: tuple[str, ...]
    unproven: tuple[str, ...] = ()
    faults: tuple[WrongOutput, ...] = ()


@dataclass(frozen=True)
class TriedRow:
    """One case, or one other way to run the target.

    Attributes:
        row: of verify.json.
        failures: a sentence for each wrong output.
        numbers: of the folders in `failures` with the arrays of the first ones.
    """

    row: dict[str, Any]
    failures: Sequence[str]
    numbers: Sequence[int]


@dataclass(frozen=True)
class TriedCase(TriedRow):
    """One case; a line of records.jsonl.

    Attributes:
        faults: output of each wrong call that ran, and number of its folder in `failures`.
        decided: how many outputs of a call a limit decides; -1 where that is fewer than of a case before.
        ran: what identifies the target that was tried, and `sizes_seed` of the request.
    """

    faults: tuple[tuple[str, int], ...]
    decided: int
    ran: Mapping[str, Any]
    schema_version: Literal[1] = 1


@dataclass(frozen=True)
class Tried:
    """What was tried, before anything is said of all of it together.

    Attributes:
        facts: what verify.json says besides, as JSON values.
        drawn: whether inputs were drawn at random.
        cases: in their order.
        ways: the other ways to run the target, with one call; none after a crash.
        left: how many cases were left out, as time ran out or nothing runs any more.
        faults: the wrong outputs of calls that ran.
    """

    facts: Mapping[str, Any]
    drawn: bool
    cases: Sequence[TriedCase]
    ways: Sequence[TriedRow]
    left: int = 0
    faults: tuple[WrongOutput, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence for each wrong output."""
        return tuple(text for one in (*self.cases, *self.ways) for text in one.failures)


def judged(tried: Tried) -> Verified:
    """Return the verdict over all that was tried.

    Raises:
        UsageProblem: no case could be run.
        DeviceFailure: the device failed at every shape.
    """
    facts, rows, failures = tried.facts, [case.row for case in tried.cases], tried.failures
    ran = [row for row in rows if row["verdict"] != UNVERIFIED]
    if not ran:
        reason = rows[0]["reason"] if rows else "there are no shapes"
        drawn = " with random inputs (pass your own with --inputs)" if tried.drawn else ""
        msg = f"No shape could be run{drawn}. The first problem: {reason}"
        raise DeviceFailure(msg) if any(row["device_failed"] for row in rows) else UsageProblem(msg)
    numbers = whole_numbers(ran)
    not_drawn = far_from_ends(numbers) if tried.drawn else []
    open_questions = unproven(rows) + not_drawn
    open_ways = [way.row for way in tried.ways if way.row["unproven"]]
    shown = UNDECIDED if open_ways or not_drawn else loosest(row["verdict"] for row in ran)
    document = {
        "schema_version": 1,
        **{name: value for name, value in facts.items() if name not in ("brief", "provenance")},
        "sizes": sizes(rows),
        "whole_numbers": numbers,
        "verdict": WRONG if failures else shown,
        "where": where(rows),
        "cases_tried": len(ran),
        "cases_unverified": len(rows) - len(ran),
        "cases_left": tried.left,
        "cases": rows,
        "ways": [way.row for way in tried.ways],
        "failures": list(failures),
        "unproven": open_questions + [f"{way['way']}: {way['reason']}" for way in open_ways],
        "remarks": [f"at {', '.join(facts['brief'])} --quick tried one set of inputs, once"] * bool(facts["brief"])
        + less_exact(rows, facts["precision"], STRENGTH)
        + as_exact(ran, facts["precision"], facts["provenance"]),
        "provenance": facts["provenance"],
    }
    return Verified(document, failures, tuple(document["unproven"]), tried.faults)


def failed_shapes(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each shape at which the device failed, such as out of memory."""
    return tuple(f"{row['label']}: {row['reason']}" for row in document["cases"] if row["device_failed"])


def reach(document: Mapping[str, Any]) -> Reach:
    """Return which of the shapes ran, and could have been wrong."""
    own = [case for case in document["cases"] if not case.get("outside")]
    ran = sum(case["verdict"] != UNVERIFIED for case in own)
    judged = 0 if document.get("compared_with_itself") else ran
    return Reach(len(own), ran, judged, len(document["failures"]), len(document["unproven"]))


def run_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run.json says of a verification."""
    return {"passed": reach(document).passed, "verdict": document["verdict"]}
