"""How images are prepared and a detector's outputs are read, as far as its file does not say. Imports nothing heavy."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Self

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.input_files import parse_json
from trt_workbench.core.settings import Setting

_IMAGES = "Images"

Normalize = Literal["none", "imagenet", "0-255"]
"""Pixels from 0 to 1, the same with ImageNet's mean and deviation, or grey levels as they are."""
Resize = Literal["letterbox", "stretch", "stretch-antialias"]
ChannelOrder = Literal["rgb", "bgr"]
Background = Literal["none", "first", "last"]
Exif = Literal["apply", "ignore"]


def read_size(option: str, text: str) -> tuple[int, int]:
    """Return (height, width) of `640` or `480x640`. Raises UsageProblem for another form."""
    sides = [whole_number(side) for side in text.lower().split("x")]
    if len(sides) > 2 or not all(sides):
        raise UsageProblem(f"{option} takes one number or height x width, such as 640 or 480x640, not {text!r}.")
    return sides[0] or 0, sides[-1] or 0


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How a detector takes images, and what of its outputs is a class; None for what the model or its family says."""

    family: Annotated[
        str | None,
        Setting(
            "Family (yolov10, yolov8, yolox, detr, detr-logits, detr-pixels, yolov8-seg, yolov10-seg, detr-masks, "
            "yolov8-pose, yolov10-pose, yolov8-obb, yolov10-obb, classifier, semantic); recognised by default.",
            _IMAGES,
        ),
    ] = None
    imgsz: Annotated[
        tuple[int, int] | None,
        Setting(
            "Input size, 640 or 480x640 (height x width), for a model with dynamic input size.",
            _IMAGES,
            kind=str,
            read=read_size,
        ),
    ] = None
    normalize: Annotated[
        Normalize | None,
        Setting("Pixels from 0 to 1 (none), with ImageNet's mean and standard deviation, or 0-255.", _IMAGES),
    ] = None
    resize: Annotated[
        Resize | None, Setting("Keep the aspect ratio and pad, or stretch to the input size.", _IMAGES)
    ] = None
    channel_order: Annotated[ChannelOrder | None, Setting("Channel order of the model's input.", _IMAGES)] = None
    background: Annotated[Background | None, Setting("Slot of a DETR's logits that is the background.", _IMAGES)] = None
    exif: Annotated[Exif, Setting("Apply or ignore the EXIF rotation of images; COCO's tools ignore it.", _IMAGES)] = (
        "ignore"
    )

    @classmethod
    def of(cls, settings: Any) -> Self:
        """Return the part of larger settings that says how images are prepared."""
        return cls(**{one.name: getattr(settings, one.name) for one in fields(cls) if hasattr(settings, one.name)})


AS_THE_MODEL_SAYS = Preparation()


def metadata_size(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Return height and width of the images that a model was exported for; None where its metadata does not say.

    Raises:
        UsageProblem: it says something else.
    """
    text = metadata.get("imgsz")
    if not text:
        return None
    value = metadata_literal("imgsz", text)
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(side, int) for side in value):
        return value[0], value[1]
    raise UsageProblem(f"The model's metadata `imgsz` is not a size or a pair of height and width: {text[:80]}")


def metadata_literal(key: str, text: str) -> Any:
    """Return a value of a model's metadata. Raises UsageProblem where it is neither JSON nor a literal of Python."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise UsageProblem(
            f"The model's metadata `{key}` cannot be read as JSON or as a Python literal: {text[:80]}"
        ) from error
