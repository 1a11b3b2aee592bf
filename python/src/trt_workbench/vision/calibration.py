"""Images as INT8 calibration data: prepared by the very transform that inference uses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.engine.calibration import holds_images
from trt_workbench.model.opened import Model
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.families.recognise import family_of
from trt_workbench.vision.letterbox import preprocess


@dataclass(frozen=True)
class CalibrationImages:
    """How calibration images become input tensors.

    Attributes:
        read: from an image file to the model's inputs by name, without batch dimension.
        description: of the transform; part of the calibration data's hash.
        notes: returns notes for the user about the images read so far, in sentences.
    """

    read: Callable[[Path], dict[str, NDArray[Any]]]
    description: str
    notes: Callable[[], list[str]]


def calibration_images(model: Model, data: Path, said: Preparation = AS_THE_MODEL_SAYS) -> CalibrationImages | None:
    """Return how the images in `data` are prepared for `model`; None if `data` holds arrays.

    Args:
        model: a detector.
        data: calibration data.
        said: what the user says of the images.

    Raises:
        UsageProblem: there is no data, or the model's family is unknown.
    """
    if not holds_images(data):
        return None
    found, images = family_of(model, said), ImageReader(said.exif)
    transform, name = found.preparation(), model.facts.inputs[0].name
    constants = {name: array[0] for name, array in found.constants(1).items()}

    def read(path: Path) -> dict[str, NDArray[Any]]:
        return {name: preprocess(images(path), transform)[0], **constants}

    turned = {"exif": said.exif} if said.exif == "apply" else {}
    description = json.dumps({**dataclasses.asdict(transform), **turned}, sort_keys=True)
    return CalibrationImages(read, description, images.notes)
