import contextlib
import io
import itertools
from typing import Any

import cv2
import numpy as np
import pytest
from hotcoco import mask
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version
from pycocotools.coco import COCO
from tests.unit.vision.coco_reference import pycocotools
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth
from tests.unit.vision.yolo_heads import SIZE, drawn, output_of

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.families.prototypes import PrototypeMasks, pixels_in
from trt_workbench.vision.feed import arrays_of
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.masks import Masks, axis, enlarged
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.measure import MASKS
from trt_workbench.vision.scores import score_detections
from trt_workbench.vision.tasks.registry import task_of

CLASSES = 3


def family(output: tuple[int, ...], **metadata: str) -> Family:
    specs = (TensorSpec("output0", "float32", output), TensorSpec("output1", "float32", (None, 32, 24, 28)))
    return recognise(
        [TensorSpec("images", "float32", (None, 3, *SIZE))], specs, {"names": "['a', 'b', 'c']", **metadata}
    )


def outputs(rng: np.random.Generator, batch: int, *, end_to_end: bool) -> dict[str, Any]:
    planes = rng.normal(0, 1, (batch, 32, 24, 28)).astype(np.float32)
    prototypes = np.stack([[cv2.GaussianBlur(plane, (7, 7), 2) for plane in image] for image in planes])
    boxes = drawn(rng, batch, end_to_end=end_to_end)
    more = rng.normal(0, 1, (*boxes.shape[:2], 32))
    return {"output0": output_of(rng, boxes, more, CLASSES, end_to_end=end_to_end), "output1": prototypes}


@pytest.mark.parametrize(("end_to_end", "name"), [(False, "yolov8-seg"), (True, "yolov10-seg")])
def test_masks_are_those_of_ultralytics(end_to_end: bool, name: str) -> None:
    ultralytics = pytest.importorskip("ultralytics", reason="the exporter's own functions")
    torch = pytest.importorskip("torch")
    from ultralytics.utils import nms, ops

    assert Version(ultralytics.__version__) >= Version("8.4")
    rng = np.random.default_rng(3)
    for batch, size in itertools.product((1, 3), ((180, 240), (333, 250))):
        given_ = outputs(rng, batch, end_to_end=end_to_end)
        found = family((None, *given_["output0"].shape[1:]), task="segment")
        assert (found.name, found.task, found.class_count) == (name, "masks", CLASSES)
        geometry = find_geometry(*size, found.transform())
        options = {"multi_label": True, "max_det": 300, "nc": CLASSES, "end2end": end_to_end}
        theirs = nms.non_max_suppression(torch.tensor(given_["output0"]), 0.001, 0.7, **options)
        for one, rows, planes in zip(found.decode(given_), theirs, torch.tensor(given_["output1"]), strict=True):
            own = found.restore(one, geometry)
            rows = rows[torch.argsort(-rows[:, 4], stable=True)]
            native = ops.process_mask_native(planes, rows[:, 6:], rows[:, :4], shape=[*SIZE])
            ratio_pad = ((geometry.scale_y, geometry.scale_x), (geometry.left, geometry.top))
            expected = ops.scale_masks(native[None], size, ratio_pad=ratio_pad)[0].byte().numpy()
            assert own.labels.tolist() == rows[:, 5].tolist()
            assert isinstance(own.extra, Masks)
            assert expected.any()
            for decoded, plane in zip(own.extra.encoded(), expected, strict=True):
                assert (mask.decode(decoded) == plane).all()


def resized(plane: Any, shape: tuple[int, int]) -> Any:
    """Bilinear, centres of pixels at halves."""
    weights = []
    for source, target in zip(plane.shape, shape, strict=True):
        at = ((np.arange(target) + 0.5) * source / target - 0.5).clip(0, source - 1)
        weights.append(np.maximum(0, 1 - np.abs(at[:, None] - np.arange(source))))
    return weights[0] @ plane @ weights[1].T


@pytest.mark.parametrize("end_to_end", [False, True])
def test_masks_are_those_of_whole_planes(end_to_end: bool) -> None:
    given_, size = outputs(np.random.default_rng(4), 2, end_to_end=end_to_end), (187, 243)
    found = family((None, *given_["output0"].shape[1:]), task="segment")
    geometry = find_geometry(*size, found.transform())
    (height, width), (x, y) = geometry.resized, np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0]))
    for one, planes in zip(found.decode(given_), given_["output1"], strict=True):
        own = found.restore(one, geometry)
        assert isinstance(one.extra, PrototypeMasks)
        assert isinstance(own.extra, Masks)
        for box, more, packed in zip(one.boxes, one.extra.coefficients, own.extra.encoded(), strict=True):
            inside = (x >= box[0]) & (x < box[2]) & (y >= box[1]) & (y < box[3])
            input_ = (resized(np.tensordot(more, planes, 1), SIZE) > 0) & inside
            shown = input_[geometry.top : geometry.top + height, geometry.left : geometry.left + width]
            whole = resized(shown.astype(float), size) > 1 - 1e-6
            assert (mask.decode(packed) != whole).sum() <= 2  # logits next to 0, summed in another order


def packed(part: Any) -> Any:
    """A mask as the words of a device: every row begins in a new one."""
    wide = np.pad(part, ((0, 0), (0, -part.shape[1] % 32)))
    return np.packbits(wide.ravel(), bitorder="little").view("<u4")


@pytest.mark.parametrize("end_to_end", [False, True])
def test_masks_of_a_device_become_those_of_the_image(end_to_end: bool) -> None:
    given_ = outputs(np.random.default_rng(5), 2, end_to_end=end_to_end)
    found = family((None, *given_["output0"].shape[1:]), task="segment")
    geometry = find_geometry(187, 243, found.transform())
    for one in found.decode(given_):
        assert isinstance(one.extra, PrototypeMasks)
        masks = one.extra.arrays(one.boxes)
        words = np.concatenate([packed(part) for part in masks])
        (ours,) = found.completed([FoundBoxes(one.boxes, one.scores, one.labels, one.extra.coefficients, words)])
        assert all(np.array_equal(*pair) for pair in zip(arrays_of(ours), arrays_of(one), strict=True))
        own, theirs = found.restore(ours, geometry).extra, found.restore(one, geometry).extra
        assert isinstance(own, Masks)
        assert isinstance(theirs, Masks)
        assert own.counts == theirs.counts
        rows = np.array([3, 0, 3])
        some = found.restore(ours.take(rows), geometry).extra
        assert isinstance(some, Masks)
        assert some.counts == own.take(rows).counts
        words[len(words) // 2] ^= 1
        assert not all(np.array_equal(*pair) for pair in zip(ours.extra.arrays(one.boxes), masks, strict=True))


def test_prototypes_are_added_up_in_their_order() -> None:
    rng = np.random.default_rng(6)
    planes = rng.normal(0, 1, (32, 24, 28)).astype(np.float32)
    weights, box = rng.normal(0, 1, (1, 32)).astype(np.float32), np.array([[0, 0, SIZE[1], SIZE[0]]], np.float32)
    for corners in (box, box * 0 + np.array([7, 7, 8, 8], np.float32)):  # of one pixel no library may sum otherwise
        logits = np.zeros((24, 28), np.float32)
        for plane, weight in zip(planes, weights[0], strict=True):
            logits += plane * weight
        rows, columns = (
            axis(side, whole).part(part)
            for side, whole, part in zip((24, 28), SIZE, pixels_in(corners[0], SIZE), strict=True)
        )
        (part,) = PrototypeMasks(SIZE, weights, planes).parts(corners)
        assert np.array_equal(part, enlarged(logits, rows, columns))


def test_prototypes_of_another_kind_are_refused() -> None:
    rng = np.random.default_rng(0)
    given_ = outputs(rng, 2, end_to_end=True)
    found = family((None, 40, 38))  # without metadata, by the shapes alone
    assert found.name == "yolov10-seg"
    with pytest.raises(UsageProblem, match=r"output1 has shape \[2, 30, 24, 28\]"):
        found.decode({**given_, "output1": given_["output1"][:, :30]})
    given_["output1"][1, 3, 4, 5] = np.nan
    with pytest.raises(NotFinite, match="output1"):
        found.decode(given_)


def test_the_task_of_the_metadata_decides() -> None:
    with pytest.raises(UsageProblem, match="for masks, not boxes"):
        recognise(
            [TensorSpec("images", "float32", (1, 3, *SIZE))],
            [TensorSpec("output0", "float32", (1, 40, 6))],
            {"task": "segment"},
            Preparation(family="yolov10"),
        )


def blob(rng: np.random.Generator, box: Any) -> dict[str, Any]:
    """A mask within a box of an image of 320x320: an ellipse, so that masks overlap otherwise than boxes."""
    plane = np.zeros((320, 320), np.uint8)
    x, y, width, height = (float(value) for value in box)
    centre = (int(x + width / 2), int(y + height / 2))
    cv2.ellipse(plane, centre, (int(width / 2), int(height / 2)), rng.uniform(0, 40), 0, 360, (1,), -1)
    found: dict[str, Any] = mask.encode(plane)
    return found


def masked(rng: np.random.Generator, boxes: Any) -> Masks:
    made = [blob(rng, box) for box in boxes]
    return Masks(np.full((len(made), 2), 320, np.int32), tuple(one["counts"] for one in made))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 30), extra=st.integers(1, 40), images=st.integers(1, 5))
def test_mask_figures_are_pycocotools(seed: int, count: int, extra: int, images: int) -> None:
    rng = np.random.default_rng(seed)
    plain = ground_truth(rng, count, images)
    truth = GroundTruth(*list(vars(plain).values())[:5], masked(rng, plain.boxes))
    found = detections_near(rng, truth, extra, images)
    table = DetectionTable(*list(vars(found).values())[:4], masked(rng, found.boxes))
    scores = score_detections(truth, CATEGORIES, table, MASKS)
    CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, table, MASKS).require_agreement(scores.figures)
    extras, results = ([{"segmentation": one} for one in side.extra.encoded()] for side in (truth, table))  # type: ignore[union-attr]
    stats, _ = pycocotools("segm", truth, table, CATEGORIES, extras, results, height=320, width=320)
    assert [-1 if value is None else value for value in scores.figures.values()] == stats.tolist()


def test_annotations_are_read_as_pycocotools_does() -> None:
    polygons = [[10.5, 10, 60, 12, 30, 50.25], [100, 100, 140, 100, 120, 150]]
    plain = {"size": [200, 160], "counts": [100, 50, 200 * 160 - 150]}
    packed = mask.frPyObjects(plain, 200, 160)
    segments = [polygons, plain, {**packed, "counts": packed["counts"].decode()}]
    rows = [{"id": number, "segmentation": one} for number, one in enumerate(segments)]
    coco = COCO()
    coco.dataset = {"images": [{"id": 1, "height": 200, "width": 160}], "categories": [], "annotations": []}
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    found = task_of("masks").truth(rows, [(200, 160)] * 3)
    assert isinstance(found, Masks)
    expected = [coco.annToRLE({"image_id": 1, **row})["counts"] for row in rows[:2]]
    assert [*found.counts] == [*expected, packed["counts"]]
    entries = found.entries(slice(None))
    again = task_of("masks").found(entries)
    assert again is not None
    assert again.entries(slice(1, 3)) == entries[1:3]


@pytest.mark.parametrize(
    ("segment", "why"),
    [
        (None, "annotation 7 has no segmentation, only a box, but the model finds masks"),
        ([], "no segmentation"),
        ([[1, 2, 3, 4]], "annotation 7 has a polygon of 2 points"),
        ([[1, 2, 3, 4, 5]], "not x1, y1, x2, y2"),
        ([["a", 2, 3, 4, 5, 6]], "not x1, y1, x2, y2"),
        ([[1, 2, 3, 4, 5, 10**30]], r"up to 2\^24"),
        ("polygon", "neither a list of polygons nor run lengths"),
        ({"counts": [1]}, "without their size"),
        ({"size": [10, 20], "counts": [200]}, r"of an image of \[10, 20\]"),
        ({"size": [20, 10], "counts": [100, 50]}, "do not add up"),
        ({"size": [20, 10], "counts": [100, -50, 150]}, "do not add up"),
        ({"size": [20, 10], "counts": "1"}, "do not add up"),
        ({"size": [20, 10], "counts": "o"}, "cut short"),
        ({"size": [20, 10], "counts": None}, "do not add up"),
    ],
)
def test_what_is_no_mask_is_refused(segment: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        task_of("masks").truth([{"id": 7, "segmentation": segment}], [(20, 10)])


@pytest.mark.parametrize("size", [(None, None), (0, 5), (-3, 4)])
def test_a_mask_needs_the_size_of_its_image(size: Any) -> None:
    with pytest.raises(ValueError, match="annotation 7 has no height and width"):
        task_of("masks").truth([{"id": 7, "segmentation": [[1, 2, 3, 4, 5, 9]]}], [size])


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_mask_is_painted_from_either_form(scale: float) -> None:
    polygon = [[4, 6, 24, 6, 24, 16, 4, 16]]
    packed = mask.merge(mask.frPyObjects(polygon, 40, 60))
    for segment in (polygon, {**packed, "counts": packed["counts"].decode()}):
        picture = np.full((int(40 * scale), int(60 * scale), 3), 200, np.uint8)
        task_of("masks").paint(picture, {"segmentation": segment}, scale, (0, 0, 255))
        inside, outside = picture[int(10 * scale), int(12 * scale)], picture[int(30 * scale), int(12 * scale)]
        assert (outside == 200).all()
        assert inside.tolist() == [110, 110, 224]
        task_of("masks").paint(picture, {"segmentation": {"size": [1, 2], "counts": "x"}}, scale, (0, 0, 255))
