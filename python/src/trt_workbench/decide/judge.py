"""From scores and latencies to the rows of a decision, and which of them is recommended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trt_workbench.bench import Standing, judge, kept_records, kinds, rank, unit_medians
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import WEIGHTS, read
from trt_workbench.core.records import Record
from trt_workbench.core.statistics.comparison import inseparable, telling_repetitions
from trt_workbench.decide.document import BASELINE, Decision, DecisionRow, RowSpeed, Shown, Verdict
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.tried import DraftRow
from trt_workbench.decide.words import accuracies, excluded, recommendation, speaking_rows, speed, strange
from trt_workbench.model.opened import Model, sha256_of
from trt_workbench.quantize import ResampledScore, RowScore, SearchDocument, Task


def judged(
    tried: Sequence[DraftRow],
    records: Sequence[Record],
    *,
    model: Path,
    model_sha256: str,
    task: Task,
    settings: DecideSettings,
    notes: Sequence[str],
    left_out: Sequence[str],
    wall_s: float,
    search: SearchDocument | None = None,
    root: Path,
    command: Callable[[Sequence[str]], str],
) -> Decision:
    """Return the decision.

    Args:
        tried: every row.
        records: of the latencies, all of one work.
        model: the float model.
        model_sha256: its hash.
        task: what was scored.
        settings: what was requested.
        notes: sentences for the reader.
        left_out: what was not tried.
        wall_s: how long it took.
        search: what chose the groups that int8-mixed leaves alone.
        root: the run directory, which folders of scores are named relative to.
        command: makes the command that measures precisions on another machine.
    """
    baseline = next((one for one in tried if one.precision == BASELINE and one.scores), None)
    speeds = _speeds(tried, records)
    rows = [
        _row(one, baseline, speeds.get(one.runtime), _failure(one, records), settings, root, task.keep) for one in tried
    ]
    bound, certain = settings.max_loss, settings.certain
    reference = (baseline.precision, baseline.backend) if baseline else None
    count = baseline.scores.count if baseline and baseline.scores else 0
    timed = [one for one, row in zip(tried, rows, strict=True) if row.speed]
    processor = bool(timed) and all(one.on_processor for one in timed)
    why = strange(rows, task.keep, settings.expect, bound, count)
    rows = [row.model_copy(update={"verdict": _verdict(row, why, task.keep, bound)}) for row in rows]
    answered = speed(rows, certain=certain, processor=processor, command=command)
    # where a GPU was timed, what it does not compute in cannot be shipped on it
    shippable = [row for row in speaking_rows(rows) if not (answered.measured and row.simulated)]
    alone = [row.fits for row in rows if all(other.precision == BASELINE for other in rows)]
    return Decision(
        model=str(model.absolute()),
        model_sha256=model_sha256,
        task=task.name,
        figure=task.figure,
        unit=task.metric.unit,
        data=task.data,
        samples=count,
        max_loss=bound,
        keep=list(task.keep),
        batch=settings.batch,
        options={name: dict(options) for name, options in settings.options.items()},
        baseline=reference,
        rows=rows,
        limits=settings.limits,
        expect=dict(settings.expect),
        accuracy=[] if why else accuracies(rows, task.keep, task.metric.unit, bound, count),
        speed=answered,
        excluded=excluded(rows, settings.limits),
        recommendation=recommendation(
            rows, task, bound, count, processor=processor, certain=certain, expect=settings.expect
        ),
        passed=not why and any([*alone, *(row.may_ship(certain=certain) for row in shippable)]),
        left_out=list(left_out),
        notes=list(notes),
        search=search,
        wall_s=wall_s,
    )


def _row(
    one: DraftRow,
    baseline: DraftRow | None,
    speed: RowSpeed | None,
    failure: str | None,
    settings: DecideSettings,
    root: Path,
    keep: Sequence[str],
) -> DecisionRow:
    score, reason = _score(one, baseline)
    state, reason = one.state, one.reason or reason
    if state is None and score is None:
        state = "failed"
    elif state is None and speed is None:
        state, reason = "scored", _unmeasured(one, failure, settings)
    file, made = one.path, one.evidence
    found, count, bound = score.kept(keep) if score else {}, one.scores.count if one.scores else 0, settings.max_loss
    meets = len(found) == len(keep) and all(each.loss <= bound for each in found.values())
    return DecisionRow(
        precision=one.precision,
        backend=one.backend,
        state=state or "measured",
        reason=reason,
        computes_in=one.computes_in,
        builds_missing=one.missing or None,
        file=str(file.absolute()) if file else None,
        sha256=sha256_of(file) if file else None,
        size_bytes=_size(one),
        simulated=one.simulated,
        calibrated=one.calibrated,
        low_macs=made.low_macs if made and read(made.to)[1] != WEIGHTS else None,
        low_weights=made.low_weights if made and read(made.to)[1] == WEIGHTS else None,
        directory=str(place.relative_to(root) if place.is_relative_to(root) else place.absolute())
        if score and (place := one.folder)
        else None,
        score=score,
        speed=None if one.simulated else speed,
        meets=meets if score else None,
        certain=meets and all(each.keeps(bound, count) for each in found.values()) if score else None,
        limits=_limits(None if one.simulated else speed, settings.limits),
    )


def _limits(speed: RowSpeed | None, limits: Mapping[str, float]) -> dict[str, Shown]:
    """Return whether a row is within each limit: a latency by its whole interval."""
    ends = {
        "max_latency_ms": (speed.latency_low_ms, speed.latency_high_ms) if speed else None,
        "max_memory_bytes": (speed.memory_bytes, speed.memory_bytes) if speed and speed.memory_bytes else None,
    }
    found: dict[str, Shown] = {}
    for name, most in limits.items():
        low, high = ends[name] or (0.0, math.inf)
        found[name] = "yes" if high <= most else "no" if low > most else "not shown"
    return found


def _verdict(row: DecisionRow, why: str, keep: Sequence[str], bound: float) -> Verdict:
    """Return the verdict on a row, where nothing is decided for a reason: then none of a lower precision."""
    if why and row.score:
        return "anomalous" if row.precision == BASELINE else "not shown"
    return row.judged(keep, bound)


def _score(one: DraftRow, baseline: DraftRow | None) -> tuple[RowScore | None, str | None]:
    if one.scores is None:
        return None, None
    try:
        found = one.scores.against(_other(one, baseline))
        each = [build.scores.against(_other(one, baseline)) for build in one.builds if build.scores]
        return found.among(each), None
    except UsageProblem as problem:
        return None, str(problem)


def _other(one: DraftRow, baseline: DraftRow | None) -> ResampledScore | None:
    return baseline.scores if baseline is not None and baseline is not one else None


def _unmeasured(one: DraftRow, failure: str | None, settings: DecideSettings) -> str:
    if one.simulated:
        return f"{one.backend} simulates {one.precision}, at least in part; its latency is meaningless"
    return failure or ("its latency was not measured" if settings.repetitions else "--repetitions is 0")


def _failure(one: DraftRow, records: Sequence[Record]) -> str | None:
    """Return why a row has no latency."""
    return next((record.error for record in records if record.runtime == one.runtime and record.error), None)


def _size(one: DraftRow) -> int | None:
    """Return the size of the engine that was built, or else of the model file with its weights."""
    if manifest := one.provenance.get("manifest"):  # the plan of an earlier run may be gone
        return int(manifest["engine"]["size_bytes"])
    plan = one.provenance.get("plan")
    if plan and Path(str(plan)).is_file():
        return Path(str(plan)).stat().st_size
    if one.path is None:
        return None
    parts = Model.open(one.path).files if one.path.suffix == ".onnx" else (one.path,)
    return sum(part.stat().st_size for part in parts)


def _speeds(tried: Sequence[DraftRow], records: Sequence[Record]) -> dict[str, RowSpeed]:
    """Return how fast every row is, by the name of its runtime in the bench.

    Unstable repetitions count, and are reported as such, where too few would be left without them.
    """
    comparisons = len(kept_records(records)) - 1
    least = telling_repetitions(comparisons)
    standings = {standing.runtime: standing for standing in rank(records, least)}
    kept = kept_records(records, least)
    # two rows are compared by the fewer repetitions of both, which differ where the bench was interrupted
    counts = sorted((len(unit_medians(one)) for one in kept.values()), reverse=True)[:2]
    found = any(standing.rank > 1 for standing in standings.values())
    distinguishable = found or not inseparable(min(counts, default=0), comparisons)
    baselines = {one.backend: one.runtime for one in tried if one.precision == BASELINE}
    return {
        one.runtime: _speed(standings[one.runtime], kept, baselines.get(one.backend), distinguishable=distinguishable)
        for one in tried
        if one.runtime in standings
    }


def _speed(
    standing: Standing, kept: Mapping[str, Mapping[int, Record]], baseline: str | None, *, distinguishable: bool
) -> RowSpeed:
    mine = list(kept[standing.runtime].values())
    ratio: tuple[float, float | None, float | None] | None = None
    if baseline == standing.runtime:
        ratio = (1.0, 1.0, 1.0)
    elif baseline is not None and baseline in kept:
        made = judge(kept[standing.runtime], kept[baseline])
        ratio = (made.ratio, made.ratio_low, made.ratio_high)
    up, low, high = ratio or (None, None, None)
    last = mine[-1]
    memory = max((used for record in mine if (used := _memory(record)) is not None), default=None)
    reasons = [*standing.reasons, *(text for record in mine for text in record.unstable)]
    return RowSpeed(
        latency_ms=standing.latency_ms.median,
        latency_low_ms=standing.latency_ms.low,
        latency_high_ms=standing.latency_ms.high,
        coverage=standing.latency_ms.coverage,
        items_per_s=standing.items_per_s,
        speed_up=up,
        speed_up_low=low,
        speed_up_high=high,
        rank=standing.rank if distinguishable else None,
        load_s=last.load_s,
        memory_bytes=memory,
        repetitions=standing.repetitions,
        unstable=kinds(reasons),
        outputs=(last.outputs or {}).get("state", "not compared"),
    )


def _memory(record: Record) -> int | None:
    seen = record.telemetry or {}
    found = seen.get("device_memory_bytes") or seen.get("host_memory_bytes")
    return None if found is None else int(found)
