"""The report of an upgrade, made only from the files of its run directory."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from trt_workbench.core.builds import builds_of
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import reader
from trt_workbench.report.verdict import Headline
from trt_workbench.upgrade.document import FAILED, StackSide, Timed, Upgrade, Upgraded

NONE = "\N{EN DASH}"


read = reader("upgrade.json", Upgrade)


def answer(found: Upgrade) -> Headline:
    """Return what the page of a run says first."""
    said = [headline(found), *(f"{one.name}: {sentence(one)}" for one in found.models if sentence(one))]
    return Headline(said, None if found.after is None else "safe" if found.passed else "not safe")


def view(found: Upgrade, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    sides = [side for side in (found.before, found.after) if side]
    return {
        "found": found,
        "versions": _versions(sides),
        "sides": [named(side) for side in sides],
        "ratio": ratio,
        "builds": builds_of(directory),
        "scored": any(one.scored for one in found.models),
        "timed": any(one.timed for one in found.models),
        "absent": NONE,
    }


def headline(found: Upgrade) -> str:
    """Return the answer, a sentence."""
    count = counted(len(found.models), "model")
    if found.after is None:
        return f"Recorded {count} of {found.before.stack}."
    same = " Their versions are the same, so this compares two runs of one stack." if found.same else ""
    if not found.same and found.before.versions == found.after.versions:
        same = f" Their versions are the same; their options differ: {_options(found.before)}; {_options(found.after)}."
    failed = Counter(one.outcome for one in found.models if one.outcome in FAILED)
    if not failed:
        slower = [one.timed.outcome for one in found.models if one.timed and one.timed.ratio is not None]
        faster = slower.count("improvement")
        words = f" {counted(faster, 'model')} faster, none slower." if faster else ""
        only = sum(one.before.verdict is None for one in found.models)
        words += f" {only} of them only the new stack takes." if only else ""
        return f"Safe: {count} as correct after the upgrade as before.{words}{same}"
    kinds = ", ".join(f"{number} {outcome}" for outcome, number in failed.items())
    return f"Not safe: {sum(failed.values())} of {count} ({kinds}).{same}"


def _options(side: StackSide) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in side.options.items()) or "none"


def named(side: StackSide) -> str:
    """Return a stack with its versions, for people."""
    versions = ", ".join(f"{name} {version}" for name, version in side.versions.items())
    cards = f"; {', '.join(side.gpus)}" if side.gpus else ""
    options = f"; options {_options(side)}" if side.options else ""
    return f"{side.stack} ({side.kind}, Python {'.'.join(map(str, side.python))}): {versions}{cards}{options}"


def ratio(timed: Timed | None) -> str:
    """Return a ratio of latencies with its interval, for a table."""
    if timed is None or timed.ratio is None:
        return NONE
    ends = "" if timed.ratio_low is None else f" ({timed.ratio_low:.3f} to {timed.ratio_high:.3f})"
    return f"{timed.ratio:.3f}{ends}"


def sentence(one: Upgraded) -> str:
    """Return why a model is not safe, with the smallest wrong part; "" where it is."""
    return "" if one.outcome == "safe" else "; ".join(one.reasons[: 1 + bool(one.reduced)])


def _versions(sides: list[StackSide]) -> list[tuple[str, list[str]]]:
    """Return the version of everything in each stack, what differs first."""
    names = list(dict.fromkeys(name for side in sides for name in side.versions))
    rows = [(name, [side.versions.get(name, NONE) for side in sides]) for name in names]
    rows.append(("Python", [".".join(map(str, side.python)) for side in sides]))
    return sorted(rows, key=lambda row: len(set(row[1])) == 1)
