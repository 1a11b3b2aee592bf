"""Several builds of an engine as runtimes of a matrix, and what their records say of the spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from trt_workbench.backends.registry import check_builds, runs_plans
from trt_workbench.bench.config import BenchConfig
from trt_workbench.bench.matrix import setting_text
from trt_workbench.bench.ranking import repetition_medians
from trt_workbench.core.builds import BUILD, Builds, BuiltGroup, OneBuild
from trt_workbench.core.counts import grouped
from trt_workbench.core.hashing import has_hash
from trt_workbench.core.records import Record
from trt_workbench.core.verification import UNVERIFIED, WRONG
from trt_workbench.engine.layer_choices import ABSENT, differences
from trt_workbench.model.precision import precision_label

_APART = "Not all of these builds took turns: what changed from one time of measuring to the other is in the spread."
_NONE: Mapping[int, Any] = MappingProxyType({})


def with_builds(config: BenchConfig, count: int | None) -> BenchConfig:
    """Return a configuration in which every runtime that builds engines is measured with so many builds of each.

    Raises:
        UsageProblem: no runtime builds engines.
    """
    if count is None:
        return config
    check_builds(count, [one.backend for one in config.runtimes])
    numbers = {BUILD: list(range(1, count + 1))}
    runtimes = tuple(
        one.model_copy(update={"options": {**one.options, **numbers}}) if runs_plans(one.backend) else one
        for one in config.runtimes
    )
    return config.model_copy(update={"runtimes": runtimes})


def built_groups(records: Iterable[Record]) -> tuple[BuiltGroup, ...]:
    """Return what records say of several builds of one request, with the layers that differ; empty without any.

    Raises:
        UsageProblem: a file beside a plan is damaged.
    """
    found = grouped((one for one in records if BUILD in one.swept), _label)
    return tuple(_of_runtime(", ".join(label), mine) for label, mine in sorted(found.items()))


def _label(one: Record) -> tuple[str, str, str]:
    others = "".join(f" {name}={setting_text(value)}" for name, value in one.swept.items() if name != BUILD)
    return one.scenario, one.work, f"{one.entry}{others}"


def built_group(
    label: str,
    records: Mapping[int, Sequence[Record]],
    scores: Mapping[int, float] = _NONE,
    reasons: Mapping[int, str] = _NONE,
) -> BuiltGroup:
    """Return what the records of each build say, by its number, and scores where there are any.

    Args:
        label: of the request.
        records: of each build; none of one that was not measured.
        scores: of those that have one.
        reasons: why builds were not measured, where records do not say it.

    Raises:
        UsageProblem: a file beside a plan is damaged.
    """
    builds = Builds.chosen(
        [_one_build(number, each, scores.get(number), reasons.get(number)) for number, each in records.items()]
    )
    plans = {number: plan for number, each in records.items() if (plan := next(filter(None, map(_plan, each)), None))}
    here = all(has_hash(plan, sha256) for plan, sha256 in plans.values())
    known = {number: plan for number, (plan, _) in plans.items()}
    layers, note = ((), "") if not known else differences(known) if here else ((), ABSENT)
    turns = {frozenset(one.group for one in each if one.status == "ok") for each in records.values()} - {frozenset()}
    notes = [note] * bool(note) + [_APART] * (bool(turns) and not frozenset.intersection(*turns))
    return BuiltGroup(label=label, builds=builds, layers=layers, note=" ".join(notes))


def _of_runtime(label: str, records: Sequence[Record]) -> BuiltGroup:
    numbers = sorted({int(one.swept[BUILD]) for one in records})
    return built_group(label, {number: [one for one in records if one.swept[BUILD] == number] for number in numbers})


def _one_build(number: int, records: Sequence[Record], score: float | None, reason: str | None) -> OneBuild:
    times = [ms for medians in repetition_medians(records).values() for ms in medians]
    errors = [
        each["relative_l2"]
        for one in records
        for each in ((one.outputs or {}).get("tensors") or {}).values()
        if each["relative_l2"] is not None
    ]
    verdicts = [WRONG] if any(one.status == "wrong" for one in records) else [*filter(None, map(_verdict, records))]
    failed = not times and WRONG not in verdicts
    return OneBuild(
        number=number,
        engine_sha256=next((plan[1] for one in records if (plan := _plan(one))), None),
        latency_ms=median(times) if times else None,
        relative_l2=max(errors, default=None),
        verdict=next(iter(verdicts), None),
        score=score,
        computes_in=next(filter(None, (precision_label(one.provenance, "text") for one in records)), None),
        reason=next(filter(None, (one.error for one in records)), reason) if failed else None,
    )


def _verdict(record: Record) -> str | None:
    """Return the verdict on a record's engine: where nothing else verified it, that of the outputs compared here.

    Chunks of streams and language models are compared with a reference before they are timed; `verify` knows no inputs
    of the former.
    """
    mark, state = record.verification, (record.outputs or {}).get("state")
    if mark and mark["verdict"] == UNVERIFIED and state in ("matched", "far"):
        return str(state)
    return mark["verdict"] if mark else None


def _plan(record: Record) -> tuple[Path, str] | None:
    plan, sha256 = (record.provenance.get(name) for name in ("plan", "plan_sha256"))
    return (Path(str(plan)), str(sha256)) if plan and sha256 else None
