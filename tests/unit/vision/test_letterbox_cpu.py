"""The core's letterbox against the pipeline's: the same geometry, grey levels and normalisation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trt_workbench.backends.images import ImageTransform
from trt_workbench.vision.letterbox import find_geometry, letterbox, normalise, preprocess

native = pytest.importorskip("trt_workbench_native", reason="the native core is not installed")

SIDES = st.integers(1, 700)
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def spec_of(transform: ImageTransform) -> Any:
    values = dataclasses.asdict(transform)
    assert not values.pop("antialias")
    del values["crop"]  # which is never without it
    return native.LetterboxSpec(**values)


def photo(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@given(
    height=st.integers(1, 5000),
    width=st.integers(1, 5000),
    target=st.tuples(SIDES, SIDES),
    placement=st.sampled_from(["centre", "top-left", "stretch"]),
    rounding=st.sampled_from(["nearest", "down"]),
    scale_up=st.booleans(),
)
@settings(max_examples=200)
def test_geometry_is_the_pipelines(
    height: int, width: int, target: tuple[int, int], placement: Any, rounding: Any, scale_up: bool
) -> None:
    transform = ImageTransform(*target, placement=placement, rounding=rounding, scale_up=scale_up)
    ours = native.letterbox_geometry(height, width, spec_of(transform))
    theirs = find_geometry(height, width, transform)
    assert (ours.new_height, ours.new_width) == theirs.resized
    assert (ours.top, ours.left) == (theirs.top, theirs.left)


SMALL = st.integers(1, 80)  # where most rows lie at an edge


@given(
    sides=st.one_of(st.tuples(SIDES, SIDES, SIDES, SIDES), st.tuples(SMALL, SMALL, SMALL, SMALL)),
    placement=st.sampled_from(["centre", "stretch"]),
    seed=st.integers(0, 9),
)
@settings(max_examples=100)
def test_grey_levels_are_the_pipelines(sides: tuple[int, int, int, int], placement: Any, seed: int) -> None:
    size, target = sides[:2], sides[2:]
    transform = ImageTransform(*target, placement=placement, scale=1.0, channels="bgr", layout="nhwc", dtype="uint8")
    image = photo(*size, seed)
    np.testing.assert_array_equal(native.letterbox_cpu(image, spec_of(transform)), letterbox(image, transform)[0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("channels", ["rgb", "bgr"])
@pytest.mark.parametrize("normalisation", [{}, {"scale": 1.0}, IMAGENET], ids=["1/255", "none", "imagenet"])
def test_normalisation_is_the_pipelines_to_the_bit(dtype: Any, layout: Any, channels: Any, normalisation: Any) -> None:
    transform = ImageTransform(64, 64, dtype=dtype, layout=layout, channels=channels, **normalisation)
    image = photo(64, 64)  # of the target's size: nothing is resized
    ours = native.letterbox_cpu(image, spec_of(transform))
    np.testing.assert_array_equal(ours, preprocess(image, transform)[0], strict=True)


def test_every_grey_level_is_normalised_alike() -> None:
    ramp = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 3)
    transform = ImageTransform(1, 256, **IMAGENET)
    ours = native.letterbox_cpu(ramp, spec_of(transform))
    np.testing.assert_array_equal(ours, normalise(ramp, transform), strict=True)


@pytest.mark.parametrize("size", [(480, 640), (333, 500), (1080, 1920), (31, 7)])
def test_photographs_of_usual_sizes(size: tuple[int, int]) -> None:
    transform = ImageTransform(416, 416, placement="top-left", rounding="down", scale=1.0, channels="bgr")
    image = photo(*size)
    np.testing.assert_array_equal(
        native.letterbox_cpu(image, spec_of(transform)), preprocess(image, transform)[0], strict=True
    )


def test_views_are_read_as_they_are() -> None:
    image = photo(90, 120)
    transform = ImageTransform(64, 64)
    for view in (image[10:50, 20:80], image[::2], image[:, ::-1], image[..., ::-1], np.asfortranarray(image)):
        ours = native.letterbox_cpu(view, spec_of(transform))
        np.testing.assert_array_equal(ours, native.letterbox_cpu(np.ascontiguousarray(view), spec_of(transform)))


@pytest.mark.parametrize(
    "change",
    [
        {"height": 0},
        {"pad_value": 256},
        {"std": (1.0, 0.0, 1.0)},
        {"scale": float("nan")},
        {"placement": "left"},
        {"rounding": "up"},
        {"dtype": "float64"},
        {"dtype": "uint8"},
    ],
)
def test_senseless_specs_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(native.UsageProblem):
        spec_of(dataclasses.replace(ImageTransform(64, 64), **change))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_other_arrays_are_refused(image: NDArray[Any]) -> None:
    with pytest.raises(native.UsageProblem, match="An image is a uint8 array"):
        native.letterbox_cpu(image, native.LetterboxSpec(8, 8))
