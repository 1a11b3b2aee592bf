"""`compare`: two bench runs against each other; exit code 1 on a regression."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
    say,
)
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.percent import limit
from trt_workbench.report.tables import Cell, Column, Table, verdict

if TYPE_CHECKING:
    from trt_workbench.bench.regression import Change


@handled
def compare(
    *,
    a: Annotated[Path, typer.Argument(help="Run directory of the reference.")],
    b: Annotated[Path, typer.Argument(help="Run directory to compare with it.")],
    tolerance: Annotated[float, typer.Option(min=0.0, help="Relative difference in latency that is tolerated.")] = 0.02,
    allow_different_machines: Annotated[
        bool,
        typer.Option(
            "--allow-different-machines",
            help="Compare runs of another GPU, driver, TensorRT or CPU; prints the differences first.",
        ),
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Compare the points that two bench runs have in common.

    The exit code is 1 if any became slower beyond the tolerance, or failed; 2 if they have none in common, a record is
    damaged, or the runs are from different machines.
    """
    from trt_workbench.bench.regression import WORSE, changes
    from trt_workbench.core.artefacts import foreign_files, read_bench_run
    from trt_workbench.core.machines import differences

    before, after = read_bench_run(a), read_bench_run(b)
    with foreign_files(b):
        differing = differences(before, after)
    deciding = [str(one) for one in differing if one.decides]
    if deciding and not allow_different_machines:
        raise UsageProblem(
            f"The runs are from different machines ({'; '.join(deciding)}), so a difference says nothing about the "
            f"code; --allow-different-machines compares them anyway: {b}"
        )
    with foreign_files(b):
        found = changes(before.records, after.records, tolerance)
    document = {
        "schema_version": 1,
        "differences": [asdict(one) for one in differing],
        "points": [asdict(change) for change in found],
    }
    measured = [one for one in found if not _in_neither(one)]
    table = Table(_CHANGES, measured) if measured else None
    print_found(document, lambda _: [*(f"Different {one}" for one in differing), table], as_json=as_json)
    if before.records == after.records:
        say("Nothing is compared: both directories hold the same measurements.")
    _warn(found, tolerance)
    worse = [change for change in found if change.outcome in WORSE]
    if worse:
        named = "; ".join(f"{change.work} on {change.runtime}" for change in worse[:3])
        raise CheckFailed(
            f"Slower by more than {limit(tolerance)}, failed or wrong: {len(worse)} of "
            f"{counted(len(found), 'point')}: {named}."
        )


def _warn(found: list[Change], tolerance: float) -> None:
    """Say what the exit code cannot: points that are unstable or look slower without proof, and points left out."""
    if unstable := [one for one in found if one.unstable and one.outcome == "cannot tell"]:
        first = unstable[0]
        reasons = "; ".join(f"in {side}, {texts[0]}" for side, texts in first.unstable.items())
        say(
            f"Not comparable, as the times are unstable: {len(unstable)} of {counted(len(found), 'point')}; the first, "
            f"{first.work} on {first.runtime}: {reasons}. Measure again on a quiet machine."
        )
    untold = [one.comparison for one in found if one.outcome == "cannot tell" and not one.unstable]
    unproved = [made for made in untold if made and made.ratio > 1 + tolerance]
    if unproved:
        few = any(made.ratio_low is None for made in unproved)
        why = "there are too few repetitions; measure 9 or more" if few else "the interval of the ratio contains 1"
        say(
            f"Looks slower by more than {limit(tolerance)} without proof: {len(unproved)} of "
            f"{counted(len(found), 'point')}; {why}."
        )
    if neither := sum(map(_in_neither, found)):
        say(f"Not in the verdict, as measured in neither run: {neither} of {counted(len(found), 'point')}.")
    gone = sum(one.outcome == "only in A" for one in found)
    if gone:
        say(f"Not in the verdict, as measured only in A: {gone} of {counted(len(found), 'point')}.")


def _in_neither(one: Change) -> bool:
    return one.a_ms is None and one.b_ms is None


_CHANGES = (
    Column("point", lambda one: f"{one.scenario} / {one.work} / {one.runtime}"),
    Column("A", "a_ms", 3, unit="ms"),
    Column("B", "b_ms", 3, unit="ms"),
    Column("B/A", "comparison.ratio", 3, better="lower"),
    Column("interval (coverage)", lambda one: one.comparison and one.comparison.interval(3)),
    Column("p (Holm)", "comparison.p_value", 4),
    Column(
        "outcome",
        verdict("outcome"),
        marks=lambda one: [
            *[Cell(f"(unstable in {' and '.join(one.unstable)})")]
            * bool(one.unstable and one.outcome == "cannot tell"),
            *[Cell("(another model file)")] * one.model_changed,
        ],
    ),
)
