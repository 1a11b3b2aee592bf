"""Boxes that a family which does not fit the model makes of its output."""

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families import DecodeSettings, recognise
from trt_workbench.vision.plausible import BoxCheck, decoded

SIZE = 64
IMAGE = TensorSpec("images", "float32", (1, 3, SIZE, SIZE))


def run(family: str, rows: np.ndarray, images: int = 1) -> None:
    """Decode rows [K, 6] as `family` would and judge them."""
    found = recognise([IMAGE], [TensorSpec("out", "float32", (1, None, 6))], {}, Preparation(family=family))
    check = BoxCheck(found)
    outputs = {"out": rows[None].astype(np.float32)}
    for _ in range(images):
        check.add(decoded(found, outputs, DecodeSettings()), outputs)
    check.finish()


def rows(count: int, low: float, high: float, seed: int = 0) -> np.ndarray:
    """Rows of centre, size, score, class with centres and sizes from low to high."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(low, high, (count, 4)), rng.uniform(0.1, 1, count), rng.integers(0, 3, count)])


def centred(count: int, seed: int = 0) -> np.ndarray:
    """Rows of objects inside of an image: centre and size as shares of it."""
    made = rows(count, 0.1, 0.9, seed)
    made[:, 2:4] *= 2 * np.minimum(made[:, :2], 1 - made[:, :2])
    return made


def as_corners(made: np.ndarray) -> np.ndarray:
    centre, half = made[:, :2], made[:, 2:4] / 2
    return np.column_stack([centre - half, centre + half, made[:, 4:]])


@pytest.mark.parametrize("count", [3, 7, 300])
def test_shares_taken_for_pixels(count: int) -> None:
    with refused(UsageProblem):
        run("yolov10", centred(count))


@pytest.mark.parametrize("seed", range(5))
def test_corners_as_shares_are_not_sent_to_a_family_that_makes_nonsense_of_them(seed: int) -> None:
    with refused(UsageProblem) as caught:
        run("yolov10", as_corners(centred(40, seed)))
    assert "--family" not in str(caught.value)


def test_pixels_taken_for_shares() -> None:
    boxes = centred(300)
    boxes[:, :4] *= SIZE
    with refused(UsageProblem):
        run("detr", np.column_stack([as_corners(boxes)]))


def test_centre_and_size_in_pixels_taken_for_corners() -> None:
    boxes = centred(300)
    boxes[:, :4] *= SIZE
    with refused(UsageProblem):  # none of ours reads such rows
        run("yolov10", boxes)


def test_neither_form() -> None:
    with refused(UsageProblem):
        run("detr", rows(300, 400, 6000))


@pytest.mark.parametrize("images", [1, 100])
def test_a_tiny_object_and_one_wild_box_are_plausible(images: int) -> None:
    boxes = np.array([[40, 40, 41, 41, 0.9, 0], [10, 10, 50, 50, 0.9, 0], [3e4, 0, 3e4, 2, 0.1, 1]])
    run("yolov10", boxes, images)
    run("yolov10", boxes[:1], images)
    run("yolov10", boxes[:0], images)
    run("detr", rows(30, 0.05, 0.95), images)


def test_a_verdict_is_not_passed_before_there_are_boxes_enough() -> None:
    """The first image of a dataset may be odd: 49 boxes in the corner, then usual ones."""
    found = recognise([IMAGE], [TensorSpec("out", "float32", (1, None, 6))], {}, Preparation(family="yolov10"))
    check = BoxCheck(found)
    corner, usual = np.tile([0, 0, 1, 1, 0.9, 0], (49, 1)), np.tile([8, 8, 40, 40, 0.9, 0], (5, 1))
    for part in (corner, usual):
        outputs = {"out": part[None].astype(np.float32)}
        check.add(decoded(found, outputs, DecodeSettings()), outputs)
    check.finish()


def test_a_refusal_of_values_names_families_that_were_tried() -> None:
    """Rows of corners, class, score; and RT-DETR's older rows of one score a class, read as corners, score, class."""
    swapped = as_corners(centred(30))[:, [0, 1, 2, 3, 5, 4]]
    swapped[:, :4] *= SIZE
    with refused(UsageProblem):
        run("yolov10", swapped)
    scores = np.array([[0.9, 0.1], [0.2, 0.7]])[np.arange(300) % 2]
    outputs = {"out": np.column_stack([centred(300)[:, :4], scores])[None].astype(np.float32)}
    named = {"names": "['a', 'b']"}
    wrong = recognise([IMAGE], [TensorSpec("out", "float32", (1, None, 6))], named, Preparation(family="yolov10"))
    with refused(UsageProblem):
        decoded(wrong, outputs, DecodeSettings())
