"""The scores of a run by every measure of its task, as metrics.json and curves.json have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.vision.dataset import CocoDataset
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.document import FIGURES
from trt_workbench.vision.lvis import measures_of
from trt_workbench.vision.matches import CocoMatches, ResampledFigures
from trt_workbench.vision.measure import Measure
from trt_workbench.vision.scores import CocoScores, score_detections
from trt_workbench.vision.tasks.base import Task


@dataclass(frozen=True)
class Judged:
    """Scores and resampled figures of each measure of a task, in their order."""

    task: Task
    measures: tuple[Measure, ...]
    scores: tuple[CocoScores, ...]
    resampled: tuple[ResampledFigures, ...]

    @property
    def figures(self) -> dict[str, float | None]:
        """The figures by their names in metrics.json."""
        return dict(self._prefixed(lambda scores, _: scores.figures))

    def document(self) -> dict[str, Any]:
        """Return the part of metrics.json that is of scores."""
        intervals = dict(self._prefixed(lambda scores, resampled: resampled.intervals(scores.figures)))
        absent = {name: None for name in FIGURES if name not in self.figures}  # of a task or data set without them
        return {**self.figures, **absent, **intervals, "resamples": len(self.resampled[0].class_ap)}

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category."""
        rows: list[dict[str, Any]] = [{} for _ in self.scores[0].categories]
        for measure, scores, resampled in zip(self.measures, self.scores, self.resampled, strict=True):
            classes = scores.per_class()
            ends = resampled.class_intervals(row["AP"] for row in classes)
            for row, found, interval in zip(rows, classes, ends, strict=True):
                own = {"AP": found.pop("AP"), "AP50": found.pop("AP50"), "AP_ci95": interval}
                row.update({**found, **{f"{measure.prefix}{name}": value for name, value in own.items()}})
        return rows

    def curves(self) -> dict[str, Any]:
        """Return the curves of what the task is decided by."""
        return {"of": self.measures[-1].words, **self.scores[-1].curves()}

    def _prefixed(self, named: Callable[[CocoScores, ResampledFigures], dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        for measure, scores, resampled in zip(self.measures, self.scores, self.resampled, strict=True):
            yield from ((f"{measure.prefix}{name}", value) for name, value in named(scores, resampled).items())


def judge(
    task: Task, image_ids: NDArray[np.int64], dataset: CocoDataset, detections: DetectionTable, seed: int
) -> Judged:
    """Score detections by every measure of a task.

    Args:
        task: of the model.
        image_ids: int64 [N], ascending: the images that were evaluated.
        dataset: cut down to them.
        detections: of them.
        seed: of the resamples.
    """
    scores, resampled = [], []
    counts = draw_counts(len(image_ids), seed)
    measures = measures_of(task, dataset)
    for measure in measures:
        found = score_detections(dataset.truth, dataset.categories, detections, measure)
        matches = CocoMatches(image_ids, dataset.truth, dataset.categories, detections, measure)
        if measure.exact:
            matches.require_agreement(found.figures)
        scores.append(found)
        resampled.append(matches.figures(counts))
    return Judged(task, measures, tuple(scores), tuple(resampled))
