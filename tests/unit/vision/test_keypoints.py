import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import refused
from tests.unit.vision.coco_reference import pycocotools
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth
from tests.unit.vision.yolo_heads import SIZE, drawn, output_of

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.keypoints import Keypoints
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.measure import KEYPOINTS
from trt_workbench.vision.scores import score_detections
from trt_workbench.vision.tasks.registry import task_of


def family(output: tuple[int, ...], **metadata: str) -> Family:
    given_ = {"task": "pose", "names": "['person', 'horse']", "kpt_shape": "[17, 3]", **metadata}
    images = TensorSpec("images", "float32", (None, 3, *SIZE))
    return recognise([images], [TensorSpec("output0", "float32", output)], given_)


def rows(rng: np.random.Generator, batch: int, values: int, *, end_to_end: bool) -> Any:
    boxes = drawn(rng, batch, end_to_end=end_to_end)
    return output_of(rng, boxes, rng.uniform(-10, 130, (*boxes.shape[:2], values)), 2, end_to_end=end_to_end)


@pytest.mark.parametrize(("end_to_end", "name"), [(False, "yolov8-pose"), (True, "yolov10-pose")])
@pytest.mark.parametrize("shape", [(17, 3), (5, 2)])
def test_keypoints_are_those_of_ultralytics(end_to_end: bool, name: str, shape: tuple[int, int]) -> None:
    pytest.importorskip("ultralytics", reason="the exporter's own functions")
    torch = pytest.importorskip("torch")
    from ultralytics.utils import nms, ops

    rng = np.random.default_rng(3)
    for batch, size in itertools.product((1, 3), ((180, 240), (333, 250))):
        output = rows(rng, batch, shape[0] * shape[1], end_to_end=end_to_end)
        found = family((None, *output.shape[1:]), kpt_shape=str([*shape]))
        assert (found.name, found.task, found.class_count) == (name, "keypoints", 2)
        geometry = find_geometry(*size, found.transform())
        options = {"multi_label": True, "max_det": 300, "nc": 2, "end2end": end_to_end}
        for one, theirs in zip(
            found.decode({"output0": output}),
            nms.non_max_suppression(torch.tensor(output), 0.001, 0.7, **options),
            strict=True,
        ):
            own = found.restore(one, geometry)
            expected = theirs[torch.argsort(-theirs[:, 4], stable=True)]
            ratio_pad = ((geometry.scale_y, geometry.scale_x), (geometry.left, geometry.top))
            points = ops.scale_coords(SIZE, expected[:, 6:].view(-1, *shape), size, ratio_pad=ratio_pad).numpy()
            assert own.labels.tolist() == expected[:, 5].tolist()
            assert isinstance(own.extra, Keypoints)
            np.testing.assert_allclose(own.extra.points[..., : shape[1]], points, rtol=1e-5, atol=1e-4)
            assert shape[1] == 3 or (own.extra.points[..., 2] == 1).all()


def test_points_come_back_to_the_image_and_stay_in_it() -> None:
    found, size = family((None, 40, 57)), (180, 240)
    geometry = find_geometry(*size, found.transform())
    points = np.random.default_rng(0).uniform(-30, 250, (40, 17, 3)).astype(np.float32)
    placed = points * [geometry.scale_x, geometry.scale_y, 1] + [geometry.left, geometry.top, 0]
    output = np.zeros((1, 40, 57), np.float32)
    output[0, :, 4], output[0, :, 6:] = np.linspace(0.9, 0.1, 40), placed.reshape(40, -1)
    (one,) = found.decode({"output0": output})
    own = found.restore(one, geometry).extra
    assert isinstance(own, Keypoints)
    np.testing.assert_allclose(own.points, points.clip([0, 0, -np.inf], [240, 180, np.inf]), atol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_points_that_are_no_numbers_are_an_error(value: float) -> None:
    output = rows(np.random.default_rng(0), 1, 51, end_to_end=True)
    output[0, 3, 20] = value
    with pytest.raises(NotFinite, match="output0"):
        family((None, 40, 57)).decode({"output0": output})


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 30),
    extra=st.integers(1, 90),
    images=st.integers(1, 5),
    points=st.sampled_from([17, 17, 5]),
)
def test_keypoint_figures_are_pycocotools(seed: int, count: int, extra: int, images: int, points: int) -> None:
    rng = np.random.default_rng(seed)
    plain = ground_truth(rng, count, images)
    places = plain.boxes[:, None, :2] + rng.random((count, points, 2)) * plain.boxes[:, None, 2:]
    seen = rng.integers(0, 3, (count, points, 1)) * (rng.random((count, 1, 1)) < 0.8)
    labelled = (seen > 0).sum(axis=(1, 2)) * (rng.random(count) < 0.9)  # some say that none is
    truth = GroundTruth(*list(vars(plain).values())[:5], Keypoints(np.concatenate([places, seen], 2), labelled))
    found = detections_near(rng, truth, extra, images)
    near = np.concatenate([np.repeat(places, 2, axis=0), rng.uniform(0, 300, (extra, points, 2))])
    near += rng.normal(0, 4, near.shape)
    own = np.concatenate([near, rng.random((len(near), points, 1))], 2).astype(np.float32)
    table = DetectionTable(*list(vars(found).values())[:4], Keypoints(own, np.full(len(own), points)))

    scores = score_detections(truth, CATEGORIES, table, KEYPOINTS)
    CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, table, KEYPOINTS).require_agreement(scores.figures)
    flat = truth.extra.points.reshape(count, -1).tolist()  # type: ignore[union-attr]
    extras = [{"keypoints": one, "num_keypoints": number} for one, number in zip(flat, labelled.tolist(), strict=True)]
    results = [{"keypoints": one} for one in own.reshape(len(own), -1).tolist()]  # COCO's results hold no boxes
    sigmas = None if points == 17 else np.full(points, 1 / points)
    stats, _ = pycocotools("keypoints", truth, table, CATEGORIES, extras, results, sigmas)
    assert [-1 if value is None else value for value in scores.figures.values()] == stats.tolist()


def test_nothing_found_is_scored() -> None:
    truth = GroundTruth(
        np.array([1]),
        np.array([1]),
        np.array([[1.0, 2, 30, 40]]),
        np.array([900.0]),
        np.array([False]),
        Keypoints(np.ones((1, 17, 3)), np.array([17])),
    )
    none = DetectionTable(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 4), np.float32), np.empty(0))
    scores = score_detections(truth, CATEGORIES, none, KEYPOINTS)
    assert scores.figures["AP"] == 0
    CocoMatches(np.array([1]), truth, CATEGORIES, none, KEYPOINTS).require_agreement(scores.figures)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "annotation 7 has no keypoints, only a box"),
        ({"keypoints": [1, 2]}, "not x, y, visibility"),
        ({"keypoints": [1, "2", 1]}, "not x, y, visibility"),
        ({"keypoints": [1, -1e300, 1]}, r"up to 2\^24"),
        ({"keypoints": [1, 2, 0.7]}, "not 0, 1 or 2"),
        ({"keypoints": [1, 2, 1], "num_keypoints": "1"}, "num_keypoints"),
    ],
)
def test_what_are_no_keypoints_is_refused(row: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        task_of("keypoints").truth([{"id": 7, **row}], [(20, 10)])


def test_keypoints_of_another_count_are_refused() -> None:
    task, found = task_of("keypoints"), family((None, 40, 57))
    with pytest.raises(ValueError, match=r"different numbers of keypoints \(\[1, 2\]\)"):
        task.truth([{"keypoints": [1, 2, 1]}, {"keypoints": [1, 2, 1, 3, 4, 1]}], [(20, 10)] * 2)
    for flat in ([1, 2, 1] * 5, [1, 2, 0] * 17):
        points, one = task.truth([{"keypoints": flat}], [(20, 10)]), np.ones(1, np.int64)
        with refused(UsageProblem):
            task.notes(found, GroundTruth(one, one, np.ones((1, 4)), np.ones(1), one == 0, points))
    with refused(UsageProblem):
        family((None, 40, 57), kpt_shape="[17]")
    with refused(UsageProblem):
        family((None, 40, 57), kpt_shape="")
