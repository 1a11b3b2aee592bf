"""A normalisation forgotten and channels swapped are told from photographs that merely differ."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from trt_workbench.model.low_precision.evidence import InputStatistics
from trt_workbench.model.low_precision.input_statistics import difference, input_statistics
from trt_workbench.vision.scenes.scenes import scene

Image = NDArray[np.float32]
SIDE = 48


def tensor(pixels: NDArray[np.uint8]) -> Image:
    """Return an image [3, side, side] in RGB, 0 to 255."""
    small = cv2.resize(pixels[:, :, ::-1], (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return small.transpose(2, 0, 1).astype(np.float32)


@pytest.fixture(scope="module")
def photographs() -> list[Image]:
    folder = Path(os.environ.get("TRTW_SHARED", "../shared")) / "data" / "coco-tiny" / "val2017"
    if not folder.is_dir():
        pytest.skip(f"the shared photographs are not at {folder}")
    return [tensor(cv2.imread(str(file))) for file in sorted(folder.glob("*.jpg"))]


def imagenet(image: Image) -> Image:
    mean, std = (np.array(one, np.float32)[:, None, None] for one in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return (image / 255 - mean) / std


FORMS: dict[str, Callable[[Image], Image]] = {
    "pixels": lambda image: image,
    "0 to 1": lambda image: image / 255,
    "-1 to 1": lambda image: image / np.float32(127.5) - 1,
    "ImageNet": imagenet,
    "reversed": lambda image: image[::-1],
}


def statistics(images: Sequence[Image], form: str = "pixels") -> dict[str, InputStatistics]:
    return input_statistics({"x": FORMS[form](image)} for image in images)


@pytest.mark.parametrize("form", ["pixels", "ImageNet"])
@pytest.mark.parametrize("count", [8, 16, 40])
def test_no_alarm_on_photographs_that_merely_differ(photographs: list[Image], form: str, count: int) -> None:
    generator = np.random.default_rng(count)
    for _ in range(12):
        order = generator.permutation(len(photographs))
        one, other = ([photographs[place] for place in part] for part in (order[:count], order[count : 2 * count]))
        assert difference(statistics(one, form), statistics(other, form)) is None


def test_no_alarm_on_scenes_that_are_far_from_photographs() -> None:
    one, other = ([tensor(scene(seed, index)[0]) for index in range(24)] for seed in (1, 2))
    assert difference(statistics(one), statistics(other)) is None


@pytest.mark.parametrize(
    ("mine", "other", "certain"),
    [
        ("0 to 1", "pixels", True),
        ("pixels", "0 to 1", True),
        ("0 to 1", "ImageNet", True),
        ("0 to 1", "-1 to 1", False),
        ("-1 to 1", "ImageNet", False),
        ("-1 to 1", "pixels", True),
    ],
)
def test_another_normalisation_is_told(photographs: list[Image], mine: str, other: str, *, certain: bool) -> None:
    found = difference(statistics(photographs[::2], mine), statistics(photographs[1::2], other))
    assert found.certain == certain
    assert "normalised differently" in found.words


def test_swapped_channels_are_told_where_photographs_lean_to_one(photographs: list[Image]) -> None:
    mine, other = statistics(photographs[::2]), statistics(photographs[1::2], "reversed")
    found = difference(mine, other)
    assert not found.certain
    assert "RGB and BGR" in found.words
    # of grey pictures nobody can tell
    grey = [np.repeat(image.mean(axis=0, keepdims=True), 3, axis=0) for image in photographs]
    assert difference(statistics(grey[::2]), statistics(grey[1::2], "reversed")) is None


def test_the_sums_are_those_of_all_values(photographs: list[Image]) -> None:
    found = statistics(photographs)["x"]
    values = np.stack(photographs).astype(np.float64)
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(found.spread, values.std(axis=(0, 2, 3)))
    last = input_statistics({"x": image.transpose(1, 2, 0)} for image in photographs)["x"]
    np.testing.assert_allclose(last.mean, found.mean)
    assert not input_statistics([{"x": np.ones((4, 7), np.float32), "ids": np.ones(3, np.int64)}])["x"].image
