from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.tasks.registry import task_in


def metrics(task: Any, *lacking: str) -> dict[str, Any]:
    figures = {name: 0.5 for name in ("AP", "AP50", "mask_AP", "mask_AP50") if name not in lacking}
    return {"model": {} if task is None else {"task": task}, "per_class": [dict(figures)], **figures}


def test_a_run_without_a_task_is_of_boxes() -> None:
    assert task_in(metrics(None)).name == "boxes"
    assert task_in(metrics("masks")).decided_by == "mask_AP"


@pytest.mark.parametrize("given", [metrics("depth"), metrics(["masks"]), metrics("masks", "mask_AP50")])
def test_a_changed_run_is_refused(given: dict[str, Any]) -> None:
    with refused(UsageProblem):
        task_in(given)
