import itertools
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import refused
from tests.unit.vision.test_coco_scores import CATEGORIES
from tests.unit.vision.yolo_heads import SIZE, drawn, output_of

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes, Place
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import DecodeSettings, Family, recognise
from trt_workbench.vision.feed import arrays_of
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.measure import ROTATED
from trt_workbench.vision.rotated import RotatedBoxes, overlaps, probabilistic_iou, rotated_nms
from trt_workbench.vision.scores import score_detections
from trt_workbench.vision.tasks.registry import task_of


def boxes(rng: np.random.Generator, count: int) -> Any:
    return np.column_stack(
        [rng.uniform(0, 112, (count, 2)), rng.uniform(2, 60, (count, 2)), rng.uniform(-1, 2.4, count)]
    )


def family(output: tuple[int, ...]) -> Family:
    images = TensorSpec("images", "float32", (None, 3, *SIZE))
    metadata = {"task": "obb", "names": "['plane', 'ship']"}
    return recognise([images], [TensorSpec("output0", "float32", output)], metadata)


def rows(rng: np.random.Generator, batch: int, *, end_to_end: bool) -> Any:
    placed = drawn(rng, batch, end_to_end=end_to_end)
    angles = rng.uniform(-1, 2.4, (*placed.shape[:2], 1))
    return output_of(rng, placed, angles, 2, end_to_end=end_to_end, corners=False)


@pytest.mark.parametrize(("end_to_end", "name"), [(False, "yolov8-obb"), (True, "yolov10-obb")])
def test_rotated_boxes_are_those_of_ultralytics(end_to_end: bool, name: str) -> None:
    pytest.importorskip("ultralytics", reason="the exporter's own functions")
    torch = pytest.importorskip("torch")
    from ultralytics.utils import nms, ops

    rng = np.random.default_rng(3)
    for batch, size in itertools.product((1, 3), ((180, 240), (333, 250))):
        output = rows(rng, batch, end_to_end=end_to_end)
        found = family((None, *output.shape[1:]))
        assert (found.name, found.task, found.class_count) == (name, "rotated", 2)
        geometry = find_geometry(*size, found.transform())
        options = {"multi_label": True, "max_det": 300, "nc": 2, "end2end": end_to_end, "rotated": True}
        expected = nms.non_max_suppression(torch.tensor(output), 0.001, 0.7, **options)
        for one, theirs in zip(found.decode({"output0": output}), expected, strict=True):
            own = found.restore(one, geometry)
            theirs = theirs[torch.argsort(-theirs[:, 4], stable=True)]
            ratio_pad = ((geometry.scale_y, geometry.scale_x), (geometry.left, geometry.top))
            turned = torch.cat([theirs[:, :4], theirs[:, -1:]], dim=-1)
            turned = ops.scale_boxes(SIZE, turned, size, ratio_pad=ratio_pad, xywh=True)
            assert own.labels.tolist() == theirs[:, 5].tolist()
            assert isinstance(own.extra, RotatedBoxes)
            np.testing.assert_allclose(own.extra.boxes, turned.numpy(), rtol=1e-5, atol=1e-4)
            corners = ops.xywhr2xyxyxyxy(turned).numpy()
            np.testing.assert_allclose(own.extra.corners(), corners, rtol=1e-5, atol=1e-3)


def test_rotated_boxes_of_a_device_are_those_of_the_processor() -> None:
    rng = np.random.default_rng(4)
    output = rows(rng, 2, end_to_end=True)
    found, shapes = family((None, *output.shape[1:])), {"output0": output.shape}
    head = found.head(shapes, DecodeSettings())
    assert head is not None
    assert (head.boxes.first, head.more, head.values) == (0, Place("output0", 6, 7), 1)
    for image, theirs in zip(output, found.decode({"output0": output}), strict=True):
        best = image[np.argsort(-image[:, 4], kind="stable")]
        one = FoundBoxes(best[:, :4], best[:, 4], best[:, 5].astype(np.int64), best[:, 6:])
        (ours,) = found.completed([one])
        assert all(np.array_equal(*pair) for pair in zip(arrays_of(ours), arrays_of(theirs), strict=True))
        one.boxes[:1] = 3e38  # whose corners are beyond float32
        with np.errstate(over="ignore", invalid="ignore"), pytest.raises(NotFinite):
            found.completed([one])
    raw = rows(rng, 1, end_to_end=False)
    assert family((None, *raw.shape[1:])).head({"output0": raw.shape}, DecodeSettings()) is None


@pytest.mark.parametrize("block", [7, 1024])
def test_a_better_box_drops_what_resembles_it(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_workbench.vision.rotated._BLOCK", block)
    rng = np.random.default_rng(1)
    made, labels = boxes(rng, 120).astype(np.float32), rng.integers(0, 2, 120)
    scores = rng.choice([0.2, 0.4, 0.6, 0.8], 120).astype(np.float32)
    order, alike = np.argsort(-scores, kind="stable"), probabilistic_iou(made, made) > 0.3
    better = [[other for other in order[:place] if labels[other] == labels[one]] for place, one in enumerate(order)]
    expected = [one for one, others in zip(order, better, strict=True) if not alike[others, one].any()]
    assert 0 < len(expected) < 110
    for limit in (300, 5):
        assert rotated_nms(made, scores, labels, 0.3, limit).tolist() == expected[:limit]


def test_probabilistic_iou_is_that_of_the_paper() -> None:
    """Two Gaussians of one covariance, apart by d along it: the Bhattacharyya distance is d² / (8 σ²)."""
    box, width = np.array([[50, 50, 24, 10, 0.3]], np.float32), 24
    moved = box + np.array([[6 * np.cos(0.3), 6 * np.sin(0.3), 0, 0, 0]], np.float32)
    distance = 6**2 / (8 * width**2 / 12)
    assert probabilistic_iou(box, box)[0, 0] == pytest.approx(1, abs=1e-3)
    assert probabilistic_iou(box, moved)[0, 0] == pytest.approx(1 - np.sqrt(1 - np.exp(-distance)), abs=1e-4)


@given(seed=st.integers(0, 2**32 - 1))
def test_shared_areas_are_those_of_polygons(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = boxes(rng, 6), boxes(rng, 5)
    found = overlaps(RotatedBoxes(one), RotatedBoxes(other), np.array([False] * 4 + [True]))
    for (row, a), (column, b) in itertools.product(enumerate(one), enumerate(other)):
        crossing = cv2.intersectConvexConvex(
            *(RotatedBoxes(box[None]).corners()[0].astype(np.float32) for box in (a, b))
        )
        whole = a[2] * a[3] + (0 if column == 4 else b[2] * b[3] - crossing[0])
        assert found[row, column] == pytest.approx(crossing[0] / whole, abs=1e-3)


def test_boxes_on_one_another_overlap_wholly() -> None:
    box = np.array([[30, 40, 20, 10, 0.7], [30, 40, 10, 20, 0.7 + np.pi / 2], [30, 40, 0, 0, 0], [90, 90, 5, 5, 0]])
    found = overlaps(RotatedBoxes(box), RotatedBoxes(box), np.zeros(4, np.bool_))
    np.testing.assert_allclose(found[:2, :2], 1, rtol=1e-12)
    assert (found[2], found[:3, 3].any()) == (pytest.approx(np.zeros(4)), False)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 30), extra=st.integers(0, 200), images=st.integers(1, 4))
def test_figures_and_their_intervals_are_of_one_matching(seed: int, count: int, extra: int, images: int) -> None:
    rng = np.random.default_rng(seed)
    made = boxes(rng, count)
    ids, classes = rng.integers(1, images + 1, count), rng.choice([1, 5], count)
    plain = np.ones((count, 4))
    truth = GroundTruth(ids, classes, plain, made[:, 2] * made[:, 3], rng.random(count) < 0.1, RotatedBoxes(made))
    near = np.concatenate([made + rng.normal(0, [2, 2, 2, 2, 0.1], made.shape), boxes(rng, extra)])
    near[:, 2:4] = np.abs(near[:, 2:4])
    table = DetectionTable(
        np.concatenate([ids, rng.integers(1, images + 1, extra)]),
        np.concatenate([classes, rng.choice([1, 5], extra)]),
        np.ones((len(near), 4), np.float32),
        rng.choice([0.2, 0.5, 0.8], len(near)).astype(np.float32),
        RotatedBoxes(near.astype(np.float32)),
    )
    order = np.argsort(table.image_ids, kind="stable")
    table = DetectionTable(*(column[order] for column in list(vars(table).values())[:4]), table.extra.take(order))  # type: ignore[union-attr]
    scores = score_detections(truth, CATEGORIES, table, ROTATED)
    CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, table, ROTATED).require_agreement(scores.figures)


def test_corners_are_read_and_written() -> None:
    corners = [10.0, 10, 30, 30, 20, 40, 0, 20]
    found = task_of("rotated").truth([{"segmentation": [corners]}], [(None, None)])
    assert isinstance(found, RotatedBoxes)
    assert found.areas() == pytest.approx([np.hypot(20, 20) * np.hypot(10, 10)], rel=1e-5)
    assert found.enclosing() == pytest.approx(np.array([[0, 10, 30, 40]]), abs=1e-3)
    (entry,) = found.entries(slice(None))
    again = task_of("rotated").found([entry])
    assert isinstance(again, RotatedBoxes)
    np.testing.assert_allclose(again.boxes, found.boxes, rtol=1e-6)
    sides = {tuple(np.round(one, 3)) for one in np.reshape(entry["segmentation"], (4, 2))}
    assert sides == {(10, 10), (30, 30), (20, 40), (0, 20)}


@pytest.mark.parametrize(
    ("segment", "why"),
    [
        (None, "annotation 7 has no segmentation, only a box"),
        ({"size": [1, 1], "counts": "1"}, "not one polygon"),
        ([[1, 2, 3, 4, 5, 6, 7, 8]] * 2, "not one polygon"),
        ([[1, 2, 3, 4, 5, 6]], "a polygon of 3 points; a rotated box has four corners"),
        ([[1, 2, 3, 4, 5, 6, 7, 8, 9]], "a polygon that is not x1, y1, x2, y2"),
        ([[1, 2, 3, 4, 5, 6, 7, "8"]], "as numbers"),
        ([[1, 2, 3, 4, 5, 6, 7, 1e300]], r"up to 2\^24"),
    ],
)
def test_what_is_no_rotated_box_is_refused(segment: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        task_of("rotated").truth([{"id": 7, "segmentation": segment}], [(20, 10)])


def test_angles_in_degrees_are_refused() -> None:
    output = rows(np.random.default_rng(0), 1, end_to_end=True)
    output[..., 6] = np.linspace(-90, 90, 40)
    with refused(UsageProblem):
        family((None, 40, 7)).decode({"output0": output})
