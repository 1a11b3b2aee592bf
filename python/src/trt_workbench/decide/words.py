"""The recommendation in words: what to ship, why, and what speaks against relying on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trt_workbench.core.counts import counted, sized
from trt_workbench.core.precision import known
from trt_workbench.core.statistics.bootstrap import LEAST_UNITS
from trt_workbench.core.statistics.comparison import telling_repetitions
from trt_workbench.decide.document import BASELINE, DecisionRow, Recommendation, ScoreGate, latencies_distinguishable
from trt_workbench.quantize import Task

_MOST = 2
# Below, tenths of a megabyte mean nothing.


def recommendation(
    rows: Sequence[DecisionRow], task: Task, max_loss: float, samples: int, *, processor: bool = False
) -> Recommendation:
    """Choose among the rows that were scored and measured, and say why.

    The fastest whose loss is within the bound; of several that are indistinguishable each precision on the runtime of
    the lowest latency, and of those the baseline unless the interval of a speed-up over it is above 1, else one whose
    whole interval is within the bound, and the one that loses least. Never what is simulated or not calibrated.

    Args:
        rows: all of them.
        task: what was scored.
        max_loss: the bound.
        samples: how many were scored.
        processor: whether all latencies are of the CPU.
    """
    baseline = next((row for row in rows if row.precision == BASELINE and row.score), None)
    if baseline is None:
        reason = next((row.reason for row in rows if row.precision == BASELINE), None)
        why = f": {reason}" if reason else ""
        return Recommendation(
            precision=None,
            backend=None,
            sentence=f"No recommendation, as {BASELINE} has no score{why}.",
            doubts=[],
        )
    if worthless := _worthless(rows, task.keep):
        return Recommendation(precision=None, backend=None, sentence=f"No recommendation, as {worthless}.", doubts=[])
    usable = [row for row in rows if row.meets and row.speed and not row.simulated and row.counts]
    if not usable:
        return Recommendation(
            precision=None,
            backend=None,
            sentence=_nothing(rows, baseline),
            doubts=_doubts(None, rows, task, max_loss, samples, processor=processor),
        )
    chosen = chosen_row(usable)
    sentence = (
        _stay(chosen, rows, task, max_loss)
        if chosen.precision == BASELINE
        else _ship(chosen, rows, baseline, task, max_loss)
    )
    doubts = _doubts(chosen, rows, task, max_loss, samples, processor=processor)
    return Recommendation(precision=chosen.precision, backend=chosen.backend, sentence=sentence, doubts=doubts)


def gate(
    rows: Sequence[DecisionRow],
    keep: Sequence[str],
    unit: str,
    max_loss: float,
    samples: int,
    *,
    accept_simulated: bool = False,
    certain: bool = False,
) -> ScoreGate:
    """Return whether a lower precision keeps the score, and how sure that is.

    Args:
        rows: all of them.
        keep: names of the scores that are to be kept.
        unit: what a sample is, in the plural.
        max_loss: the bound.
        samples: how many were scored.
        accept_simulated: whether what a runtime imitates counts.
        certain: whether the whole interval of a loss has to be within the bound.
    """
    ran = [row for row in rows if row.precision != BASELINE and (accept_simulated or not row.simulated)]
    within = [row for row in ran if row.meets]
    counting = [row for row in within if row.counts]
    sure = [row for row in counting if row.certain]
    names = [row.label for row in counting]
    bound = f"{_listed(keep)} within {max_loss:g} of {BASELINE}"
    number = counted(samples, unit.removesuffix("s"))
    if worthless := _worthless(rows, keep):
        return ScoreGate(passed=False, certain=False, rows=[], text=f"Nothing is decided: {worthless}.")
    if not counting:
        real = "" if accept_simulated else " (simulated ones aside)"
        text = f"No lower precision{real} keeps {bound}{_not_counted(within)}{_lost(ran, keep, max_loss)}."
    elif sure:
        keeps = "keeps" if len(sure) == 1 else "keep"
        text = f"{', '.join(row.label for row in sure)} {keeps} {bound}, 95 % sure ({number})."
    else:
        best = min(counting, key=lambda row: _largest(row, keep)[0])
        why = _uncertain(best, keep, unit, max_loss, samples)
        text = f"{best.label} keeps {bound} on these {unit}, but that is not 95 % sure. {why}"
    return ScoreGate(passed=bool(sure if certain else counting), certain=bool(sure), rows=names, text=text)


def _worthless(rows: Sequence[DecisionRow], keep: Sequence[str]) -> str:
    """Say that the baseline is no better than a guess, so that no precision can lose anything; "" where it is."""
    for row in rows:
        for name, one in row.kept(keep).items() if row.precision == BASELINE else ():
            if one.guess is not None:
                return f"{name} of {row.label} is {one.value:.4f}, {one.as_good_as_guessing}"
    return ""


def _not_counted(rows: Sequence[DecisionRow]) -> str:
    """Say which rows would be meant, if they counted."""
    return f"; not counted: {', '.join(row.label_with_share for row in rows)}" if rows else ""


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


def _nothing(rows: Sequence[DecisionRow], baseline: DecisionRow) -> str:
    """Say why nothing is recommended where the baseline has a score: what keeps the score has no latency."""
    kept = [row for row in rows if row.meets and row.counts and row is not baseline and row.precision != BASELINE]
    first = kept[0] if kept else baseline
    why = f": {first.reason}" if first.reason else ""
    what = f"{first.label} keeps the score but" if kept else f"no lower precision keeps the score and {first.label}"
    return f"No recommendation, as {what} has no latency{why}."


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
        key=lambda row: (row.precision != BASELINE, not _within(row), row.score.loss if row.score else math.inf),
    )


def _within(row: DecisionRow) -> bool:
    """Whether the whole interval of the loss is within the bound; where no sample differs, the loss need be."""
    return bool(row.certain or (row.meets and row.score and row.score.alike))


def _beats(row: DecisionRow, baseline: DecisionRow | None) -> bool:
    """Whether a row is shown to be faster than the baseline on the same runtime, by the interval of its speed-up."""
    if baseline is None or row is baseline or row.backend != baseline.backend or row.speed is None:
        return False
    return row.speed.rank is not None and (row.speed.speed_up_low or 0.0) > 1


def _ship(row: DecisionRow, rows: Sequence[DecisionRow], baseline: DecisionRow, task: Task, max_loss: float) -> str:
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
    kept = f"{task.figure} {row.score.value:.4f} instead of {baseline.score.value:.4f}"
    ends = row.score.loss_ci95
    interval = f", 95 % interval {_signed(ends[0])} to {_signed(ends[1])}" if ends else ""
    parts.append(f"{kept} (loss {_signed(row.score.loss)}{interval}; allowed {max_loss:g})")
    for name, one in [*row.kept(task.keep).items()][1:]:
        before = baseline.score.others[name].value
        parts.append(f"{name} {one.value:.4f} instead of {before:.4f} (loss {_signed(one.loss)})")
    return f"Ship {row.label}: {'; '.join(parts)}."


def _stay(row: DecisionRow, rows: Sequence[DecisionRow], task: Task, max_loss: float) -> str:
    ran = [one for one in rows if one.precision != BASELINE and one.speed and not one.simulated]
    others = [one for one in ran if one.counts]
    within = [one for one in others if one.meets]
    where, bound = f"Stay with {row.precision} on {row.backend}", f"{_listed(task.keep)} within {max_loss:g}"
    if not others:
        return f"{where}: no lower precision has a latency here{_not_counted(ran)}."
    if not within:
        return f"{where}: no lower precision keeps {bound}{_lost(others, task.keep, max_loss)}."
    best = min(within, key=_latency)
    own, other = _ms(_latency(row)), _ms(_latency(best))
    lower = _latency(best) < _latency(row)
    if not latencies_distinguishable(rows):
        found = f"{best.label} has a lower median, {other} instead of {own}" if lower else "none has a lower median"
        return f"{where}: too few repetitions to distinguish latencies; of the precisions that keep {bound}, {found}."
    faster = f"proven faster ({best.label}, {other}, is not distinguishable)"
    slower = f"faster ({best.label} takes {other})"
    return f"{where}, {own}: no lower precision that keeps {bound} is {faster if lower else slower}."


def _doubts(
    chosen: DecisionRow | None,
    rows: Sequence[DecisionRow],
    task: Task,
    max_loss: float,
    samples: int,
    *,
    processor: bool = False,
) -> list[str]:
    doubts = []
    if chosen and chosen.precision != BASELINE and not chosen.certain:
        doubts.append(_uncertain(chosen, task.keep, task.unit, max_loss, samples))
    if task.overlap and any(_is_ranged(row) for row in rows):
        doubts.append(
            f"Some calibration {task.unit} were also scored, which makes the scores of calibrated precisions too good; "
            "pass others with --calibration."
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
    if not latencies_distinguishable(rows):
        repetitions = sorted(row.speed.repetitions for row in rows if row.speed)
        most = repetitions[-2]
        needed = telling_repetitions(len(repetitions) - 1, most + 1)
        doubts.append(
            f"Distinguishing the latencies of {len(repetitions)} rows takes {counted(needed, 'repetition')}; no two "
            f"rows have more than {most}. Allow more time or try fewer rows."
        )
    hardly = {row.precision: row.part for row in rows if row.meets and not row.tells and not row.simulated}
    for name, part in hardly.items():
        verb = "are" if part.endswith("s") else "is"
        doubts.append(f"Only {part} {verb} in {name}: it does not count, as so little hardly changes the score.")
    if processor:
        doubts.append("Latencies are of this machine's CPU and say nothing about a GPU.")
    kept = [row for row in rows if row.simulated and row.counts and row.meets]
    simulated = list(dict.fromkeys(row.precision for row in kept))
    if simulated:
        named = _listed(simulated)
        keeps, it, its = ("keep", "them", "their") if len(simulated) > 1 else ("keeps", "it", "its")
        doubts.append(f"In simulation, {named} {keeps} the score; {its} speed shows only on hardware that has {it}.")
    return doubts


def _is_ranged(row: DecisionRow) -> bool:
    """Whether a score is of ranges that were found on data: only then it matters which data these were."""
    formats = known(row.precision.partition(" ")[0])  # a file's name may follow
    return row.score is not None and row.calibrated and any(one.is_calibrated for one in formats)


def _uncertain(row: DecisionRow, keep: Sequence[str], unit: str, max_loss: float, samples: int) -> str:
    figure = _largest(row, keep)[1]
    score = row.kept(keep)[figure]
    ends, of = score.loss_ci95, f" of {figure}" if len(keep) > 1 else ""
    text = f"{counted(samples, unit.removesuffix('s'))} cannot prove a loss{of} of at most {max_loss:g}"
    if ends is None:
        return f"{text}."
    if samples < LEAST_UNITS:
        return f"{text}: an interval needs at least {LEAST_UNITS}."
    text += f": the loss may be up to {_signed(ends[1])}"
    if (room := max_loss - score.loss) > 0:
        needed = samples * ((ends[1] - score.loss) / room) ** (1 if score.alike else 2)
        text += f"; about {_round_up(needed):,} would if the loss stays the same"
    return f"{text}."


def _round_up(number: float) -> int:
    """Return a number of samples with two significant figures."""
    step = int(10 ** max(0, math.floor(math.log10(max(number, 1))) - 1))
    return math.ceil(number / step) * step


def _latency(row: DecisionRow) -> float:
    return row.speed.latency_ms if row.speed else math.inf


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def four_digits(value: float) -> str:
    """Return a figure with four decimals, without a sign where it rounds to zero."""
    return f"{round(value, 4) + 0.0:.4f}"  # the sum makes 0 of -0


def _signed(value: float) -> str:
    return four_digits(value).replace("-", "\N{MINUS SIGN}")
