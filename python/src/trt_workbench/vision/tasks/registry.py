"""The tasks by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.document import OPERATING
from trt_workbench.vision.extras import TaskName
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.classes import ImageClasses
from trt_workbench.vision.tasks.keypoints import Poses
from trt_workbench.vision.tasks.masks import InstanceMasks
from trt_workbench.vision.tasks.rotated import OrientedBoxes
from trt_workbench.vision.tasks.semantic import SemanticMasks


class Boxes(VisionTask):
    """Boxes alone."""

    name: ClassVar[TaskName] = "boxes"
    words: ClassVar[str] = "detection"
    measures: ClassVar[tuple[Measure, ...]] = (BOXES,)


_ALL: tuple[VisionTask, ...] = (Boxes(), InstanceMasks(), Poses(), OrientedBoxes(), ImageClasses(), SemanticMasks())
_TASKS: dict[str, VisionTask] = {task.name: task for task in _ALL}


def task_of(name: str) -> VisionTask:
    """Return the task of a family."""
    return _TASKS[name]


def figure_names(*of: VisionTask) -> list[str]:
    """Return every figure that a metrics.json can have, of some tasks or of all."""
    names = [name for task in of or _ALL for name in task.figures]
    at_threshold = OPERATING if any(one.by_score for task in of or _ALL for one in task.measures) else ()
    return list(dict.fromkeys([*names, *at_threshold, "images_per_s"]))


def task_in(metrics: Mapping[str, Any]) -> VisionTask:
    """Return the task of a run by its metrics.json; boxes of a run that names none.

    Raises:
        UsageProblem: there is no such task, or figures of it are absent.
    """
    name = metrics["model"].get("task", Boxes.name)
    if not isinstance(name, str) or name not in _TASKS:
        raise UsageProblem(f"metrics.json names the task {name!r:.40}, which this release does not know.")
    task = _TASKS[name]
    needed = [f"{one.prefix}{figure}" for one in task.measures for figure in one.main]
    if lacking := [one for one in needed for row in (metrics, *metrics["per_class"]) if one not in row]:
        raise UsageProblem(f"metrics.json is damaged: it lacks {lacking[0]} of a model for {task.words}.")
    return task
