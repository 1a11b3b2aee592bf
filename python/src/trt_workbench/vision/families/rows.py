"""Rows of six values that end in score and class, as end-to-end heads give them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import Family


def row_detections(
    family: Family, image: NDArray[np.float32], conf: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Return the rows [M, 6] of one image with a score above `conf`, their scores [M] and classes [M].

    Args:
        family: for its class count, and for messages.
        image: float32 [K, 6].
        conf: threshold.

    Raises:
        UsageProblem: the rows are not of six values, or the last two are no scores and classes.
        CheckFailed: a score is NaN or infinite.
    """
    name, output = family.name, family.output
    if image.shape[1] != 6:
        raise UsageProblem(
            f"Output {output.name} has rows of {image.shape[1]} values; {name} takes {family.shape_text}."
        )
    family.check_scores(image[:, 4])
    rows = image.compress(image[:, 4] > conf, axis=0)
    classes = rows[:, 5]
    labels = classes.astype(np.int64)
    if not (labels == classes).all() or labels.min(initial=0) < 0:
        raise UsageProblem(
            f"The sixth column of output {output} does not hold classes (it has {classes[labels != classes][:1]}); "
            f"family {name} takes {family.shape_text}."
        )
    if family.class_count is not None and labels.max(initial=0) >= family.class_count:
        raise UsageProblem(
            f"Output {output} holds class {labels.max()}, but the model names {family.class_count} classes."
        )
    return rows, rows[:, 4], labels
