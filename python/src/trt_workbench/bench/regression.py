"""Two bench runs against each other: the same point then and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Literal

from trt_workbench.bench.ranking import judge, kept_records, unit_medians, untrusted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.records import Record
from trt_workbench.core.statistics.comparison import MATERIAL, Comparison, Verdict, together

Outcome = Literal[
    "regression",
    "improvement",
    "no material difference",
    "cannot tell",
    "failed in B",
    "wrong in B",
    "only in A",
    "only in B",
]
WORSE: frozenset[Outcome] = frozenset({"regression", "failed in B", "wrong in B"})
_OUTCOMES: dict[Verdict, Outcome] = {
    "slower": "regression",
    "faster": "improvement",
    "no material difference": "no material difference",
    "cannot tell": "cannot tell",
}
PointName = tuple[str, str, str]


@dataclass(frozen=True)
class Change:
    """One point in both runs.

    Attributes:
        scenario: its scenario.
        work: its work.
        runtime: its runtime.
        a_ms: median latency in the first run; None if it was not measured there.
        b_ms: median latency in the second run; None if it was not measured there.
        comparison: of B with A; None unless both measured it.
        outcome: in words.
        unstable: by run, "A" or "B", the reasons not to rely on its times; with any, neither is faster.
        model_changed: the model's file is another.
    """

    scenario: str
    work: str
    runtime: str
    a_ms: float | None
    b_ms: float | None
    comparison: Comparison | None
    outcome: Outcome
    model_changed: bool
    unstable: dict[str, tuple[str, ...]] = field(default_factory=dict)


def changes(a: Sequence[Record], b: Sequence[Record], tolerance: float) -> list[Change]:
    """Compare every point of two runs.

    Args:
        a: records of the reference.
        b: records of the run in question.
        tolerance: share by which the latency may differ before it counts, either way, such as 0.05.

    Raises:
        UsageProblem: no point is in both runs, so that nothing could ever fail.
    """
    names = list(dict.fromkeys(_name(record) for record in [*a, *b]))
    if not {_name(record) for record in a} & {_name(record) for record in b}:
        first, second = (" / ".join(_name(records[0])) if records else "none" for records in (a, b))
        raise UsageProblem(f"The runs have no point in common; one has {first}, the other {second}.")
    both = [name for name in names if _kept(a, name) and _kept(b, name)]
    material = max(tolerance, MATERIAL)
    made = together([partial(judge, _kept(a, name), _kept(b, name), material=material, one_run=False) for name in both])
    compared = dict(zip(both, made, strict=True))
    return [_change(a, b, name, compared.get(name)) for name in names]


def _change(a: Sequence[Record], b: Sequence[Record], name: PointName, comparison: Comparison | None) -> Change:
    first, second = _kept(a, name), _kept(b, name)
    found = {side: untrusted(kept) for side, kept in (("A", first), ("B", second))} if comparison else {}
    unstable = {side: reasons for side, reasons in found.items() if reasons}
    hashes = {record.model_sha256 for record in [*a, *b] if _name(record) == name}
    outcome: Outcome
    if any(record.status == "wrong" for record in b if _name(record) == name):
        outcome = "wrong in B"
    elif first and not second and any(record.status == "failed" for record in b if _name(record) == name):
        outcome = "failed in B"
    elif comparison is None:
        outcome = "only in A" if first else "only in B" if second else "cannot tell"
    else:
        outcome = _OUTCOMES[comparison.verdict]
    return Change(
        *name,
        a_ms=median(unit_medians(first)) if first else None,
        b_ms=median(unit_medians(second)) if second else None,
        comparison=comparison,
        outcome=outcome,
        model_changed=len(hashes) > 1,
        unstable=unstable,
    )


def _name(record: Record) -> PointName:
    return record.scenario, record.work, record.runtime


def _kept(records: Sequence[Record], name: PointName) -> dict[int, Record]:
    return kept_records([record for record in records if _name(record) == name], one_run=False).get(name[2], {})
