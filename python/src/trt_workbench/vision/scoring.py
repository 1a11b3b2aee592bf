"""What was found on images, scored and written: of one process, or of shards that are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import CocoDataset
from trt_workbench.vision.dataset_check import check_found
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.faults import find_faults
from trt_workbench.vision.files import write_run
from trt_workbench.vision.judged import judge
from trt_workbench.vision.loop import LoopResult
from trt_workbench.vision.tasks.registry import task_of

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
