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
from trt_workbench.vision.figures import Measure, Scores
from trt_workbench.vision.matches import ResampledFigures, Verdicts
from trt_workbench.vision.operating import Operating, curves, figures_at, operate
from trt_workbench.vision.settings import SCORE_THRESHOLD
from trt_workbench.vision.tasks.base import VisionTask


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
