"""The tasks by their names."""

from __future__ import annotations

from trt_workbench.vision.tasks.base import Task
from trt_workbench.vision.tasks.boxes import Boxes
from trt_workbench.vision.tasks.keypoints import Poses
from trt_workbench.vision.tasks.masks import InstanceMasks
from trt_workbench.vision.tasks.rotated import OrientedBoxes

_TASKS: dict[str, Task] = {task.name: task for task in (Boxes(), InstanceMasks(), Poses(), OrientedBoxes())}


def task_of(name: str) -> Task:
    """Return the task of a family or a run; "boxes" of runs that do not name one."""
    return _TASKS[name]
