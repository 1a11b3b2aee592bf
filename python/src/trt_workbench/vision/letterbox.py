"""Decoded image to input tensor and boxes back: resize with kept aspect ratio, pad, normalise."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trt_workbench.backends.images import ImageTransform
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.memory import require_room

# A share such as 224/232, written with few digits, still gives 232.
_NEARLY = 1e-3
# Up to so many boxes, as many as there are by default, what maps them back is kept for each of them.
_ROWS = 300


@dataclass(frozen=True, eq=False)  # of one image size there is one, whose address is hashed in no time
class Geometry:
    """Where an image lies in the input: x_input = x_source * scale_x + left, y alike.

    Coordinates are continuous, with 0 at the outer edge of the first pixel and the width at that of the last.

    Attributes:
        scale_x: resized width divided by source width.
        scale_y: resized height divided by source height.
        left: padding at the left, in input pixels; negative where the image is cropped.
        top: padding at the top, in input pixels.
        source: (height, width) of the image before it was resized.
        ratio: the one that both scales are of before the sides are rounded; 0 for a stretched image, which has none.
    """

    scale_x: float
    scale_y: float
    left: int
    top: int
    source: tuple[int, int]
    ratio: float

    @property
    def resized(self) -> tuple[int, int]:
        """(height, width) of the image inside the input, without the padding."""
        return round(self.source[0] * self.scale_y), round(self.source[1] * self.scale_x)


def find_geometry(height: int, width: int, transform: ImageTransform) -> Geometry:
    """Return the place of an image of `height` by `width` pixels in the input that `transform` describes.

    The ratio is the largest with which the image fits (at most 1 unless `scale_up`); the resized sides are rounded as
    `transform.rounding` says. A centred image has the smaller half of an odd padding at the top and left, as in
    Ultralytics' LetterBox. A stretched image takes both sides of the input. A cropped one covers it and reaches beyond
    it, the shorter side by `transform.crop`, as with torchvision's Resize and CenterCrop.

    Raises:
        UsageProblem: a size is not positive.
    """
    size = (transform.height, transform.width)
    return _find((height, width), size, transform.placement, transform.rounding, transform.scale_up, transform.crop)


# Kept, as the images of one camera have one size; by values, as a transform takes longer to hash.
@functools.lru_cache(maxsize=64)
def _find(
    source: tuple[int, int],
    target: tuple[int, int],
    placement: Literal["centre", "top-left", "stretch", "crop"],
    rounding: Literal["nearest", "down"],
    scale_up: bool,
    crop: float,
) -> Geometry:
    if min(*source, *target) < 1:
        image, model = (f"{height}x{width}" for height, width in (source, target))
        raise UsageProblem(f"Sizes in pixels must be at least 1; the image is {image}, the model's input {model}.")
    if placement == "crop":
        shorter = int(max(target) / crop + _NEARLY)
        height, width = (int(shorter * side / min(source)) for side in source)
        if target[0] != target[1]:  # as Ultralytics, which has no rule for it
            height, width = target
        # half to even, as Python and torchvision round
        top, left = round((target[0] - height) / 2), round((target[1] - width) / 2)
        return Geometry(width / source[1], height / source[0], left, top, source, 0.0)
    if placement == "stretch":
        return Geometry(target[1] / source[1], target[0] / source[0], 0, 0, source, 0.0)
    ratio = min(target[0] / source[0], target[1] / source[1])
    if not scale_up:
        ratio = min(ratio, 1.0)
    to_pixels = round if rounding == "nearest" else int
    height, width = (max(1, to_pixels(side * ratio)) for side in source)
    top = left = 0
    if placement == "centre":
        top = round((target[0] - height) / 2 - 0.1)
        left = round((target[1] - width) / 2 - 0.1)
    return Geometry(width / source[1], height / source[0], left, top, source, ratio)


def letterbox(image: NDArray[np.uint8], transform: ImageTransform) -> tuple[NDArray[np.uint8], Geometry]:
    """Resize `image` bilinearly into a padded canvas, or crop it; where asked for with antialiasing.

    Args:
        image: uint8 [h, w, 3], BGR.
        transform: its size, placement, padding value, `scale_up`, `antialias` and `crop` are used.

    Returns:
        uint8 [transform.height, transform.width, 3] in BGR, and where the image lies in it.

    Raises:
        UsageProblem: the image has no pixels, or the model's is larger than the memory.
    """
    geometry = find_geometry(image.shape[0], image.shape[1], transform)
    height, width = geometry.resized
    require_room("An image for the model", (transform.height, transform.width, 3), 1)
    canvas = np.full((transform.height, transform.width, 3), transform.pad_value, np.uint8)
    if transform.placement == "crop":
        require_room("A resized image", (height, width, 3), 1)
        resized = _smoothed(image, height, width)
        canvas[...] = resized[-geometry.top :, -geometry.left :][: transform.height, : transform.width]
        return canvas, geometry
    inside = canvas[geometry.top : geometry.top + height, geometry.left : geometry.left + width]
    if (height, width) == geometry.source:
        inside[...] = image
    elif transform.antialias:
        inside[...] = _smoothed(image, height, width)
    else:
        cv2.resize(image, (width, height), dst=inside, interpolation=cv2.INTER_LINEAR)
    return canvas, geometry


def _smoothed(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize with antialiasing, as torchvision and transformers do, by Pillow too.

    Rows first, as Pillow before 13; since then it takes the cheaper order, which changes values by one grey level.
    """
    across = Image.fromarray(image).resize((width, image.shape[0]), Image.Resampling.BILINEAR)
    return np.asarray(across.resize((width, height), Image.Resampling.BILINEAR), np.uint8)


def normalise(canvas: NDArray[np.uint8], transform: ImageTransform, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Turn a padded BGR image into the tensor that the model takes.

    Every value becomes (v * scale - mean[c]) / std[c], computed in float32 as one multiplication and one addition.

    Args:
        canvas: uint8 [H, W, 3], BGR.
        transform: its channel order, scale, mean, std, layout and dtype are used.
        out: where to write, such as one image of a batch; of the shape and dtype of the result.

    Returns:
        [3, H, W] for "nchw" or [H, W, 3] for "nhwc", of `transform.dtype`; `out` if it was given.

    Raises:
        UsageProblem: `out` does not fit, or a uint8 tensor is asked for together with a normalisation.
    """
    height, width = canvas.shape[:2]
    shape = (3, height, width) if transform.layout == "nchw" else (height, width, 3)
    if out is None:
        out = np.empty(shape, transform.dtype)
    elif out.shape != shape or out.dtype != transform.dtype:
        raise UsageProblem(
            f"The output array is {out.dtype} {list(out.shape)}; the tensor is {transform.dtype} {list(shape)}."
        )
    factors = [transform.scale / std for std in transform.std]
    offsets = [-mean / std for mean, std in zip(transform.mean, transform.std, strict=True)]
    if transform.dtype == "uint8" and (factors != [1.0] * 3 or any(offsets)):
        raise UsageProblem("A uint8 input tensor takes unscaled pixel values; set scale 1, mean 0 and std 1.")
    # Plane by plane: three times faster than one strided transposition.
    planes = cv2.split(canvas)
    order = planes if transform.channels == "bgr" else planes[::-1]
    for channel, plane in enumerate(order):
        target = out[channel] if transform.layout == "nchw" else out[..., channel]
        _write_plane(np.asarray(plane), factors[channel], offsets[channel], target)
    return out


def preprocess(
    image: NDArray[np.uint8], transform: ImageTransform, out: NDArray[Any] | None = None
) -> tuple[NDArray[Any], Geometry]:
    """Letterbox and normalise one decoded image. Arguments, results and errors are those of the two steps."""
    canvas, geometry = letterbox(image, transform)
    return normalise(canvas, transform, out), geometry


def restore_boxes(
    boxes: NDArray[np.float32], geometry: Geometry, *, clip: bool, one_ratio: bool = False
) -> NDArray[np.float32]:
    """Map xyxy boxes [K, 4] from input pixels to source pixels.

    Both choices change average precision a little; `Family.restore` makes them as the family's own evaluation does.

    Args:
        boxes: float32 [K, 4].
        geometry: where the image lies in the input.
        clip: confine them to the image.
        one_ratio: divide both axes by the ratio before it was rounded to whole pixels, not each by its own scale.
    """
    count = len(boxes)
    scale, shift, low, high = _vectors(geometry, one_ratio and geometry.ratio > 0, count if count <= _ROWS else 1)
    restored = np.subtract(boxes, shift)
    np.divide(restored, scale, out=restored)
    if clip:  # `clip` itself takes longer than both
        np.maximum(restored, low, out=restored)
        np.minimum(restored, high, out=restored)
    return restored


@functools.lru_cache(maxsize=256)
def _vectors(geometry: Geometry, one_ratio: bool, rows: int) -> tuple[NDArray[np.float32], ...]:
    """Return scale, shift, zeros and the source's size, as x, y, x, y. The arrays are shared: read-only.

    In so many equal rows, as numpy takes three times as long where it has to repeat one.
    """
    height, width = geometry.source
    scales = (geometry.ratio, geometry.ratio) if one_ratio else (geometry.scale_x, geometry.scale_y)
    pairs = scales, (geometry.left, geometry.top), (0.0, 0.0), (width, height)
    arrays = tuple(np.full((rows, 4), pair * 2, np.float32) for pair in pairs)
    for array in arrays:
        array.flags.writeable = False
    return arrays


@functools.lru_cache(maxsize=64)
def _halves(factor: float, offset: float) -> NDArray[np.uint16]:
    """Return the bits of what each of 256 grey levels becomes in float16."""
    with np.errstate(over="ignore"):  # of a level that no image may have
        values = (np.arange(256, dtype=np.float32) * np.float32(factor) + np.float32(offset)).astype(np.float16)
    return values.view(np.uint16)


def _write_plane(plane: NDArray[np.uint8], factor: float, offset: float, target: NDArray[Any]) -> None:
    if target.dtype == np.float16:  # which numpy rounds to one value at a time, ten times as slowly
        np.copyto(target.view(np.uint16), cv2.LUT(plane, _halves(factor, offset)))
        return
    if factor == 1.0 and offset == 0.0:
        np.copyto(target, plane)
        return
    if offset == 0.0 and target.dtype == np.float32:
        np.multiply(plane, np.float32(factor), out=target)
        return
    values = np.multiply(plane, np.float32(factor))
    values += np.float32(offset)
    np.copyto(target, values, casting="same_kind")
