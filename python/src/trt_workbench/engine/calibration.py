"""Batches for INT8 calibration from `.npy` and `.npz` files or a folder of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.engine.array_files import ARRAY_SUFFIXES, count_rows, load_arrays
from trt_workbench.engine.hashing import hash_file, hash_folder
from trt_workbench.engine.options import Calibration
from trt_workbench.errors import UsageProblem

Batch = dict[str, NDArray[Any]]
ImageReader = Callable[[Path], NDArray[Any]]
"""Turns an image file into one input tensor without batch dimension, by the transform that inference uses."""

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
# Ranges from fewer samples are poor: ultralytics warns below 300 images.
FEW_SAMPLES = 300


def calibration_files(data: Path) -> list[Path]:
    """Return the files of calibration data, in alphabetical order.

    Raises:
        UsageProblem: there are none, or arrays and images lie in one folder.
    """
    if not data.exists():
        msg = f"The calibration data does not exist: {data}"
        raise UsageProblem(msg)
    if data.is_file():
        return [data]
    files = sorted(data.rglob("*")) if data.is_dir() else []
    arrays = [path for path in files if path.suffix in ARRAY_SUFFIXES]
    images = [path for path in files if path.suffix.lower() in IMAGE_SUFFIXES]
    if bool(arrays) == bool(images):
        problem = "holds both arrays and images" if arrays else "holds no .npy, .npz or image file"
        msg = f"The calibration data {problem}: {data}"
        raise UsageProblem(msg)
    return arrays or images


def holds_images(data: Path) -> bool:
    """Whether the calibration data are images. Raises UsageProblem as `calibration_files`."""
    return calibration_files(data)[0].suffix.lower() in IMAGE_SUFFIXES


def hash_calibration(calibration: Calibration, transform: str = "") -> str:
    """Return a hash of the data and, for images, of the transform's description.

    Raises:
        UsageProblem: there is no data.
    """
    files = calibration_files(calibration.data)
    content = hash_folder(calibration.data) if calibration.data.is_dir() else hash_file(files[0])
    return f"{content}:{transform}" if transform else content


def calibration_batches(
    calibration: Calibration, inputs: Sequence[str], read_image: ImageReader | None = None
) -> Iterator[Batch]:
    """Yield batches of `calibration.batch` samples; the incomplete last one is dropped.

    A `.npy` file holds samples of the model's one input along its first axis; a `.npz` file holds one array an input.

    Args:
        calibration: where the data lies.
        inputs: the model's input names.
        read_image: needed where the data are images, which are for a model with one input.

    Raises:
        UsageProblem: a file does not fit the model, or the data fill no batch.
    """
    samples = _samples(calibration, inputs, read_image)
    waiting: list[Batch] = []
    used = batches = 0
    for sample in samples:
        if calibration.limit is not None and used == calibration.limit:
            break
        used += 1
        waiting.append(sample)
        if len(waiting) == calibration.batch:
            batches += 1
            yield {name: np.ascontiguousarray(np.stack([one[name] for one in waiting])) for name in inputs}
            waiting = []
    if not batches:
        msg = f"The calibration data hold {used} samples, no batch of {calibration.batch}: {calibration.data}"
        raise UsageProblem(msg)


def count_samples(calibration: Calibration) -> int:
    """Return how many samples there are, up to the limit, without reading `.npy` files whole. Raises UsageProblem."""
    files = calibration_files(calibration.data)
    total = sum(count_rows(path) if path.suffix in ARRAY_SUFFIXES else 1 for path in files)
    return min(total, calibration.limit or total)


def _samples(calibration: Calibration, inputs: Sequence[str], read_image: ImageReader | None) -> Iterator[Batch]:
    for path in calibration_files(calibration.data):
        if path.suffix in ARRAY_SUFFIXES:
            yield from _array_samples(path, inputs)
            continue
        if read_image is None or len(inputs) != 1:
            msg = f"Images calibrate detectors with one input; give .npz files with {', '.join(inputs)} instead: {path}"
            raise UsageProblem(msg)
        yield {inputs[0]: read_image(path)}


def _array_samples(path: Path, inputs: Sequence[str]) -> Iterator[Batch]:
    arrays = load_arrays(path)
    if arrays.keys() == {""} and len(inputs) == 1:
        arrays = {inputs[0]: arrays[""]}
    if arrays.keys() != set(inputs):
        found = "one array" if arrays.keys() == {""} else sorted(arrays)
        msg = f"The calibration file holds {found}, the model takes {sorted(inputs)}: {path}"
        raise UsageProblem(msg)
    columns: dict[str, Iterable[NDArray[Any]]] = {name: arrays[name] for name in inputs}
    try:
        yield from (dict(zip(inputs, row, strict=True)) for row in zip(*columns.values(), strict=True))
    except ValueError as error:
        msg = f"The inputs in the calibration file differ in their number of samples: {path}"
        raise UsageProblem(msg) from error
