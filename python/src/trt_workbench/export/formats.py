"""Figures in the forms that other tools read, by their published specifications, and what reads each back.

Bencher's Metric Format (bencher.dev/docs/reference/bencher-metric-format), and github-action-benchmark's
`customBiggerIsBetter` and `customSmallerIsBetter` (its README).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NotRequired

from pydantic import FiniteFloat, TypeAdapter
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import RunDocument
from trt_workbench.export.figures import LATENCY, RunFigure

# Of Bencher, https://bencher.dev/docs/reference/bencher-metric-format: the latency that it knows is in nanoseconds.
_NANOSECONDS = 1e6
_LONGEST_NAME, _LONGEST_SLUG = 1024, 64


class BencherMetric(TypedDict):
    """A metric of Bencher, with the ends of its interval."""

    value: FiniteFloat
    lower_value: NotRequired[FiniteFloat]
    upper_value: NotRequired[FiniteFloat]


class ActionEntry(TypedDict):
    """An entry of github-action-benchmark."""

    name: str
    unit: str
    value: FiniteFloat
    range: NotRequired[str]
    extra: NotRequired[str]


BENCHER: TypeAdapter[dict[str, dict[str, BencherMetric]]] = TypeAdapter(dict[str, dict[str, BencherMetric]])
ACTION: TypeAdapter[list[ActionEntry]] = TypeAdapter(list[ActionEntry])


def bencher(figures: Iterable[RunFigure]) -> str:
    """Return the figures as JSON in Bencher's Metric Format: by subject, then by measure."""
    document: dict[str, dict[str, BencherMetric]] = {}
    for figure in figures:
        scale = _NANOSECONDS if figure.name == LATENCY else 1.0
        metric: BencherMetric = {"value": figure.value * scale}
        if figure.low is not None and figure.high is not None:
            metric |= {"lower_value": figure.low * scale, "upper_value": figure.high * scale}
        subject = figure.subject[:_LONGEST_NAME]
        slug = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")[:_LONGEST_SLUG]
        document.setdefault(subject, {})[slug] = metric
    return _json(document)


def action(figures: Iterable[RunFigure], run: RunDocument) -> dict[str, str]:
    """Return the files of github-action-benchmark by the action's `tool`: a file holds figures of one direction."""
    entries: dict[str, list[ActionEntry]] = {}
    for figure in figures:
        tool = "customSmallerIsBetter" if figure.smaller_is_better else "customBiggerIsBetter"
        entry: ActionEntry = {
            "name": f"{figure.subject}: {figure.name}",
            "unit": figure.unit or figure.name,
            "value": figure.value,
            "extra": f"run: {run.run_id}",
        }
        if figure.low is not None and figure.high is not None:
            # the action draws one number to both sides: the larger one
            entry["range"] = f"± {max(figure.value - figure.low, figure.high - figure.value):.6g}"
            entry["extra"] = f"interval: {figure.low:.6g} to {figure.high:.6g}\n{entry['extra']}"
        entries.setdefault(tool, []).append(entry)
    return {tool: _json(found) for tool, found in entries.items()}


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
