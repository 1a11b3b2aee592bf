"""Images as INT8 calibration data: prepared by the very transform that inference uses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.calibration import CalibrationImages, calibration_files, hash_data, holds_images
from trt_workbench.model.opened import Model
from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.decode import ImageReader
from trt_workbench.vision.families.base import Family
from trt_workbench.vision.families.metadata import read_facts
from trt_workbench.vision.families.recognise import family_of
from trt_workbench.vision.families.semantic import Semantic
from trt_workbench.vision.forms.found import DESCRIPTIONS, look_for_data
from trt_workbench.vision.letterbox import preprocess

CALIBRATION_SPLIT: Final = "train"


class ImageFiles(NamedTuple):
    """Images; `words` says which part of which data set they are, "" of all in a folder."""

    files: tuple[Path, ...]
    words: str = ""


def image_files(data: Path, split: str | None = None, default: str = CALIBRATION_SPLIT) -> ImageFiles | None:
    """Return the images in `data`; None if it holds arrays.

    Args:
        data: an image, a folder with images, a file that describes a data set, or the folder of one.
        split: that the user named.
        default: the split of a data set otherwise; a folder that is none, or lacks it, stands for all below it.

    Raises:
        UsageProblem: there is nothing, or not that split.
    """
    described = data.is_file() and data.suffix.lower() in DESCRIPTIONS
    if described or data.is_dir():
        place = look_for_data(data, split or (None if data.suffix.lower() == ".json" else default))
        if place and not place.of_images:
            listed = read_dataset(place.images, place.annotations, split=place.split, allow_missing=True)
            files = tuple(map(listed.path, listed.images))
            return ImageFiles(files, f"{counted(len(files), 'image')} of {place.words}")
    if split:
        raise UsageProblem(f"There is no data set with a split {split!r}: {data}")
    return ImageFiles(tuple(calibration_files(data))) if holds_images(data) else None


def hash_images(data: Path) -> str:
    """Return a hash of calibration data: of its images where a data set lists them. Raises as `image_files`."""
    found = image_files(data)
    return hash_data(data, found.files if found and found.words else None)


def calibration_images(
    model: Model,
    data: Path | ImageFiles,
    said: Preparation = AS_THE_MODEL_SAYS,
    split: str | None = None,
    default: str = CALIBRATION_SPLIT,
) -> CalibrationImages | None:
    """Return how the images in `data` are prepared for `model`; None if `data` holds arrays.

    Args:
        model: a detector, or any that takes images where the user says how they are normalised and resized.
        data: calibration data, or the images themselves.
        said: what the user says of the images.
        split: as of `image_files`.
        default: as of `image_files`.

    Raises:
        UsageProblem: there is no data, or the model's family is unknown.
    """
    if (listed := data if isinstance(data, ImageFiles) else image_files(data, split, default)) is None:
        return None
    found, images = _prepares(model, said), ImageReader(said.exif)
    transform, name = found.preparation(), model.facts.inputs[0].name
    constants = {name: array[0] for name, array in found.constants(1).items()}

    def read(path: Path) -> dict[str, NDArray[Any]]:
        return {name: preprocess(images(path), transform)[0], **constants}

    turned = {"exif": said.exif} if said.exif == "apply" else {}
    description = json.dumps({**dataclasses.asdict(transform), **turned}, sort_keys=True)
    used = [f"Images: {listed.words}."] if listed.words else []
    return CalibrationImages(listed.files, bool(used), read, description, lambda: [*used, *images.notes()])


def _prepares(model: Model, said: Preparation) -> Family:
    """Return what prepares images: a model's family, or any where the user says all of it, as no output is read."""
    try:
        return family_of(model, said)
    except UsageProblem as problem:
        if said.family or len(model.facts.inputs) > 1:
            raise
        if not (said.normalize and said.resize):
            raise UsageProblem(f"{problem} To prepare images, --normalize and --resize say enough.") from problem
        inputs, outputs = (tuple(map(TensorSpec.of, tensors)) for tensors in (model.facts.inputs, model.facts.outputs))
        return Semantic(outputs[0], None, read_facts(inputs, outputs, model.facts.metadata, said, forced=True))
