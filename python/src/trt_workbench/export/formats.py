"""Figures in the forms that other tools read, by their published specifications, and what reads each back.

Bencher's Metric Format (bencher.dev/docs/reference/bencher-metric-format), github-action-benchmark's
`customBiggerIsBetter` and `customSmallerIsBetter` (its README), and Prometheus' text exposition format 0.0.4
(prometheus.io/docs/instrumenting/exposition_formats).
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NotRequired

from pydantic import FiniteFloat, TypeAdapter
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import Environment, RunDocument
from trt_workbench.export.figures import LATENCY, THROUGHPUT, RunFigure

PROMETHEUS_HEAD = "# Written by trt-workbench from the run directory of one command.\n"
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


def prometheus(figures: Sequence[RunFigure], run: RunDocument, environment: Environment) -> str:
    """Return the figures as gauges in Prometheus' text format, in its base units: seconds, and shares of one."""
    families: dict[str, tuple[str, list[str]]] = {}
    for figure in figures:
        name, scale = _family(figure)
        shown = {**figure.labels, **({"figure": figure.name} if name == _SCORE else {})}
        for end, meaning, value in (
            ("", "", figure.value),
            ("_low", ", lower end of its interval", figure.low),
            ("_high", ", upper end of its interval", figure.high),
        ):
            if value is not None:
                text = f"{_MEANINGS[name]}{meaning}"
                families.setdefault(f"{name}{end}", (text, []))[1].append(_sample(f"{name}{end}", shown, value * scale))
    families |= _about(run, environment)
    blocks = (f"# HELP {name} {text}\n# TYPE {name} gauge\n{''.join(rows)}" for name, (text, rows) in families.items())
    return PROMETHEUS_HEAD + "".join(blocks)


_SCORE = "trtw_score"
_MEANINGS = {
    "trtw_latency_seconds": "Median latency of one call",
    "trtw_items_per_second": "Median throughput",
    _SCORE: "Score of a model on a data set",
}


def _family(figure: RunFigure) -> tuple[str, float]:
    if figure.name == LATENCY:
        return "trtw_latency_seconds", 1e-3
    return ("trtw_items_per_second" if figure.name == THROUGHPUT else _SCORE), 1.0


def _about(run: RunDocument, environment: Environment) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    labels = {
        "command": run.command, "run_id": run.run_id, "status": run.status, "commit": environment.git.commit or "",
        "version": environment.workbench_version or "", "gpu": environment.driver.gpu_names,
        "driver": environment.driver.driver_version or "",
    }  # fmt: skip
    yield "trtw_run_info", ("The run that the metrics belong to", [_sample("trtw_run_info", labels, 1)])
    started = datetime.datetime.fromisoformat(run.started_at).timestamp()
    name = "trtw_run_started_timestamp_seconds"
    yield name, ("When the run started", [_sample(name, {}, started)])


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value:.15g}\n" if inside else f"{name} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
