"""Hand-made tensors with known boxes, through each family."""

import math
from typing import ClassVar

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.vision.families import DecodeSettings, Detections, Family, YoloX, recognise

SIZE = 64
# Cells of a 64x64 input: 8x8 of stride 8, 4x4 of stride 16, 2x2 of stride 32.
CELLS = [(stride, x, y) for stride in (8, 16, 32) for y in range(SIZE // stride) for x in range(SIZE // stride)]
IMAGE = TensorSpec("images", "float32", (None, 3, SIZE, SIZE))


def family(name: str | None, shape: tuple[int | None, ...], metadata: dict[str, str] | None = None) -> Family:
    return recognise([IMAGE], [TensorSpec("output", "float32", shape)], metadata or {}, Preparation(family=name))


def cell(stride: int, x: int, y: int) -> int:
    return CELLS.index((stride, x, y))


def decode(found: Family, tensor: np.ndarray, **settings: float) -> list[Detections]:
    return found.decode({"output": tensor.astype(np.float32)}, DecodeSettings(**settings))


def yolox_tensor(classes: int = 3, *, raw: bool = True) -> np.ndarray:
    """Every cell predicts a box of its own size around its centre, with no confidence."""
    tensor = np.zeros((1, len(CELLS), 5 + classes))
    for index, (stride, x, y) in enumerate(CELLS):
        tensor[0, index, :4] = (0.5, 0.5, 0, 0) if raw else ((x + 0.5) * stride, (y + 0.5) * stride, stride, stride)
    return tensor


class TestYolox:
    def test_raw_boxes_are_offsets_and_logarithms(self) -> None:
        tensor = yolox_tensor()
        index = cell(16, 2, 1)
        tensor[0, index] = [0.25, 0.75, math.log(2), math.log(0.5), 0.8, 0.1, 0.9, 0.2]
        (found,) = decode(family(None, (None, 84, 8)), tensor)
        # centre ((2 + .25) * 16, (1 + .75) * 16) = (36, 28), size 32 by 8
        np.testing.assert_allclose(found.boxes, [[20, 24, 52, 32]], rtol=1e-6)
        np.testing.assert_allclose(found.scores, [0.72], rtol=1e-6)
        assert found.labels.tolist() == [1]
        assert (found.boxes.dtype, found.scores.dtype, found.labels.dtype) == (np.float32, np.float32, np.int64)

    @pytest.mark.parametrize("raw", [True, False])
    @pytest.mark.parametrize("log_size", [-2.0, 1.5])
    def test_the_values_tell_raw_from_decoded(self, *, raw: bool, log_size: float) -> None:
        """Also where every size is large: the signs of raw sizes would mislead."""
        rng = np.random.default_rng(5)
        tensor = yolox_tensor(raw=raw)
        tensor[0, :, :2] += rng.normal(0, 1, (len(CELLS), 2)) * (1 if raw else 16)
        tensor[0, :, 2:4] = log_size if raw else np.exp(log_size) * 16
        tensor[0, cell(8, 4, 4), 4:6] = 1
        fixed = family("yolox-raw" if raw else "yolox-decoded", (1, 84, 8))
        assert isinstance(fixed, YoloX)
        assert fixed.encoding == ("raw" if raw else "decoded")
        np.testing.assert_array_equal(decode(family(None, (1, 84, 8)), tensor)[0].boxes, decode(fixed, tensor)[0].boxes)

    def test_the_default_overlap_is_that_of_yolox(self) -> None:
        tensor = yolox_tensor()
        tensor[0, 0] = [0, 0, 0, 0, 1, 0.9, 0, 0]
        # the neighbour's box of equal size, shifted by s of 8 pixels: IoU (8 - s) / (8 + s) = 0.66 and 0.64
        for shift, kept in ((8 * 0.34 / 1.66, 1), (8 * 0.36 / 1.64, 2)):
            tensor[0, 1] = [shift / 8 - 1, 0, 0, 0, 1, 0.8, 0, 0]
            assert len(decode(family(None, (1, 84, 8)), tensor)[0].scores) == kept
            assert len(decode(family(None, (1, 84, 8)), tensor, iou=0.99)[0].scores) == 2

    def test_its_transform_is_its_own(self) -> None:
        transform = family(None, (1, 84, 8)).transform(32, 48)
        assert (transform.height, transform.width) == (32, 48)
        assert (transform.placement, transform.channels, transform.scale) == ("top-left", "bgr", 1.0)
        assert (transform.rounding, transform.pad_value) == ("down", 114)

    def test_an_overflowing_size_fails_the_check(self) -> None:
        tensor = yolox_tensor()
        tensor[0, 0] = [0, 0, 100, 0, 1, 1, 0, 0]
        with refused(CheckFailed):
            decode(family("yolox-raw", (1, 84, 8)), tensor)


class TestYolov8:
    def tensor(self, classes: int = 3) -> np.ndarray:
        tensor = np.zeros((1, 4 + classes, len(CELLS)))
        tensor[0, :4] = 10
        return tensor

    @pytest.mark.parametrize("name", [None, "yolov8"])
    def test_the_transposed_head_gives_the_same(self, name: str | None) -> None:
        rng = np.random.default_rng(2)
        tensor = np.concatenate([rng.uniform(5, 60, (2, 4, 84)), rng.uniform(0, 1, (2, 3, 84))], axis=1)
        names = {"names": "['a', 'b', 'c']"}
        plain = decode(family(None, (None, 7, 84)), tensor)
        turned = decode(family(name, (None, 84, 7), names if name is None else None), tensor.transpose(0, 2, 1))
        for one, other in zip(plain, turned, strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right)

    def test_at_most_thirty_thousand_candidates_the_best_ones(self) -> None:
        # far apart, so that nothing is suppressed
        count, classes = 525, 80
        rng = np.random.default_rng(3)
        tensor = np.empty((1, 4 + classes, count))
        tensor[0, 0], tensor[0, 1], tensor[0, 2:4] = np.arange(count) * 50, 10, 1
        tensor[0, 4:] = rng.uniform(0.1, 1, (classes, count))
        found = recognise(
            [TensorSpec("images", "float32", (1, 3, 160, 160))], [TensorSpec("output", "float32", (1, 84, count))], {}
        )
        (kept,) = decode(found, tensor, max_dets=10**6)
        best = np.sort(tensor[0, 4:].astype(np.float32).ravel())[::-1][:30_000]
        np.testing.assert_array_equal(kept.scores, best)


class TestYolov10:
    @pytest.mark.parametrize("bad", [0.5, -1.0])
    def test_a_class_that_is_no_index_is_refused(self, bad: float) -> None:
        tensor = np.zeros((1, 5, 6))
        tensor[0, 0] = [1, 2, 3, 4, 0.5, bad]
        with refused(UsageProblem):
            decode(family(None, (1, 5, 6)), tensor)


SHAPES = {"yolov10": (None, 5, 6), "yolov8": (None, 7, 84), "yolox": (None, 84, 8)}


@pytest.mark.parametrize("name", SHAPES)
class TestEveryFamily:
    def random(self, name: str, images: int = 3) -> np.ndarray:
        rng = np.random.default_rng(9)
        tensor = rng.uniform(0, 1, (images, *SHAPES[name][1:]))
        if name == "yolov10":
            tensor[..., 5] = rng.integers(0, 3, tensor.shape[:2])
        return tensor

    def test_nothing_found_is_empty(self, name: str) -> None:
        (found,) = decode(family(name, SHAPES[name]), np.zeros((1, *SHAPES[name][1:])))
        assert [part.shape for part in found[:3]] == [(0, 4), (0,), (0,)]

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_values_that_are_not_finite_fail_the_check(self, name: str, bad: float) -> None:
        tensor = self.random(name)
        tensor[1, 4, 4] = bad
        with refused(CheckFailed):
            decode(family(name, SHAPES[name]), tensor)

    @pytest.mark.parametrize("shape", [(5, 5), (1, 20, 9)])
    def test_other_shapes_are_refused(self, name: str, shape: tuple[int, ...]) -> None:
        with refused(UsageProblem):
            decode(family(name, SHAPES[name]), np.zeros(shape))


@pytest.mark.parametrize(
    "settings", [{"conf": -0.1}, {"conf": 1.0}, {"conf": math.nan}, {"iou": 0.0}, {"iou": 1.1}, {"max_dets": 0}]
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with refused(UsageProblem):
        DecodeSettings(**settings)


class TestDetr:
    head: ClassVar[dict[str, str]] = {"head": "RTDETRDecoder", "end2end": "False"}

    def test_older_exports_have_a_score_for_each_class(self) -> None:
        rows = [[[0.5, 0.5, 0.5, 0.25, 0.1, 0.9, 0.2], [0.5, 0.5, 1, 1, 0.3, 0.25, 0.1]]]
        (found,) = decode(family(None, (1, 2, 7), self.head), np.array(rows))
        np.testing.assert_allclose(found.boxes, [[16, 24, 48, 40], [0, 0, 64, 64]])
        assert found.scores.tolist() == pytest.approx([0.9, 0.3])
        assert found.labels.tolist() == [1, 0]

    def test_rows_of_six_with_two_classes_are_told_apart_by_their_values(self) -> None:
        two = family(None, (1, 2, 6), self.head | {"names": "['a', 'b']"})
        (with_class,) = decode(two, np.array([[[0.5, 0.5, 1, 1, 0.9, 1], [0.5, 0.5, 1, 1, 0.4, 0]]]))
        assert (with_class.labels.tolist(), with_class.scores.tolist()) == ([1, 0], pytest.approx([0.9, 0.4]))
        (by_class,) = decode(two, np.array([[[0.5, 0.5, 1, 1, 0.9, 0.05], [0.5, 0.5, 1, 1, 0.4, 0.6]]]))
        assert (by_class.labels.tolist(), by_class.scores.tolist()) == ([0, 1], pytest.approx([0.9, 0.6]))

    @pytest.mark.parametrize(
        "row",
        [
            [0.5, 0.5, 1, 1, 7.5, 1],
            [0.5, 0.5, 1, 1, 0.5, 0.5],
            [0.5, 0.5, 1, 1, 0.5, 3],
        ],
    )
    def test_what_is_no_score_or_class_is_refused(self, row: list[float]) -> None:
        found = family(None, (1, 1, 6), self.head | {"names": "['a', 'b', 'c']"})
        with refused(UsageProblem):
            decode(found, np.array([[row]]))
