"""The answer in words: whether each precision keeps the score, what is known of its speed, and what to ship."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from trt_workbench.core.counts import counted, grouped, sized
from trt_workbench.core.precision import known
from trt_workbench.core.statistics.bootstrap import LEAST_UNITS, units_to_settle
from trt_workbench.core.statistics.comparison import telling_repetitions
from trt_workbench.decide.document import (
    BASELINE,
    DecisionRow,
    PrecisionAccuracy,
    Recommendation,
    SpeedAnswer,
    latencies_distinguishable,
)
from trt_workbench.quantize import Task

_MOST = 2
_ORDER = ("yes", "not shown", "no")


def accuracies(
    rows: Sequence[DecisionRow], keep: Sequence[str], unit: str, max_loss: float, samples: int
) -> list[PrecisionAccuracy]:
    """Return whether each lower precision keeps the score.

    Args:
        rows: all of them.
        keep: names of the scores that are to be kept.
        unit: what a sample is, in the plural.
        max_loss: the bound.
        samples: how many were scored.
    """
    found = []
    for precision, mine in grouped(
        (row for row in rows if row.precision != BASELINE), lambda row: row.precision
    ).items():
        if speaking := speaking_rows(mine):
            best = min(speaking, key=lambda row: (_ORDER.index(row.keeps(keep, max_loss)), _largest(row, keep)))
            found.append(_accuracy(best, keep, unit, max_loss, samples))
        else:
            said = f"{precision}: not shown ({', '.join(dict.fromkeys(row.state for row in mine))})"
            found.append(PrecisionAccuracy(precision=precision, keeps="not shown", sentence=said))
    return found


def speaking_rows(rows: Iterable[DecisionRow]) -> list[DecisionRow]:
    """Return what says how much lower precisions lose: simulated rows only of those that nothing here computes in."""
    scored = [row for row in rows if row.score and row.precision != BASELINE]
    real = {row.precision for row in scored if not row.simulated}
    return [row for row in scored if not row.simulated or row.precision not in real]


def _accuracy(row: DecisionRow, keep: Sequence[str], unit: str, max_loss: float, samples: int) -> PrecisionAccuracy:
    keeps, figure, found, needed = row.keeps(keep, max_loss), _largest(row, keep)[1], row.kept(keep), None
    score = found[figure]
    low, high = score.loss_ci95 or (None, None)
    said = f"{row.precision}: {keeps}, {figure} loses {score.words(score.loss)}"
    if low is not None and high is not None:
        said += f", at least {score.words(low)}" if keeps == "no" else f", at most {score.words(high)}"
    said += f" (simulated by {row.backend})" * row.simulated
    if missing := [name for name in keep if name not in found]:
        said += f"; it has no {_listed(missing)}"
    if not row.counts:
        said += f"; only {row.part} in it" if row.calibrated else "; not calibrated"
    elif keeps == "not shown" and score.loss_ci95:
        needed = units_to_settle(score.loss, score.loss_ci95, score.loss_sd, samples, max_loss)
        needed = needed and max(_round_up(needed), samples + 1)
        said += f"; {counted(samples, unit.removesuffix('s'))} cannot settle it"
        said += (
            f": an interval needs {LEAST_UNITS}"
            if samples < LEAST_UNITS and score.loss_ci95[1] <= max_loss
            else f", about {needed:,} would"
            if needed
            else ""
        )
    return PrecisionAccuracy(
        precision=row.precision,
        backend=row.backend,
        keeps=keeps,
        simulated=row.simulated,
        figure=figure,
        loss=score.loss,
        loss_low=low,
        loss_high=high,
        samples_needed=needed,
        sentence=said,
    )


def speed(
    rows: Sequence[DecisionRow], *, certain: bool, processor: bool, command: Callable[[Sequence[str]], str]
) -> SpeedAnswer:
    """Return whether the speed of what may be shipped was measured, and the command that measures it elsewhere.

    Args:
        rows: all of them.
        certain: whether what may be shipped has to be shown to keep the score.
        processor: whether all latencies are of the CPU.
        command: makes the command of precisions.
    """
    timed, said = [row for row in rows if row.is_timed], []
    fastest = {row.precision: f"{row.label} {_ms(_latency(row))}" for row in sorted(timed, key=_latency, reverse=True)}
    if len(fastest) > 1:
        said.append(f"measured{' on a CPU alone' * processor}: {', '.join(fastest.values())}")
    waiting = waiting_precisions(rows, certain=certain) if processor or not timed else []
    unknown = [row for row in speaking_rows(rows) if row.precision in waiting and row.precision not in fastest]
    for reason, alike in grouped(unknown, lambda row: "simulated" if row.simulated else row.reason).items():
        said.append(f"no latency of {_listed(_names(alike))} here ({reason})")
    return SpeedAnswer(
        measured=bool(timed) and not processor,
        sentence="; ".join(said) or "no latency of a lower precision",
        command=(command(waiting) or None) if waiting else None,
    )


def excluded(rows: Sequence[DecisionRow], limits: Mapping[str, float]) -> list[str]:
    """Return what each limit excludes, and of what it is not shown, in sentences.

    Args:
        rows: all of them.
        limits: by name, as of `Decision`.
    """
    found = []
    for name, most in limits.items():
        bound, figure = _LIMITS[name]
        beyond = ", ".join(f"{row.label} ({figure(row)})" for row in rows if row.limits.get(name) == "no")
        unknown = ", ".join(row.label for row in rows if row.score and row.limits.get(name) == "not shown")
        found.append(f"{bound(most)} excludes {beyond or 'nothing'}{f'; not shown of {unknown}' * bool(unknown)}.")
    return found


_LIMITS: Mapping[str, tuple[Callable[[float], str], Callable[[DecisionRow], str]]] = {
    "max_latency_ms": (lambda most: f"A latency of at most {_ms(most)}", lambda row: _ms(_latency(row))),
    "max_memory_bytes": (
        lambda most: f"Memory of at most {sized(most)}",
        lambda row: sized(row.speed.memory_bytes or 0) if row.speed else "",
    ),
}


def strange(
    rows: Sequence[DecisionRow], keep: Sequence[str], expect: Mapping[str, float], max_loss: float, samples: int
) -> str:
    """Say why no loss is to be relied on, a clause; "" where nothing speaks against it.

    The baseline has no score, or is no better than a guess, or is far from a published score: outside of the 95 %
    interval, and by more than the loss that is allowed.

    Args:
        rows: all of them.
        keep: names of the scores that are to be kept.
        expect: published scores by name.
        max_loss: the bound.
        samples: how many were scored; less than 30 show no distance.
    """
    baseline = next((row for row in rows if row.precision == BASELINE and row.score), None)
    if baseline is None or baseline.score is None:
        reason = next((row.reason for row in rows if row.precision == BASELINE), None)
        return f"{BASELINE} has no score{f': {reason}' if reason else ''}"
    for name, one in baseline.kept(keep).items():
        if one.guess is not None:
            return f"{name} of {baseline.label} is {one.words(one.value)}, {one.as_good_as_guessing}"
    scores = {**baseline.score.others, keep[0]: baseline.score}
    for name, published in expect.items() if samples >= LEAST_UNITS else ():
        if (found := scores.get(name)) is None:
            return f"{baseline.label} has no {name}, and {published:g} is published"
        low, high = found.ci95 or (found.value, found.value)
        if not low <= published <= high and abs(found.value - published) > max_loss:
            return (
                f"{name} of {baseline.label} is {found.words(found.value)} (95 %: {found.words(low)} to "
                f"{found.words(high)}), far from the published {published:g}; check preparation, classes and data"
            )
    return ""


def recommendation(
    rows: Sequence[DecisionRow],
    task: Task,
    max_loss: float,
    samples: int,
    *,
    processor: bool = False,
    certain: bool = False,
    expect: Mapping[str, float] | None = None,
) -> Recommendation:
    """Choose among the rows that were scored and measured, and say why.

    The fastest that may be shipped; of several that are indistinguishable each precision on the runtime of
    the lowest latency, and of those the baseline unless the interval of a speed-up over it is above 1, else one whose
    whole interval is within the bound, and the one that loses least. Never what is simulated or not calibrated. Where
    no GPU was timed, what may be shipped once its speed on one is known.

    Args:
        rows: all of them.
        task: what was scored.
        max_loss: the bound.
        samples: how many were scored.
        processor: whether all latencies are of the CPU.
        certain: whether what is shipped has to be shown to keep the score.
        expect: published scores by name.
    """
    if why := strange(rows, task.keep, expect or {}, max_loss, samples):
        return Recommendation(precision=None, backend=None, sentence=f"Nothing is decided: {why}.", doubts=[])
    timed = [row for row in rows if row.is_timed]
    usable = [row for row in timed if row.may_ship(certain=certain) or row.fits]
    chosen = chosen_row(usable) if usable else None
    waiting = waiting_precisions(rows, certain=certain) if processor or not timed else []
    if chosen and chosen.precision != BASELINE:
        sentence = _ship(chosen, rows, task, max_loss)
    elif waiting:
        chosen, sentence = None, _if_faster(waiting, rows, task, max_loss)
    else:
        sentence = _stay(chosen, rows, task, max_loss, samples, certain=certain)
    alone = chosen.precision if chosen else waiting[0] if len(waiting) == 1 else None
    if not (chosen or waiting) and _may_stay(rows):
        alone = BASELINE
    return Recommendation(
        precision=alone,
        backend=chosen.backend if chosen else None,
        sentence=sentence,
        doubts=_doubts(chosen, rows, task, max_loss, samples),
    )


def _may_stay(rows: Sequence[DecisionRow]) -> bool:
    """Whether a limit leaves the baseline on some runtime."""
    return any(row.precision == BASELINE and row.score and "no" not in row.limits.values() for row in rows)


def waiting_precisions(rows: Sequence[DecisionRow], *, certain: bool) -> list[str]:
    """Return the precisions that may be shipped if they are fast: those that are sure to keep the score, if any."""
    found = [row for row in speaking_rows(rows) if row.may_ship(certain=certain, unmeasured=True)]
    return _names([row for row in found if row.certain] or found)


def _names(rows: Iterable[DecisionRow]) -> list[str]:
    return list(dict.fromkeys(row.precision for row in rows))


def chosen_row(usable: Sequence[DecisionRow]) -> DecisionRow:
    """Return the row to recommend of those that may be; without ranks none can be distinguished."""
    best = min((row.speed.rank for row in usable if row.speed and row.speed.rank is not None), default=None)
    tied = [row for row in usable if row.speed and row.speed.rank == best]
    # the loss of one precision differs between runtimes by chance; its latency does not
    fastest: dict[str, DecisionRow] = {}
    for row in sorted(tied, key=lambda row: (_latency(row), row.size_bytes or 0)):
        fastest.setdefault(row.precision, row)
    # rows share a rank with their neighbours: the first and the last of many may be distinguishable
    faster = [row for row in fastest.values() if _beats(row, fastest.get(BASELINE))]
    return min(
        faster or fastest.values(),
        key=lambda row: (row.precision != BASELINE, not row.certain, row.score.loss if row.score else math.inf),
    )


def _beats(row: DecisionRow, baseline: DecisionRow | None) -> bool:
    """Whether a row is shown to be faster than the baseline on the same runtime, by the interval of its speed-up."""
    if baseline is None or row is baseline or row.backend != baseline.backend or row.speed is None:
        return False
    return row.speed.rank is not None and (row.speed.speed_up_low or 0.0) > 1


def _ship(row: DecisionRow, rows: Sequence[DecisionRow], task: Task, max_loss: float) -> str:
    baseline = next(one for one in rows if one.precision == BASELINE and one.score)
    assert row.speed is not None  # as it was chosen
    assert row.score is not None
    assert baseline.score is not None
    same = next((one for one in rows if one.precision == BASELINE and one.backend == row.backend and one.speed), None)
    parts = []
    if row.speed.speed_up is not None and same and same.speed:
        times = f"{row.speed.speed_up:.2f} times as fast as {BASELINE}"
        parts.append(f"{times} ({_ms(row.speed.latency_ms)} instead of {_ms(same.speed.latency_ms)})")
    else:
        parts.append(f"latency {_ms(row.speed.latency_ms)}")
    if row.size_bytes and baseline.size_bytes and row.size_bytes < 0.95 * baseline.size_bytes:
        parts.append(f"{sized(row.size_bytes)} instead of {sized(baseline.size_bytes)}")
    ends, words = row.score.loss_ci95, row.score.words
    kept = f"{task.figure} {words(row.score.value)} instead of {words(baseline.score.value)}"
    interval = f", 95 % interval {words(ends[0])} to {words(ends[1])}" if ends else ""
    parts.append(f"{kept} (loss {words(row.score.loss)}{interval}; allowed {max_loss:g})")
    for name, one in [*row.kept(task.keep).items()][1:]:
        before = one.words(baseline.score.others[name].value)
        parts.append(f"{name} {one.words(one.value)} instead of {before} (loss {one.words(one.loss)})")
    return f"Ship {row.label}: {'; '.join(parts)}."


def _if_faster(names: Sequence[str], rows: Sequence[DecisionRow], task: Task, max_loss: float) -> str:
    """Say what to ship once its speed is known."""
    mine = [row for row in speaking_rows(rows) if row.precision in names]
    *first, last = names
    named = (
        f"{', '.join(first)} or {last}, whichever is faster on your GPU"
        if first
        else f"{last} if it is faster on your GPU"
    )
    keep = f"{'they keep' if first else 'it keeps'} {_listed(task.keep)} within {max_loss:g}"
    shown = keep if any(row.certain for row in mine) else f"that {keep} is not shown"
    if any(row.limits for row in mine):
        return f"Measure {_listed(names)} on your GPU first: {shown}, and the limits were not measured here."
    return f"Ship {named}: {shown}."


def _stay(
    row: DecisionRow | None,
    rows: Sequence[DecisionRow],
    task: Task,
    max_loss: float,
    samples: int,
    *,
    certain: bool,
) -> str:
    where, bound = f"Stay with {row.label if row else BASELINE}", f"{_listed(task.keep)} within {max_loss:g}"
    where = where if _may_stay(rows) else "Nothing is within all limits"
    within = [one for one in rows if one.is_timed and one.may_ship(certain=certain)]
    if row is None or not within:
        return f"{where}: {_nothing(rows, task, max_loss, samples, certain=certain)}."
    best = min(within, key=_latency)
    own, other = _ms(_latency(row)), _ms(_latency(best))
    faster = _latency(best) < _latency(row)
    if not latencies_distinguishable(rows):
        found = f"{best.label} has a lower median, {other} instead of {own}" if faster else "none has a lower median"
        return f"{where}: too few repetitions to distinguish latencies; of the precisions that keep {bound}, {found}."
    than = (
        f"proven faster ({best.label}, {other}, is not distinguishable)"
        if faster
        else f"faster ({best.label} takes {other})"
    )
    return f"{where}, {own}: no lower precision that keeps {bound} is {than}."


def _nothing(rows: Sequence[DecisionRow], task: Task, max_loss: float, samples: int, *, certain: bool) -> str:
    """Say why no lower precision may be shipped, a clause."""
    if all(row.precision == BASELINE for row in rows):
        unknown = not any(row.fits for row in rows) and _may_stay(rows)
        return f"no lower precision was requested{f', and {BASELINE} is not shown to be within all limits' * unknown}"
    lower = speaking_rows(rows)
    bound = f"{_listed(task.keep)} within {max_loss:g}"
    kept = [row for row in lower if (row.certain if certain else row.meets) and row.counts]
    kept = [row for row in kept if row.verdict != "anomalous"]
    if not lower:
        return "no lower precision has a score"
    if beyond := [row for row in kept if "no" in row.limits.values()]:
        return f"the limits exclude what keeps {bound} ({', '.join(row.label for row in beyond)})"
    if silent := [row for row in kept if not row.is_timed]:
        named = ", ".join(row.label for row in silent)
        return f"{named} keep{'s' * (len(silent) == 1)} {bound} but ha{'s' if len(silent) == 1 else 've'} no latency"
    made = accuracies(lower, task.keep, task.metric.unit, max_loss, samples)
    if unsettled := [one for one in made if one.samples_needed]:
        return " and ".join(one.sentence for one in unsettled[:_MOST])
    if better := [row.label for row in lower if row.verdict == "anomalous"]:
        return (
            f"{_listed(better)} {'are' if len(better) > 1 else 'is'} better than {BASELINE} by more than chance, "
            "so something is wrong"
        )
    aside = [row.label_with_share for row in lower if row.meets and not row.counts]
    not_counted = f"; not counted: {', '.join(aside)}" if aside else ""
    return f"no lower precision keeps {bound}{not_counted}{_lost(lower, task.keep, max_loss)}"


def _lost(rows: Sequence[DecisionRow], keep: Sequence[str], max_loss: float) -> str:
    """Say which of several scores rows lose."""
    named = []
    for row in rows if len(keep) > 1 else ():
        found = row.kept(keep)
        lost = [name for name in keep if name not in found or found[name].loss > max_loss]
        if found and lost:
            named.append(f"{row.label} loses {_listed(lost)}")
    return f": {'; '.join(named)}" if named else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _largest(row: DecisionRow, keep: Sequence[str]) -> tuple[float, str]:
    """Return how much a row may lose of which score, by the intervals."""
    return max((one.loss_ci95[1] if one.loss_ci95 else one.loss, name) for name, one in row.kept(keep).items())


def _doubts(
    chosen: DecisionRow | None, rows: Sequence[DecisionRow], task: Task, max_loss: float, samples: int
) -> list[str]:
    doubts = []
    if chosen and chosen.precision != BASELINE and not chosen.certain:
        doubts.append(f"{_accuracy(chosen, task.keep, task.metric.unit, max_loss, samples).sentence}.")
    if task.overlap and any(_is_ranged(row) for row in rows):
        doubts.append(
            f"Some calibration {task.metric.unit} were also scored, which makes the scores of calibrated precisions "
            "too good; pass others with --calibration."
        )
    if chosen and chosen.builds_missing:
        doubts.append(f"Of the builds of its engine there are {chosen.builds_missing}.")
    if chosen and chosen.speed and chosen.speed.unstable:
        doubts.append(f"Its latency is unreliable: {'; '.join(chosen.speed.unstable[:_MOST])}.")
    if chosen and chosen.speed and chosen.speed.outputs == "far":
        doubts.append(
            "Its outputs differ from those of the same file on the reference by more than its precision explains."
        )
    if chosen and chosen.speed and chosen.speed.outputs == "not compared":
        doubts.append("Its outputs were not compared with those of the same file on the reference.")
    if chosen and chosen.precision != BASELINE and chosen.speed and chosen.speed.speed_up:
        low = chosen.speed.speed_up_low
        if low is None or low <= 1:
            why = "too few repetitions" if low is None else f"the interval of the speed-up begins at {low:.2f}"
            doubts.append(f"It is not proven faster than {BASELINE}: {why}.")
    if chosen and not latencies_distinguishable(rows):
        repetitions = sorted(row.speed.repetitions for row in rows if row.speed)
        most = repetitions[-2]
        needed = telling_repetitions(len(repetitions) - 1, most + 1)
        doubts.append(
            f"Distinguishing the latencies of {len(repetitions)} rows takes {counted(needed, 'repetition')}; no two "
            f"rows have more than {most}. Allow more time or try fewer rows."
        )
    return doubts


def _is_ranged(row: DecisionRow) -> bool:
    """Whether a score is of ranges that were found on data: only then it matters which data these were."""
    formats = known(row.precision.partition(" ")[0])  # a file's name may follow
    return row.score is not None and row.calibrated and any(one.is_calibrated for one in formats)


def _round_up(number: float) -> int:
    """Return a number of samples with two significant figures."""
    step = int(10 ** max(0, math.floor(math.log10(max(number, 1))) - 1))
    return math.ceil(number / step) * step


def _latency(row: DecisionRow) -> float:
    return row.speed.latency_ms if row.speed else math.inf


def _ms(value: float) -> str:
    return f"{value:.3g} ms"
