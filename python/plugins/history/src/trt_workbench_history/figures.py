"""The figures of a run that are worth following: medians of repetitions and scores, each with its interval."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.bench import kept_records, unit_medians, untrusted
from trt_workbench.core.artefacts import command_of, read_bench_run
from trt_workbench.core.documents import read_document
from trt_workbench.core.records import Record, by_work, read_records
from trt_workbench.core.statistics.comparison import median_interval
from trt_workbench.llm import LlmMetrics
from trt_workbench.model.precision import precision_label
from trt_workbench.quantize import ScoreMetrics
from trt_workbench.upgrade import Upgrade
from trt_workbench.vision import CocoMetrics, task_in
from trt_workbench_history.changes import SeriesEntry

LATENCY, THROUGHPUT = "latency", "throughput"
# What changes how fast scores are made, and not the scores.
_SPEED_SETTINGS = ("workers", "concurrency")


@dataclass(frozen=True, kw_only=True)
class RunFigure(SeriesEntry):
    """One figure of one subject of a run.

    Attributes:
        labels: what it is of, by name: scenario, work and runtime of a bench, model, runtime and precision of a score.
        name: such as "latency", "AP" or "perplexity".
        unit: "ms", "items/s", or "" of a score.
        smaller_is_better: whether a smaller one is an improvement.
        basis: what has to be equal for two runs' figures to be of the same thing, apart from the labels.
        model_sha256: of the model that it was measured on; None where the run does not say.
        doubts: reasons not to rely on it.
    """

    labels: Mapping[str, str]
    name: str
    unit: str
    smaller_is_better: bool
    basis: str = ""
    model_sha256: str | None = None
    doubts: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The figure itself: the median of the values."""
        return median_interval(self.values).median

    @property
    def subject(self) -> str:
        """The labels as one text."""
        return " / ".join(map(str, self.labels.values()))  # a run may come from anywhere


def _bench(directory: Path) -> Iterator[RunFigure]:
    yield from _of_records(read_bench_run(directory).records)


def _upgrade(directory: Path) -> Iterator[RunFigure]:
    """The new stack, or the recorded one: what a fleet runs from then on."""
    found = read_document(directory / "upgrade.json", Upgrade)
    side = directory / ("before" if found.after is None else "after")
    for one in found.models:
        folder = side / one.name
        turns = sorted(folder.glob("turn-*/records.jsonl"))
        records = [
            record.model_copy(update={"repetition": number, "group": ""})
            for number, turn in enumerate(turns)
            for record in read_records(turn)
        ]
        yield from _of_records(records, model=one.name)
        if (folder / "score" / "metrics.json").is_file():
            yield from READERS[command_of(folder / "score")](folder / "score")


def _of_records(every: Iterable[Record], **named: str) -> Iterator[RunFigure]:
    for (scenario, _, work), records in by_work(every).items():
        for runtime, kept in kept_records(records, one_run=False).items():
            mine = [record for record in records if record.runtime == runtime]
            labels = {**named, "scenario": scenario, "work": work, "runtime": runtime}
            common = {"model_sha256": mine[0].model_sha256, "doubts": untrusted(kept)}
            times = unit_medians(kept)
            speeds = [one.items_per_s for one in kept.values() if one.items_per_s is not None]
            yield _measured(labels, LATENCY, "ms", times, **common)
            if speeds:
                yield _measured(labels, THROUGHPUT, "items/s", speeds, **common)


def _measured(labels: Mapping[str, str], name: str, unit: str, values: list[float], **more: Any) -> RunFigure:
    ends = median_interval(values)
    known = ends.coverage > 0
    low, high = (ends.low, ends.high) if known else (None, None)
    return RunFigure(
        tuple(values), low, high, labels=labels, name=name, unit=unit, smaller_is_better=name == LATENCY, **more
    )


def _coco(directory: Path) -> Iterator[RunFigure]:
    metrics: Mapping[str, Any] = read_document(directory / "metrics.json", CocoMetrics)
    settings = {key: value for key, value in metrics["settings"].items() if key not in _SPEED_SETTINGS}
    labels = _of_model(metrics["model"], metrics, settings.get("precision"))
    data = (metrics["dataset"]["annotations_sha256"], metrics["images"], settings)
    more = {"basis": json.dumps(data, sort_keys=True), "model_sha256": metrics["model"]["sha256"]}
    for name in task_in(metrics).figures:
        if metrics.get(name) is not None:
            low, high = metrics.get(f"{name}_ci95") or (None, None)
            yield RunFigure(
                (metrics[name],), low, high, labels=labels, name=name, unit="", smaller_is_better=False, **more
            )
    if metrics["latency_ms"]:
        yield _measured(labels, LATENCY, "ms", [metrics["latency_ms"]["total"]["p50"]], **more)
    if metrics["images_per_s"]:
        yield _measured(labels, THROUGHPUT, "items/s", [metrics["images_per_s"]], **more)


def _score(directory: Path) -> Iterator[RunFigure]:
    found = read_document(directory / "metrics.json", ScoreMetrics)
    ran = {**found.provenance, "backend": found.backend}
    yield RunFigure(
        (found.score.value,),
        *(found.score.ci95 or (None, None)),
        labels=_of_model({"path": found.model}, ran, found.settings["precision"]),
        name=found.figure,
        unit="",
        smaller_is_better=found.better == "lower",
        basis=json.dumps((found.data_sha256, found.settings), sort_keys=True),
        model_sha256=found.model_sha256,
    )


def _llm(directory: Path) -> Iterator[RunFigure]:
    metrics = read_document(directory / "metrics.json", LlmMetrics)
    data = (metrics["text"]["sha256"], metrics["tokens"], metrics["recipe"]["text"])
    more = {"basis": json.dumps(data), "model_sha256": metrics["model"]["sha256"]}
    for row in metrics["backends"]:
        labels = _of_model(metrics["model"], row, row["precision"])
        for name, smaller in (("perplexity", True), ("top1_agreement", False)):
            value: float | None = row[name]  # type: ignore[literal-required]
            if value is not None:
                yield RunFigure((value,), labels=labels, name=name, unit="", smaller_is_better=smaller, **more)


def _of_model(model: Mapping[str, Any], row: Mapping[str, Any], asked: str | None) -> dict[str, str]:
    precision = precision_label(row) or asked or "as exported"
    return {"model": Path(model["path"]).stem, "runtime": row["backend"], "precision": precision}


READERS: dict[str, Callable[[Path], Iterator[RunFigure]]] = {
    "bench": _bench,
    "eval-coco": _coco,
    "eval-vision": _score,
    "eval-llm": _llm,
    "upgrade": _upgrade,
}
"""What reads the figures of a run, by the command whose runs have some to follow."""
