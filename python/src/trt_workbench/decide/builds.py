"""Several builds of each row's engine as one row: the one of median latency, with intervals that contain them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trt_workbench.bench import built_group
from trt_workbench.core.builds import BuiltGroup
from trt_workbench.core.counts import grouped
from trt_workbench.core.records import Record
from trt_workbench.decide.document import BASELINE
from trt_workbench.decide.tried import DraftRow


def joined(
    tried: Sequence[DraftRow], records: Sequence[Record]
) -> tuple[list[DraftRow], list[Record], list[BuiltGroup]]:
    """Return one row and one series of records for all builds of a row, and what the builds measured.

    In the series every repetition is of another build, in turns: what differs from build to build is within the
    interval of its median, and within that of every ratio.

    Args:
        tried: every row, one for each build.
        records: of the latencies.
    """
    found = grouped(tried, lambda one: (one.precision, one.place))
    rows, series, groups = [], list[Record](), []
    for builds in found.values():
        mine = {one.build or 0: [each for each in records if each.runtime == one.runtime] for one in builds}
        if len(builds) == 1:
            rows.append(builds[0])
            series += mine[builds[0].build or 0]
            continue
        name = DraftRow(builds[0].precision, builds[0].backend, variant=builds[0].variant)
        scores = {one.build or 0: one.scores.value for one in builds if one.scores}
        reasons = {one.build or 0: one.reason for one in builds if one.reason and one.state == "failed"}
        group = built_group(name.label, mine, scores, reasons)
        kept = _kept(builds, group)
        scored = tuple(one for one in builds if one.scores)
        missing = group.builds.missing if scored else ""  # else the row itself says why it has none
        rows.append(replace(kept, runtime=name.runtime, build=None, builds=scored, missing=missing))
        series += _in_turns(mine, name.runtime)
        groups.append(group)
    return rows, series, groups


def _kept(builds: Sequence[DraftRow], group: BuiltGroup) -> DraftRow:
    """Return the build that stands for all: of median latency, else of median score, else the first.

    Of the baseline it is the first that has a score, as outputs were compared with those of that build.
    """
    if builds[0].precision == BASELINE:
        return next((one for one in builds if one.scores), builds[0])
    timed = [one for one in builds if one.build == group.builds.kept]
    scored = sorted((one for one in builds if one.scores), key=lambda one: one.scores.value if one.scores else 0.0)
    return next(iter([*timed, *scored[len(scored) // 2 :], *builds]))


def _in_turns(mine: dict[int, list[Record]], runtime: str) -> list[Record]:
    """Return for each repetition the record of another build; failures where nothing was measured."""
    measured = {number: [one for one in each if one.status == "ok"] for number, each in mine.items()}
    numbers = [number for number, each in measured.items() if each]
    if not numbers:
        return [one.model_copy(update={"runtime": runtime}) for each in mine.values() for one in each]
    turns = sorted({one.repetition for each in measured.values() for one in each})
    chosen = []
    for turn in turns:
        here = [one for number in numbers for one in measured[number] if one.repetition == turn]
        chosen.append(here[turn % len(here)].model_copy(update={"runtime": runtime}))
    return chosen
