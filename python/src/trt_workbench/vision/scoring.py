"""What was found on images, scored and written: of one process, or of shards that are put together.

docs/reference/run-directory.md describes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.core.statistics.summary import summarize
from trt_workbench.vision.confusion import Confusion, confuse
from trt_workbench.vision.dataset import CocoDataset
from trt_workbench.vision.dataset_check import check_found
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detections import DetectionTable, join_predictions, write_predictions
from trt_workbench.vision.document import FIGURES, STAGES
from trt_workbench.vision.error_kinds import KINDS
from trt_workbench.vision.faults import find_faults
from trt_workbench.vision.figures import Measure, Scores
from trt_workbench.vision.loop import LoopResult
from trt_workbench.vision.matches import ResampledFigures, Verdicts
from trt_workbench.vision.operating import Operating, curves, figures_at, operate
from trt_workbench.vision.settings import SCORE_THRESHOLD
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.registry import task_of


@dataclass(frozen=True)
class Judged:
    """The scores of a run.

    Attributes:
        task: of the model.
        measures: of the task on the data set.
        scores: by each measure, in their order.
        resampled: the same of resamples.
        operating: figures at the threshold by the first measure, of all categories; None where none decides.
        by_class: the same of each.
        by_threshold: what their pictures are drawn of.
    """

    task: VisionTask
    measures: tuple[Measure, ...]
    scores: tuple[Scores, ...]
    resampled: tuple[ResampledFigures, ...]
    operating: Operating | None
    by_class: tuple[dict[str, float | None], ...]
    by_threshold: dict[str, Any]

    @property
    def figures(self) -> dict[str, float | None]:
        """The figures by their names in metrics.json."""
        return dict(self._prefixed(lambda scores, _: scores.figures))

    def document(self) -> dict[str, Any]:
        """Return the part of metrics.json that is of scores."""
        intervals = dict(self._prefixed(lambda scores, resampled: resampled.intervals(scores.figures)))
        absent = {name: None for name in FIGURES if name not in self.figures}  # of a task or data set without them
        scored = {**self.figures, **absent, **intervals, **(self.operating.document() if self.operating else {})}
        return {**scored, "resamples": len(self.resampled[0].by_class)}

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category."""
        rows: list[dict[str, Any]] = [{} for _ in self.scores[0].categories]
        for measure, scores, resampled in zip(self.measures, self.scores, self.resampled, strict=True):
            classes, main = scores.per_class(), measure.main
            ends = resampled.class_intervals(row[main[0]] for row in classes)
            for row, found, interval in zip(rows, classes, ends, strict=True):
                own = {**{name: found.pop(name) for name in main}, f"{main[0]}_ci95": interval}
                row.update({**found, **{f"{measure.prefix}{name}": value for name, value in own.items()}})
        for row, at in zip(rows, self.by_class, strict=True):
            row.update(at)
        return rows

    def curves(self) -> dict[str, Any]:
        """Return the curves of what the task is decided by, and those of the threshold."""
        return {"of": self.measures[-1].words, **self.scores[-1].curves(), **self.by_threshold}

    def _prefixed(self, named: Callable[[Scores, ResampledFigures], dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        for measure, scores, resampled in zip(self.measures, self.scores, self.resampled, strict=True):
            yield from ((f"{measure.prefix}{name}", value) for name, value in named(scores, resampled).items())


def judge(
    task: VisionTask,
    image_ids: NDArray[np.int64],
    dataset: CocoDataset,
    detections: DetectionTable,
    seed: int,
    threshold: float = SCORE_THRESHOLD,
) -> Judged:
    """Score detections by every measure of a task.

    Args:
        task: of the model.
        image_ids: int64 [N], ascending: the images that were evaluated.
        dataset: cut down to them.
        detections: of them.
        seed: of the resamples.
        threshold: score that the model is shipped with.
    """
    scores, resampled, verdicts = [], [], None
    counts = draw_counts(len(image_ids), seed)
    for measure in task.measures:
        found, matches = measure.both(image_ids, dataset.truth, dataset.categories, detections)
        if measure.exact:
            matches.require_agreement(found.figures)
        scores.append(found)
        resampled.append(matches.figures(counts))
        verdicts = verdicts or matches.verdicts()
    if verdicts is None:
        return Judged(task, task.measures, tuple(scores), tuple(resampled), None, ({},) * len(dataset.categories), {})
    pooled, by_class = Verdicts.joined(verdicts), [figures_at(one, threshold, len(image_ids)) for one in verdicts]
    operating, drawn = operate(pooled, threshold, counts), curves(pooled, threshold)
    return Judged(task, task.measures, tuple(scores), tuple(resampled), operating, tuple(by_class), drawn)


NOTHING: Final = "The model detected nothing"
"""What a note begins with that holds only as long as no other images have detections."""


@dataclass(frozen=True)
class CocoOutcome:
    """How an evaluation ended: "partial" if images are not done, and the content of `metrics.json`.

    A shard has no scores: that of `run.json`.
    """

    status: Literal["complete", "partial"]
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What was found.

    Attributes:
        done: int64 [N], ids of the images that are done, ascending.
        result: over all images that were asked for.
        detections: of those that are done.
        read: what was noticed when they were read.
        notes: what else the user should know, in sentences.
        texts: files that hold the detections as `predictions.json` does, in their order; none of one process.
    """

    done: NDArray[np.int64]
    result: LoopResult
    detections: DetectionTable
    read: ImageReader
    notes: list[str] = field(default_factory=list)
    texts: tuple[Path, ...] = ()


def score(folder: Path, whole: CocoDataset, found: Found, facts: Mapping[str, Any]) -> CocoOutcome:
    """Score what was found, and write the run's files into `folder`.

    Args:
        folder: an existing folder.
        whole: the data set that was asked for.
        found: on its images.
        facts: what was asked and chosen.

    Raises:
        UsageProblem: annotations do not fit the images or what was found, or a file cannot be written.
    """
    settings, task = facts["settings"], task_of(facts["model"]["task"])
    dataset, detections, result = whole.subset(found.done), found.detections, found.result
    sizes = {int(key): (int(h), int(w)) for key, (h, w) in zip(found.done, result.sizes[result.done], strict=True)}
    task.require_sizes(dataset.truth, sizes)
    at = settings["threshold"]
    judged = judge(task, found.done, dataset, detections, settings["seed"], at)
    measure = judged.measures[0]
    scored, shown = measure.scored(dataset.truth, detections), at if measure.by_score else 0.0
    confusion = confuse(found.done, dataset.categories, dataset.truth, scored, measure, threshold=shown)
    ap50 = {one: scores.figures.get("AP50") for one, scores in zip(judged.measures, judged.scores, strict=True)}
    notes = [*facts["notes"], *found.read.notes(), *found.notes]
    notes += check_found(dataset, sizes, detections, confusion, ap50, turned=found.read.ignored)
    status: Literal["complete", "partial"] = "complete" if result.done.all() else "partial"
    facts = {"status": status, **facts, "notes": notes}
    if faults := find_faults(dataset, sizes):
        facts["faults"] = faults
    return CocoOutcome(status, write_run(folder, dataset, found, judged, confusion, facts))


def write_run(
    folder: Path,
    dataset: CocoDataset,
    found: Found,
    judged: Judged,
    confusion: Confusion,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write `predictions.json`, `records.jsonl`, `curves.json`, `confusion.json` and `metrics.json`.

    Args:
        folder: an existing folder.
        dataset: cut down to the images that were done.
        found: on these images.
        judged: the scores of the detections.
        confusion: of the images that were done.
        facts: what was asked and chosen.

    Returns:
        The content of `metrics.json`.

    Raises:
        UsageProblem: a file cannot be written.
    """
    result, detections = found.result, found.detections
    metrics = _metrics(dataset, result, len(detections), judged, facts)
    if (facts["precision_ran"] or {}).get("simulated"):  # times are not those of the format
        metrics |= {"images_per_s": None, "latency_ms": None}
    try:
        if found.texts:
            join_predictions(folder / "predictions.json", found.texts)
        else:
            write_predictions(folder / "predictions.json", detections)
        append_lines(folder / "records.jsonl", _records(dataset, result, confusion))
        write_json(folder / "curves.json", {"schema_version": 1, **judged.curves()})
        write_json(folder / "confusion.json", {"schema_version": 1, **confusion.document()})
        write_json(folder / "metrics.json", metrics)
    except OSError as error:
        raise UsageProblem(
            f"The run's files cannot be written ({error.strerror}); fix that or pass --output: {folder}"
        ) from error
    return metrics


def _metrics(
    dataset: CocoDataset,
    result: LoopResult,
    detections: int,
    judged: Judged,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    stages = result.stage_ms[result.done]
    latency = {stage: summarize(stages[:, column].tolist()) for column, stage in enumerate(STAGES)}
    latency["total"] = summarize(stages.sum(axis=1).tolist())
    return {
        "schema_version": 1,
        **facts,
        **judged.document(),
        "images": len(dataset.images),
        "images_requested": len(result.done),
        "images_per_s": len(dataset.images) / result.wall_s,
        "wall_s": result.wall_s,
        "latency_ms": latency,
        "detections": detections,
        "per_class": judged.per_class(),
        "dataset": {
            "images": str(dataset.folder.absolute()),
            "annotations": str(dataset.annotations.absolute()),
            "annotations_sha256": dataset.sha256,
            "missing": list(dataset.missing),
            **({"split": dataset.split} if dataset.split else {}),
        },
    }


def _records(dataset: CocoDataset, result: LoopResult, confusion: Confusion) -> Iterator[dict[str, Any]]:
    counts = ("detections", "ground_truths", "true_positives", "false_positives", "false_negatives")
    for place, (image, row) in enumerate(zip(dataset.images, np.flatnonzero(result.done), strict=True)):
        stages = result.stage_ms[row].tolist()
        yield {
            "schema_version": 1,
            "image_id": image.id,
            "file_name": image.file_name,
            "width": int(result.sizes[row, 1]),
            "height": int(result.sizes[row, 0]),
            **{f"{stage}_ms": value for stage, value in zip(STAGES, stages, strict=True)},
            "total_ms": float(sum(stages)),
            **dict(zip(counts, confusion.counts[place].tolist(), strict=True)),
            "errors": dict(zip(KINDS, confusion.errors[place].tolist(), strict=True)),
            "wrong": confusion.wrong[place],
            "missed": confusion.missed[place],
        }
