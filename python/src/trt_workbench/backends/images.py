"""How a decoded image becomes a model's input tensor: the description that CPU and GPU implementations share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Inputs of a model that takes images alone."""


@dataclass(frozen=True)
class ImageTransform:
    """Resizing and normalisation of one detector input.

    A pixel value v of channel c becomes (v * scale - mean[c]) / std[c]; mean and std are in the order of `channels`.

    Attributes:
        height: rows of the input tensor, in pixels.
        width: columns of the input tensor, in pixels.
        placement: where the resized image lies in the padded one; "stretch" fills the input without keeping the
            aspect ratio, whatever `scale_up` and `rounding` say; "crop" fills it with the centre of the image.
        pad_value: grey level of the padding, 0 to 255.
        scale_up: whether an image smaller than the input is enlarged.
        rounding: of the resized sides: to the nearest pixel (half to even), or "down" as YOLOX does.
        channels: channel order of the tensor; decoded images are always BGR.
        scale: factor on the 0-255 grey levels, 1/255 for most detectors, 1 for YOLOX.
        mean: subtracted after scaling.
        std: divides last.
        layout: memory order of the tensor.
        dtype: "float32", "float16" or "uint8".
        antialias: whether an image that is made smaller is smoothed, as Pillow and torchvision do; on the processor
            alone.
        crop: of "crop", the input's share of the resized image's shorter side.
    """

    height: int
    width: int
    placement: Literal["centre", "top-left", "stretch", "crop"] = "centre"
    pad_value: int = 114
    scale_up: bool = True
    rounding: Literal["nearest", "down"] = "nearest"
    channels: Literal["rgb", "bgr"] = "rgb"
    scale: float = 1.0 / 255.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    layout: Literal["nchw", "nhwc"] = "nchw"
    dtype: Literal["float32", "float16", "uint8"] = "float32"
    antialias: bool = False
    crop: float = 1.0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image's tensor in the memory order of `layout`."""
        size = (self.height, self.width)
        return (3, *size) if self.layout == "nchw" else (*size, 3)


@dataclass(frozen=True)
class Place:
    """Where an output holds values of each item of an image, such as its box.

    Attributes:
        output: its name.
        first: index of the first value among those of the image.
        item: step to the next item.
        inner: step to the next value of an item.
    """

    output: str
    first: int = 0
    item: int = 1
    inner: int = 1


@dataclass(frozen=True)
class Head:
    """How a detector's outputs become boxes, for a device that finds them itself.

    Attributes:
        height: of the input, in pixels.
        width: of the input.
        items: rows, anchors, cells or queries of an image.
        classes: how many there are; 0 of "rows" where that is not known.
        kind: what is a candidate: every pair of item and class, the best class of every item, the same multiplied by
            objectness ("cells"), or every item, which has one score and its class ("rows").
        boxes: of an item's four values.
        scores: of its scores, one a class.
        conf: lowest score.
        max_dets: boxes of an image.
        form: what the four values are: corners, centre and size, or the latter as shares of the input.
        objectness: of "cells".
        labels: of the classes of "rows".
        background: of a value of each item that is no class, but must be finite.
        more: of further values of an item, which go with its box.
        values: how many of those an item has.
        planes: of planes that these values weigh, which makes a mask of each box: an item is a plane, its values are
            the pixels.
        plane_height: of a plane, in its pixels, at most that of the input.
        plane_width: likewise.
        label_major: whether of equal scores the one of the first class counts, not that of the first item.
        logits: whether a score is the sigmoid of its value.
        sizes: of "cells", whether they are offsets in the cell and logarithms ("raw").
        strides: of the levels of "cells", finest first.
        iou: overlap above which a better box of its class drops one; None for no suppression.
        most: best candidates that count; 0 for all.
    """

    height: int
    width: int
    items: int
    classes: int
    kind: Literal["pairs", "best", "cells", "rows"]
    boxes: Place
    scores: Place
    conf: float
    max_dets: int
    form: Literal["corners", "centre", "shares"] = "corners"
    objectness: Place | None = None
    labels: Place | None = None
    background: Place | None = None
    more: Place | None = None
    values: int = 0
    planes: Place | None = None
    plane_height: int = 0
    plane_width: int = 0
    label_major: bool = False
    logits: bool = False
    sizes: Literal["by-value", "raw", "decoded"] = "by-value"
    strides: tuple[int, ...] = ()
    iou: float | None = None
    most: int = 0


class FoundBoxes(NamedTuple):
    """What a device found in one image, best first.

    Attributes:
        boxes: float32 [K, 4], in pixels of the input.
        scores: float32 [K].
        labels: int64 [K].
        more: float32 [K, values], of a head that has further values.
        masks: uint32, of a head that has planes: box by box a bit for each whole pixel of the input in it, row by row,
            first pixel lowest; every row begins in a new word.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    more: NDArray[np.float32] | None = None
    masks: NDArray[np.uint32] | None = None


class FoundOnDevice(NamedTuple):
    """What a device found in images.

    Attributes:
        boxes: of each image; None where its outputs hold something that only the processor can judge.
        outputs: the model's, if they were asked for or something has to be judged.
    """

    boxes: list[FoundBoxes] | None
    outputs: dict[str, NDArray[Any]]


Pixels: TypeAlias = "NDArray[np.uint8]"
"""A decoded image, uint8 [H, W, 3] in BGR."""


@runtime_checkable
class ImageSession(Protocol):
    """What a session offers besides `run` if it can letterbox decoded images on its device."""

    def run_images(
        self, images: Sequence[Pixels], transform: ImageTransform, more: Mapping[str, NDArray[Any]] = NOTHING
    ) -> dict[str, NDArray[Any]]:
        """Letterbox `images` into one batch on the device and execute the model once.

        Args:
            images: one per item of the batch, of any sizes.
            transform: how they become the input tensor, which is the model's first.
            more: the model's other inputs by name; only a model that has some is run with them.

        Returns:
            One array for every output, owned by the caller; its first dimension is the batch.

        Raises:
            UsageProblem: the model has other inputs, or the images or the transform do not fit it.
            DeviceFailure: the device failed while executing.
        """


@runtime_checkable
class DetectingSession(ImageSession, Protocol):
    """What a session offers besides if it finds boxes in a detector's outputs on its device."""

    def find_boxes(
        self,
        images: Sequence[Pixels],
        transform: ImageTransform,
        head: Head,
        *,
        with_outputs: bool,
        more: Mapping[str, NDArray[Any]] = NOTHING,
    ) -> FoundOnDevice:
        """Execute the model on images as `run_images` does, and find what its outputs say.

        Args:
            images: as `run_images` takes them.
            transform: likewise.
            head: how outputs become boxes.
            with_outputs: whether the outputs of the same call are returned, too.
            more: likewise.

        Raises:
            UsageProblem: as `run_images`; the outputs do not fit the head, or are not on the device.
            ComponentMissing: the device cannot find boxes.
            DeviceFailure: the device failed while executing.
        """
