"""The report of an upgrade, made only from the files of its run directory."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from trt_workbench.core.artefacts import Part, RunDocument, read_environment, run_document
from trt_workbench.core.builds import builds_of
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.core.percent import limit
from trt_workbench.report.tables import NONE, ROOMY, Column, Table, at, verdict
from trt_workbench.report.verdict import Headline
from trt_workbench.upgrade.document import FAILED, FILE, Outcome, StackSide, Timed, Upgrade, Upgraded, reach

read = reader(FILE, Upgrade)


def answer(found: Upgrade) -> Headline:
    """Return what the page of a run says first."""
    said = [headline(found), *(f"{one.name}: {sentence(one)}" for one in found.models if sentence(one))]
    known = found.after is not None and (not found.left or _failed(found))
    return Headline(said, reach(found.models, found.left, same=found.same).word("safe", "not safe") if known else None)


def view(found: Upgrade, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    sides = [side for side in (found.before, found.after) if side]
    return {
        "table": models(found),
        "versions": Table(("package", "before", "after")[: 1 + len(sides)], _versions(sides), "Versions"),
        "sides": [named(side) for side in sides],
        "besides": {one.name: [text for text in one.reasons if text not in sentence(one)] for one in found.models},
        "builds": builds_of(directory),
        "parts": parts(directory, found),
    }


def models(found: Upgrade) -> Table:
    """Return what became of each model."""
    scored, timed = any(one.scored for one in found.models), any(one.timed for one in found.models)
    columns = [
        Column("model", "name"),
        Column("outcome", verdict("outcome")),
        Column("verdict before", verdict("before.word")),
        Column("verdict after", verdict("after.word")),
        Column("shapes", lambda one: (one.after or one.before).shapes, places=ROOMY),
        Column("largest relative L2", "after.relative_l2", form="{:.1e}".format, places=ROOMY),
        *(
            Column(
                f"score {side}",
                lambda one, side=side: (row := at(one, f"scored.{side}")) and row.words(row.value),  # type: ignore[misc]
                4,
            )
            for side in ("before", "after")
        ),
        *(Column(f"latency {side}", f"timed.{side}_ms", 3, unit="ms", places=ROOMY) for side in ("before", "after")),
        Column("latency, after/before", lambda one: ratio(one.timed), 3),
        Column("why", sentence, places=("terminal",), long=True),
    ]
    notes = [
        "Each model is verified in both stacks at the same shapes with the same inputs, and compared with what the "
        "reference of the old stack computed.",
        *[f"Latencies are medians of processes that took turns; the tolerance is {limit(found.tolerance)}."] * timed,
        *[f"A loss of score of {found.max_loss} is tolerated, by the upper end of its paired interval."] * scored,
    ]
    return Table(columns, found.models, "Models", [" ".join(notes)])


def headline(found: Upgrade) -> str:
    """Return the answer, a sentence."""
    count = counted(len(found.models), "model")
    left = f" Interrupted before {counted(len(found.left), 'model')}: {', '.join(found.left)}." if found.left else ""
    if found.after is None:
        return f"Recorded {count} of {found.before.stack}.{left}"
    same = " Their versions are the same, so this compares two runs of one stack." if found.same else ""
    if not found.same and found.before.versions == found.after.versions:
        same = f" Their versions are the same; their options differ: {_options(found.before)}; {_options(found.after)}."
    failed = _failed(found)
    if not failed:
        slower = [one.timed.outcome for one in found.models if one.timed and one.timed.ratio is not None]
        faster = slower.count("improvement")
        words = f" {counted(faster, 'model')} faster, none slower." if faster else ""
        only = sum(one.before.verdict is None for one in found.models)
        words += f" {only} of them only the new stack takes." if only else ""
        safe = "So far safe" if left else "Safe"
        return f"{safe}: {count} as correct after the upgrade as before.{words}{same}{left}"
    kinds = ", ".join(f"{number} {outcome}" for outcome, number in failed.items())
    return f"Not safe: {sum(failed.values())} of {count} ({kinds}).{same}{left}"


def _failed(found: Upgrade) -> Counter[Outcome]:
    return Counter(one.outcome for one in found.models if one.outcome in FAILED)


def parts(directory: Path, found: Upgrade) -> list[str]:
    """Return a sentence for each part of a run that was resumed, with the models that were done in it."""
    earlier, run = read_environment(directory).earlier, run_document(directory)
    every: list[Part | RunDocument] = [*earlier, run] if earlier else []
    said = []
    for number, part in enumerate(every, start=1):
        names = ", ".join(one.name for one in found.models if one.run_id == part.run_id) or "no model that counts"
        ended = f"to {part.ended_at}" if part.ended_at else "until it was killed"
        said.append(f"Part {number} of {len(every)}, from {part.started_at} {ended}: {names}.")
    return said


def _options(side: StackSide) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in side.options.items()) or "none"


def named(side: StackSide) -> str:
    """Return a stack with its versions, for people."""
    versions = ", ".join(f"{name} {version}" for name, version in side.versions.items())
    cards = f"; {', '.join(side.gpus)}" if side.gpus else ""
    options = f"; options {_options(side)}" if side.options else ""
    return f"{side.stack} ({side.kind}, Python {'.'.join(map(str, side.python))}): {versions}{cards}{options}"


def ratio(timed: Timed | None) -> str:
    """Return a ratio of latencies for a table, with its interval, or what it is made from."""
    if timed is None or timed.ratio is None:
        return NONE
    pairs = f"{timed.ratio_low:.3f} to {timed.ratio_high:.3f}, of all pairs" if timed.ratio_low is not None else ""
    return f"{timed.ratio:.3f} ({pairs or 'of the medians, no interval'})"


def sentence(one: Upgraded) -> str:
    """Return why a model is not safe, with the smallest wrong part; "" where it is."""
    return "" if one.outcome == "safe" else "; ".join(one.reasons[: 1 + bool(one.reduced)])


def _versions(sides: list[StackSide]) -> list[tuple[str, ...]]:
    """Return the version of everything in each stack, what differs first."""
    names = list(dict.fromkeys(name for side in sides for name in side.versions))
    rows = [(name, *(side.versions.get(name, NONE) for side in sides)) for name in names]
    rows.append(("Python", *(".".join(map(str, side.python)) for side in sides)))
    return sorted(rows, key=lambda row: len(set(row[1:])) == 1)
