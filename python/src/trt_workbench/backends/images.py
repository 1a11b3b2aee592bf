"""How a decoded image becomes a model's input tensor: the description that CPU and GPU implementations share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


@runtime_checkable
class ImageSession(Protocol):
    """What a session offers besides `run` if it can letterbox decoded images on its device."""

    def run_images(self, images: Sequence[NDArray[np.uint8]], transform: ImageTransform) -> dict[str, NDArray[Any]]:
        """Letterbox `images` into one batch on the device and execute the model once.

        Args:
            images: one uint8 array [H, W, 3] in BGR per item of the batch, of any sizes.
            transform: how they become the input tensor.

        Returns:
            One array for every output, owned by the caller; its first dimension is the batch.

        Raises:
            UsageProblem: the model has more than one input, or the images or the transform do not fit it.
            DeviceFailure: the device failed while executing.
        """
