"""Images as INT8 calibration data: prepared by the very transform that inference uses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.calibration import holds_images
from trt_workbench.model.opened import Model
from trt_workbench.vision.decode import Exif, ImageReader
from trt_workbench.vision.families.recognise import family_of
from trt_workbench.vision.letterbox import preprocess


@dataclass(frozen=True)
class CalibrationImages:
    """How calibration images become input tensors.

    Attributes:
        read: from an image file to one input tensor without batch dimension.
        description: of the transform; part of the calibration data's hash.
        notes: returns notes for the user about the images read so far, in sentences.
    """

    read: Callable[[Path], NDArray[Any]]
    description: str
    notes: Callable[[], list[str]]


def calibration_images(
    model: Model,
    data: Path,
    family: str | None = None,
    imgsz: tuple[int, int] | None = None,
    exif: Exif = "ignore",
) -> CalibrationImages | None:
    """Return how the images in `data` are prepared for `model`; None if `data` holds arrays.

    Args:
        model: a detector.
        data: calibration data.
        family: detector family; None to recognise it.
        imgsz: (height, width) in pixels for a model that takes any size.
        exif: what becomes of an EXIF orientation.

    Raises:
        UsageProblem: there is no data, or the model's family is unknown.
    """
    if not holds_images(data):
        return None
    found, images = family_of(model, family, imgsz), ImageReader(exif)
    transform = found.transform()
    if more := found.constants(1):
        raise UsageProblem(
            f"Family {found.name} takes input {min(more)} besides the images, but calibration prepares only images; "
            f"give .npz files with all inputs: {data}"
        )

    def read(path: Path) -> NDArray[Any]:
        return preprocess(images(path), transform)[0]

    turned = {"exif": exif} if exif == "apply" else {}
    description = json.dumps({**dataclasses.asdict(transform), **turned}, sort_keys=True)
    return CalibrationImages(read, description, images.notes)
