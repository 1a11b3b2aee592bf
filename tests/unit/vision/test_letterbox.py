import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import ImageTransform
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families import Detections, recognise
from trt_workbench.vision.letterbox import Geometry, find_geometry, letterbox, normalise, preprocess, restore_boxes

transforms = st.builds(
    ImageTransform,
    height=st.integers(1, 1300),
    width=st.integers(1, 1300),
    placement=st.sampled_from(["centre", "top-left"]),
    scale_up=st.booleans(),
    rounding=st.sampled_from(["nearest", "down"]),
)
sides = st.integers(1, 4000)
fractions = st.tuples(*[st.floats(0, 1, width=32)] * 4)


def place_boxes(boxes: NDArray[np.float32], geometry: Geometry) -> NDArray[np.float32]:
    """Boxes of the source in the input, as Geometry says."""
    scale, shift = (geometry.scale_x, geometry.scale_y), (geometry.left, geometry.top)
    return boxes * np.float32(scale * 2) + np.float32(shift * 2)


@given(transform=transforms, height=sides, width=sides, corners=fractions)
def test_boxes_come_back_within_half_a_pixel(
    transform: ImageTransform, height: int, width: int, corners: tuple[float, ...]
) -> None:
    geometry = find_geometry(height, width, transform)
    boxes = np.array([corners], np.float32) * np.array([width, height, width, height], np.float32)
    for clip in (False, True):
        restored = restore_boxes(place_boxes(boxes, geometry), geometry, clip=clip)
        assert restored.dtype == np.float32
        assert np.abs(restored - boxes).max() < 0.5


@given(height=sides, width=sides, rows=st.integers(32, 1300), columns=st.integers(32, 1300), corners=fractions)
def test_yolox_divides_both_axes_by_one_ratio(
    height: int, width: int, rows: int, columns: int, corners: tuple[float, ...]
) -> None:
    image = TensorSpec("images", "float32", (1, 3, rows, columns))
    family = recognise([image], [TensorSpec("output", "float32", (1, None, 85))], {}, Preparation(family="yolox"))
    boxes = np.array([corners], np.float32) * np.float32(max(rows, columns))
    found = Detections(boxes, np.ones(1, np.float32), np.zeros(1, np.int64))
    restored = family.restore(found, find_geometry(height, width, family.transform())).boxes
    # `bboxes /= scale` in YOLOX's COCOEvaluator.convert_to_coco_format; nothing is clipped
    scale = min(rows / float(height), columns / float(width))
    np.testing.assert_allclose(restored, boxes / np.float32(scale), rtol=1e-6)


@given(transform=transforms, height=sides, width=sides)
def test_the_image_lies_inside_the_input(transform: ImageTransform, height: int, width: int) -> None:
    geometry = find_geometry(height, width, transform)
    new_height, new_width = geometry.resized
    below = transform.height - new_height - geometry.top
    right = transform.width - new_width - geometry.left
    assert min(new_height, new_width) >= 1
    assert min(geometry.top, geometry.left, below, right) >= 0
    if transform.placement == "centre":
        assert below - geometry.top in (0, 1)
        assert right - geometry.left in (0, 1)
    else:
        assert (geometry.top, geometry.left) == (0, 0)
    if not transform.scale_up:
        assert new_height <= height
        assert new_width <= width
    elif transform.rounding == "nearest":
        assert new_height == transform.height or new_width == transform.width


@given(transform=transforms, height=sides, width=sides, where=fractions)
def test_clipped_boxes_stay_in_the_image(
    transform: ImageTransform, height: int, width: int, where: tuple[float, ...]
) -> None:
    boxes = (np.array([where], np.float32) - 0.5) * 10_000
    restored = restore_boxes(boxes, find_geometry(height, width, transform), clip=True)
    assert (restored >= 0).all()
    assert (restored <= [width, height, width, height]).all()


@pytest.mark.parametrize("one_ratio", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 300, 301])
def test_boxes_are_mapped_back_alike_however_many_there_are(count: int, one_ratio: bool) -> None:
    rng, odd = np.random.default_rng(count), [0.0, -0.0, np.nan, np.inf, -np.inf]
    boxes = np.where(rng.random((count, 4)) < 0.5, rng.choice(odd, (count, 4)), rng.uniform(-9, 330, (count, 4)))
    for height, width in ((427, 640), (640, 427)):
        geometry = find_geometry(height, width, ImageTransform(320, 320))
        scales = [geometry.ratio] * 2 if one_ratio else [geometry.scale_x, geometry.scale_y]
        shift, scale = (np.array([*pair] * 2, np.float32) for pair in ((geometry.left, geometry.top), scales))
        plain = (boxes.astype(np.float32) - shift) / scale
        clipped = plain.clip(0.0, np.array([width, height] * 2, np.float32))
        for clip, expected in ((False, plain), (True, clipped)):
            found = restore_boxes(boxes.astype(np.float32), geometry, clip=clip, one_ratio=one_ratio)
            assert found.tobytes() == expected.tobytes()


@given(
    transform=st.builds(
        ImageTransform,
        height=st.integers(1, 90),
        width=st.integers(1, 90),
        placement=st.sampled_from(["centre", "top-left"]),
        pad_value=st.integers(0, 255),
        scale_up=st.booleans(),
        rounding=st.sampled_from(["nearest", "down"]),
    ),
    height=st.integers(1, 120),
    width=st.integers(1, 120),
    seed=st.integers(0, 99),
)
def test_the_canvas_is_the_resized_image_and_padding(
    transform: ImageTransform, height: int, width: int, seed: int
) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    canvas, geometry = letterbox(image, transform)
    rows, columns = geometry.resized
    expected = np.full((transform.height, transform.width, 3), transform.pad_value, np.uint8)
    resized = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_LINEAR)
    expected[geometry.top : geometry.top + rows, geometry.left : geometry.left + columns] = resized
    np.testing.assert_array_equal(canvas, expected)


@pytest.mark.parametrize("size", [(480, 640), (640, 427), (375, 500), (1500, 2100)])
@pytest.mark.parametrize("placement", ["centre", "top-left"])
def test_a_drawn_rectangle_lies_where_its_box_is_placed(size: tuple[int, int], placement: str) -> None:
    height, width = size
    box = np.array([[width // 5, height // 4, width // 2, height // 3 * 2]], np.float32)
    x1, y1, x2, y2 = box[0].astype(int)
    image = np.zeros((height, width, 3), np.uint8)
    image[y1:y2, x1:x2] = 255
    canvas, geometry = letterbox(image, ImageTransform(416, 416, placement=placement, pad_value=0))
    ys, xs = np.nonzero(canvas[..., 0] > 127)
    seen = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
    # Half a pixel for the edges of whole pixels, and half for a bilinear filter that shrinks.
    assert np.abs(seen - place_boxes(box, geometry)[0]).max() <= 1


def test_rounding_of_the_resized_sides() -> None:
    # 427 * 0.65 = 277.55
    assert find_geometry(427, 640, ImageTransform(416, 416)).resized == (278, 416)
    assert find_geometry(427, 640, ImageTransform(416, 416, rounding="down")).resized == (277, 416)
    # exactly one half: to the even neighbour
    assert find_geometry(5, 10, ImageTransform(5, 5)).resized == (2, 5)
    assert find_geometry(7, 10, ImageTransform(5, 5)).resized == (4, 5)


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 700), st.integers(1, 700))
def test_a_stretched_image_takes_the_whole_input(height: int, width: int, rows: int, columns: int) -> None:
    geometry = find_geometry(height, width, ImageTransform(rows, columns, placement="stretch", scale_up=False))
    assert geometry.resized == (rows, columns)
    assert (geometry.top, geometry.left) == (0, 0)
    whole = np.array([[0, 0, width, height]], np.float32)
    np.testing.assert_allclose(place_boxes(whole, geometry), [[0, 0, columns, rows]], rtol=1e-5)
    np.testing.assert_allclose(restore_boxes(place_boxes(whole, geometry), geometry, clip=False), whole, rtol=1e-5)


def test_stretching_is_opencvs_resize() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    canvas, _ = letterbox(image, ImageTransform(40, 20, placement="stretch"))
    np.testing.assert_array_equal(canvas, cv2.resize(image, (20, 40), interpolation=cv2.INTER_LINEAR))


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3)])
def test_an_image_without_pixels_is_refused(shape: tuple[int, ...]) -> None:
    with refused(UsageProblem):
        letterbox(np.zeros(shape, np.uint8), ImageTransform(32, 32))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("channels", ["rgb", "bgr"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 4e-3)])
@pytest.mark.parametrize(
    ("scale", "mean", "std"),
    [
        (1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        (1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        (1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ],
)
def test_normalisation_is_the_documented_formula(
    layout: str, channels: str, dtype: str, tolerance: float, scale: float, mean: tuple, std: tuple
) -> None:
    canvas = np.random.default_rng(3).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    transform = ImageTransform(20, 24, layout=layout, channels=channels, dtype=dtype, scale=scale, mean=mean, std=std)
    expected = canvas.astype(np.float64)
    if channels == "rgb":
        expected = expected[..., ::-1]
    expected = (expected * scale - mean) / std
    if layout == "nchw":
        expected = expected.transpose(2, 0, 1)
    tensor = normalise(canvas, transform)
    assert tensor.dtype == dtype
    assert tensor.flags.c_contiguous
    np.testing.assert_allclose(tensor, expected, rtol=tolerance, atol=tolerance)


@given(
    dtype=st.sampled_from(["float32", "float16"]),
    layout=st.sampled_from(["nchw", "nhwc"]),
    channels=st.sampled_from(["rgb", "bgr"]),
    scale=st.floats(2**-10, 1.0, width=32),
    mean=st.tuples(*[st.floats(-2, 2, width=32)] * 3),
    std=st.tuples(*[st.floats(0.125, 4, width=32)] * 3),
)
def test_every_grey_level_is_rounded_once_wherever_it_is_written(
    dtype: str, layout: str, channels: str, scale: float, mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    canvas = np.random.default_rng(0).permuted(np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3), axis=None)
    transform = ImageTransform(
        16,
        16,
        layout=layout,
        channels=channels,
        dtype=dtype,
        scale=scale,
        mean=mean,
        std=std,  # type: ignore[arg-type]
    )
    factors = np.array([scale / one for one in std], np.float32)
    offsets = np.array([-shift / one for shift, one in zip(mean, std, strict=True)], np.float32)
    ordered = canvas if channels == "bgr" else canvas[..., ::-1]
    wanted = (ordered * factors + offsets).astype(dtype)
    wanted = wanted.transpose(2, 0, 1) if layout == "nchw" else wanted
    spread = np.zeros([2 * side for side in transform.shape], dtype)[::2, ::2, ::2]
    for found in (normalise(canvas, transform), normalise(canvas, transform, spread)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


def test_preprocess_writes_into_a_slice_of_a_batch() -> None:
    image = np.random.default_rng(4).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    transform = ImageTransform(32, 32)
    batch = np.zeros((3, 3, 32, 32), np.float32)
    tensor, geometry = preprocess(image, transform, batch[1])
    assert np.shares_memory(tensor, batch)
    alone, same = preprocess(image, transform)
    np.testing.assert_array_equal(batch[1], alone)
    assert geometry == same
    assert not batch[[0, 2]].any()


def test_a_uint8_tensor_takes_grey_levels_only() -> None:
    canvas = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    plain = ImageTransform(4, 4, scale=1.0, dtype="uint8", channels="bgr", layout="nhwc")
    np.testing.assert_array_equal(normalise(canvas, plain), canvas)
    with refused(UsageProblem):
        normalise(canvas, ImageTransform(4, 4, dtype="uint8"))


@pytest.mark.parametrize("out", [np.zeros((3, 4, 5), np.float32), np.zeros((3, 4, 4), np.float64)])
def test_an_output_that_does_not_fit_is_refused(out: np.ndarray) -> None:
    with refused(UsageProblem):
        normalise(np.zeros((4, 4, 3), np.uint8), ImageTransform(4, 4), out)


def test_an_input_beyond_the_memory_is_refused() -> None:
    with refused(UsageProblem):
        letterbox(np.zeros((4, 4, 3), np.uint8), ImageTransform(2**31 - 1, 2**31 - 1))
