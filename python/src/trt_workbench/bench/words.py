"""The sentences and lists of a bench report: what was measured, what was not, and what executed it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trt_workbench.bench.ranking import kept_records, point_reasons
from trt_workbench.bench.view import WorkTable
from trt_workbench.core.artefacts import BenchArtefacts, Environment
from trt_workbench.core.counts import counted, grouped, some
from trt_workbench.core.records import Record
from trt_workbench.core.statistics.comparison import LEAST_REPETITIONS, inseparable
from trt_workbench.report.verdict import Reach
from trt_workbench.verify import let_through

# More reasons of failures than this are left to the report's table.
_MOST_FAILURES = 4
# The text for a point without a time; a batch that a saturated sweep left out is only counted, and wrong outputs are
# the first sentence of all.
# Of one runtime, and of several.
_ENDS = {"failed": ("failed", "failed"), "unavailable": ("was not available", "were not available")}


def reach(run: BenchArtefacts) -> Reach:
    """Return what was to be measured and what was wrong or failed: the badge and the exit code."""
    states = [record.status for record in run.records if record.status not in ("skipped", "unavailable")]
    return Reach(max(1, len(states)), len(states), len(states), len(states) - states.count("ok"))


def summary(run: BenchArtefacts, made: Sequence[WorkTable]) -> list[str]:
    """Say in sentences what was measured, the result for every work, and how far it can be trusted."""
    sentences = (table.sentence for table in made)
    return [*alarms(run.records), *sentences, *_outcome(run, made), *_merged(run), *_caveats(run, made)]


def overall(run: BenchArtefacts, made: Sequence[WorkTable]) -> list[str]:
    """Say the same without a sentence for every work."""
    return [*alarms(run.records), *_outcome(run, made), *_merged(run), *_caveats(run, made)]


def _merged(run: BenchArtefacts) -> list[str]:
    """Say which shards the run was put together from, if it was."""
    shards = (run.run.model_extra or {}).get("shards")
    return [shards["text"]] if shards else []


def alarms(records: Sequence[Record]) -> list[str]:
    """Return what has to be read before any figure: the first line of what is printed."""
    points = {(_place(record), record.runtime) for record in records if record.status in ("ok", "wrong")}
    sentences = let_through(record.verification for record in records)
    if wrong := {(_place(one), one.runtime): one.error for one in records if one.status == "wrong"}:
        (place, runtime), error = next(iter(wrong.items()))
        sentences.append(
            f"Wrong outputs at {len(wrong)} of {counted(len(points), 'point')}, not ranked; {place} "
            f"on {runtime}: {error}."
        )
    untrusted = [row for row in unstable(records) if len(row["repetitions"]) == row["measured"]]
    if untrusted:
        row = untrusted[0]
        sentences.append(f"Unstable: the times of {len(untrusted)} of {counted(len(points), 'point')} are unreliable.")
        sentences.append(f"The first, {row['work']} on {row['runtime']}: {'; '.join(row['reasons'])}.")
    return sentences


def _outcome(run: BenchArtefacts, made: Sequence[WorkTable]) -> list[str]:
    measured = [record for record in run.records if record.status == "ok"]
    if not measured:
        return ["Nothing was measured."]
    runtimes = len({record.runtime for record in measured})
    points = Counter((record.scenario, record.work, record.runtime) for record in measured)
    fewest, most = min(points.values()), max(points.values())
    each = f"{most}" if fewest == most else f"{fewest} to {most}"
    return [
        *leaders(made),
        f"{counted(len(made), 'workload')} on {counted(runtimes, 'runtime')}: "
        f"{counted(len(measured), 'repetition')} measured, {each} per point.",
    ]


def _caveats(run: BenchArtefacts, made: Sequence[WorkTable]) -> list[str]:
    sentences = [*_missing(run.records), *_fallbacks(run.records), *_not_compared(run.records), *_far(run.records)]
    if run.config.repetitions < LEAST_REPETITIONS and any(len(table.rows) > 1 for table in made):
        sentences.append(
            f"Fewer than {LEAST_REPETITIONS} repetitions: Mann-Whitney's test is unreliable, and with several runtimes "
            "it may be unable to separate any two."
        )
    crowded = max((len(table.rows) for table in made), default=0)
    if run.config.repetitions >= LEAST_REPETITIONS and inseparable(run.config.repetitions, crowded - 1):
        sentences.append(
            f"{crowded} runtimes are in one table: with {run.config.repetitions} repetitions no difference between "
            "them, however large, passes the test after its correction; measure more repetitions."
        )
    points = list(_by_point(run.records).values())
    marked = sum(len(row["repetitions"]) for row in unstable(run.records))
    if marked:
        measured = sum(map(len, points))
        left = measured - sum(len(kept) for mine in points for kept in kept_records(mine).values())
        sentences.append(
            f"Unstable: {marked} of {counted(measured, 'repetition')}; left out of the times: {left or 'none'}."
        )
    stayed = sum(len(mine) > 1 and {one.group for one in mine} == {mine[0].group} != {None} for mine in points)
    if stayed:
        sentences.append(
            f"At {counted(stayed, 'point')} all repetitions are of one process: how far processes differ is not in the "
            "intervals."
        )
    return sentences


def _by_point(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Return the measured repetitions of each work and runtime."""
    measured = (record for record in records if record.status == "ok")
    return grouped(measured, lambda record: (_place(record), record.runtime))


def leaders(made: Sequence[WorkTable]) -> list[str]:
    """Say who is fastest how often, where there is more than one workload to count."""
    compared = [table for table in made if len(table.rows) > 1 and not table.rows[0].standing.all_unstable]
    if len(compared) < 2:
        return []
    alone = [table.rows[0].standing.runtime for table in compared if table.rows[1].standing.rank != 1]
    wins = [f"{name} at {count} of {len(compared)} workloads" for name, count in Counter(alone).most_common()]
    tied = len(compared) - len(alone)
    sentences = [f"Fastest: {', '.join(wins)}."] if wins else []
    if tied:
        sentences.append(f"At {counted(tied, 'workload')} the first is not distinguishable from the next.")
    return sentences


def _missing(records: Sequence[Record]) -> list[str]:
    """What failed or could not serve, with the reason; batches that a saturated sweep left out are only counted."""
    found = problems(records)
    ended = (row for row in found if row["status"] in _ENDS)
    alike = grouped(ended, lambda row: (row["status"], row["error"], *row["works"]))
    sentences = [
        f"{', '.join(row['runtime'] for row in rows)} {_ENDS[status][len(rows) > 1]} at {some(works, 2)}: {error}"
        for (status, error, *works), rows in alike.items()
    ]
    skipped = sum(len(row["works"]) for row in found if row["status"] == "skipped")
    more = [f"And {counted(len(sentences) - _MOST_FAILURES, 'more failure')}; the report lists them."]
    return [
        *sentences[:_MOST_FAILURES],
        *(more if len(sentences) > _MOST_FAILURES else []),
        *([f"Left out {counted(skipped, 'point')} of sweeps, as throughput no longer increased."] if skipped else []),
    ]


def _fallbacks(records: Sequence[Record]) -> list[str]:
    """Runtimes that executed a part of a model elsewhere than they were asked to."""
    nodes = {
        (record.runtime, record.model): len(record.provenance["fallback_nodes"])
        for record in records
        if record.provenance.get("fallback_nodes")
    }
    return [
        f"{runtime} executed {counted(count, 'node')} of {model} on the CPU, as allowed."
        for (runtime, model), count in nodes.items()
    ]


def _not_compared(records: Sequence[Record]) -> list[str]:
    """Ranked points whose outputs were not checked; older records do not say."""
    points = {
        (_place(record), record.runtime): str(record.outputs["reason"])
        for record in records
        if record.outputs and record.outputs.get("state") == "not compared"
    }
    return [
        f"The outputs of {counted(count, 'point')} were not compared with a reference: {reason}."
        for reason, count in Counter(points.values()).items()
    ]


def _far(records: Sequence[Record]) -> list[str]:
    """Points whose outputs are further from the reference than usual for their precision."""
    points = {
        (_place(record), record.runtime): str(record.outputs["reason"])
        for record in records
        if record.status == "ok" and record.outputs and record.outputs.get("state") == "far"
    }
    return [
        f"The outputs of {counted(len(points), 'point')} differ more from the reference than is usual for their "
        f"precision; check the accuracy; {place} on {runtime}: {reason}."
        for (place, runtime), reason in [*points.items()][:1]
    ]


def problems(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return what failed, could not serve or was skipped.

    One entry a runtime and reason: `runtime`, `status`, `error`, `works` (by scenario and name), `count` (repetitions).
    """
    others = (record for record in records if record.status != "ok")
    found = grouped(others, lambda record: (record.runtime, record.status, record.error or ""))
    return [
        {
            "runtime": runtime,
            "status": status,
            "error": error,
            "works": list(dict.fromkeys(map(_place, mine))),
            "count": len(mine),
        }
        for (runtime, status, error), mine in found.items()
    ]


def unstable(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the points with marked repetitions.

    One entry a point: `work`, `runtime`, `repetitions` (their numbers), `measured` (how many there are in all),
    `reasons`.
    """
    return [
        {
            "work": work,
            "runtime": runtime,
            "repetitions": [record.repetition for record in mine if record.unstable or together],
            "measured": len(mine),
            "reasons": [*together, *kinds(reason for record in mine for reason in record.unstable)],
        }
        for (work, runtime), mine in _by_point(records).items()
        for together in [[text for kept in kept_records(mine).values() for text in point_reasons(kept)]]
        if together or any(record.unstable for record in mine)
    ]


def kinds(reasons: Iterable[str]) -> list[str]:
    """Return one of those that differ only in their figures, with how many more there are."""
    kinds = grouped(reasons, lambda reason: re.sub(r"\d+", "0", reason))
    return [first + (f" (and {len(more)} similar)" if more else "") for first, *more in kinds.values()]


def executed(records: Iterable[Record]) -> dict[str, dict[str, str]]:
    """Return what really executed each runtime's first work, by name: versions, precision, providers, notes."""
    first: dict[str, Record] = {}
    for record in records:
        if record.provenance:
            first.setdefault(record.runtime, record)
    return {runtime: _facts(record.provenance) for runtime, record in first.items()}


def _facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The provenance without paths, hashes and long lists of settings, which the records hold."""
    facts = _shown(provenance)
    facts["build_warnings"] = (provenance.get("manifest") or {}).get("warnings")
    texts = {name: _fact(value) for name, value in facts.items() if value not in (None, [], {}, "")}
    return {name.replace("_", " "): text for name, text in texts.items()}


def _shown(provenance: Mapping[str, Any]) -> dict[str, Any]:
    hidden = ("manifest", "provider_options", "plan")
    shown = {name: value for name, value in provenance.items() if name not in hidden}
    if ran := shown.get("precision_ran"):
        shown["precision_ran"] = f"{ran['text']}, read from the {ran['source']}"
    return {name: value for name, value in shown.items() if not name.endswith(("_sha256", "_file"))}


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):  # perhaps the provenance of a second session
        return ", ".join(f"{name} {_fact(one)}" for name, one in _shown(value).items() if one not in (None, [], {}, ""))
    if isinstance(value, list | tuple):
        return "; ".join(map(_fact, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def machine(environment: Environment) -> str:
    """Name the GPUs that CUDA could see and the CPU."""
    names = Counter(str(gpu.name) for gpu in environment.driver.gpus)
    cards = ", ".join(name if count == 1 else f"{count} {name}" for name, count in names.items()) or "no GPU"
    chosen = environment.variables.get("CUDA_VISIBLE_DEVICES")
    if names and chosen is not None:
        cards += f" (CUDA_VISIBLE_DEVICES={chosen})"
    return f"{cards}; {environment.cpu.model}, {counted(environment.cpu.processors_available or 0, 'CPU')}"


def _place(record: Record) -> str:
    return f"{record.scenario}: {record.work}"
