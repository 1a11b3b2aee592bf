"""Batches for INT8 calibration from `.npy` and `.npz` files or a folder of images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.array_files import ARRAY_SUFFIXES, count_rows, is_array, load_arrays
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.core.hashing import hash_file, hash_folder, hash_parts
from trt_workbench.core.image_files import IMAGE_SUFFIXES, is_image
from trt_workbench.core.input_files import files_below
from trt_workbench.engine.options import Calibration
from trt_workbench.model.facts import ModelTensor

Batch = dict[str, NDArray[Any]]
# Ranges from fewer samples are poor: ultralytics warns below 300 images.
FEW_SAMPLES = 300
_BATCH = 8  # where the model leaves it open


@dataclass(frozen=True)
class CalibrationImages:
    """Images, and how they become input tensors.

    Attributes:
        files: in the order in which they are used.
        listed: whether a data set names them; else they are all that is there.
        read: from an image file to the model's inputs by name, without batch dimension.
        description: of the transform; part of the calibration data's hash.
        notes: returns notes for the user about the images read so far, in sentences.
    """

    files: tuple[Path, ...]
    listed: bool
    read: Callable[[Path], Batch]
    description: str
    notes: Callable[[], list[str]]


def calibration_files(data: Path) -> list[Path]:
    """Return the files of calibration data, in alphabetical order, without hidden ones.

    Raises:
        UsageProblem: there are none, or arrays and images lie in one folder.
    """
    require_there("calibration data", data)
    if data.is_file():
        return [data]
    found = sorted(files_below(data))
    arrays = [path for path in found if is_array(path.name)]
    images = [path for path in found if is_image(path.name)]
    if bool(arrays) == bool(images):
        problem = "holds both arrays and images" if arrays else "holds no .npy, .npz or image file"
        raise UsageProblem(f"The calibration data {problem}: {data}")
    return arrays or images


def holds_images(data: Path) -> bool:
    """Whether the calibration data are images. Raises UsageProblem as `calibration_files`."""
    return calibration_files(data)[0].suffix.lower() in IMAGE_SUFFIXES


def hash_calibration(data: Path, images: CalibrationImages | None = None) -> str:
    """Return a hash of the data and, for images, of the transform's description.

    Raises:
        UsageProblem: there is no data.
    """
    if images is None:
        return hash_data(data)
    return f"{hash_data(data, images.files if images.listed else None)}:{images.description}"


def hash_data(data: Path, listed: Sequence[Path] | None = None) -> str:
    """Return a hash of a file, of all in a folder, or of images that are listed. Raises as `hash_calibration`."""
    if listed is not None:
        return hash_parts((str(place), hash_file(file)) for place, file in enumerate(listed))
    files = calibration_files(data)
    return hash_folder(data) if data.is_dir() else hash_file(files[0])


def calibration_batches(
    calibration: Calibration, inputs: Sequence[str], images: CalibrationImages | None = None
) -> Iterator[Batch]:
    """Yield batches of a calibration that `fit_calibration` returned; the incomplete last one is dropped.

    A `.npy` file holds samples of the model's one input along its first axis; a `.npz` file holds one array an input.

    Args:
        calibration: where the data lies.
        inputs: the model's input names.
        images: needed where the data are images.

    Raises:
        UsageProblem: a file does not fit the model.
    """
    waiting: list[Batch] = []
    for sample in itertools.islice(_samples(calibration, inputs, images), calibration.limit):
        waiting.append(sample)
        if len(waiting) == calibration.batch:
            yield {name: np.ascontiguousarray(np.stack([one[name] for one in waiting])) for name in inputs}
            waiting = []


def count_samples(calibration: Calibration, images: CalibrationImages | None = None) -> int:
    """Return how many samples there are, up to the limit, without reading `.npy` files whole. Raises UsageProblem."""
    files = images.files if images else calibration_files(calibration.data)
    total = sum(count_rows(path) if path.suffix in ARRAY_SUFFIXES else 1 for path in files)
    return min(total, calibration.limit or total)


def fit_calibration(
    calibration: Calibration, inputs: Sequence[ModelTensor], images: CalibrationImages | None = None
) -> Calibration:
    """Return the calibration with the batch that fits the model, after a check of all that can be known before a build.

    Args:
        calibration: what is asked for.
        inputs: of the model.
        images: needed where the data are images.

    Raises:
        UsageProblem: a batch that was asked for, or a file, does not fit the model, or the data fill no batch.
    """
    names = [tensor.name for tensor in inputs]
    # of images, which share one transform, the first stands for all
    for path in images.files[:1] if images else calibration_files(calibration.data):
        for sample in itertools.islice(_file_samples(path, names, images), 1):
            for tensor in inputs:
                check_sample(path, sample[tensor.name], tensor)
    samples = count_samples(calibration, images)
    batch = _fitting_batch(calibration, inputs, samples)
    if samples < batch:
        raise UsageProblem(
            f"The calibration data has {counted(samples, 'sample')}, less than one batch of {batch}: {calibration.data}"
        )
    return calibration.model_copy(update={"batch": batch})


def _fitting_batch(calibration: Calibration, inputs: Sequence[ModelTensor], samples: int) -> int:
    fixed = {tensor.name: tensor.shape[0] for tensor in inputs if tensor.shape and isinstance(tensor.shape[0], int)}
    sizes = sorted({size for size in fixed.values() if isinstance(size, int)})
    if len(sizes) > 1:
        shapes = ", ".join(f"{name} {size}" for name, size in fixed.items())
        raise UsageProblem(
            f"The model's inputs have different batch sizes ({shapes}), so calibration data cannot be split into "
            "batches."
        )
    asked = calibration.batch
    if sizes and asked not in (None, sizes[0]):
        name = next(iter(fixed))
        raise UsageProblem(
            f"A calibration batch of {asked} does not fit the input {name}, whose batch is {sizes[0]}; omit the "
            "batch, and a fitting one is chosen."
        )
    return sizes[0] if sizes else asked or max(1, min(_BATCH, samples))


def check_sample(path: Path, sample: NDArray[Any], tensor: ModelTensor, remedy: str = "") -> None:
    """Raise UsageProblem unless a sample, without the batch dimension, is of an input's shape and type.

    What the reader of the data knows to do about another shape is the remedy.
    """
    wanted = tensor.shape
    fits = wanted is None or (
        len(wanted) == sample.ndim + 1
        and all(not isinstance(dim, int) or dim == size for dim, size in zip(wanted[1:], sample.shape, strict=True))
    )
    if not fits:
        assert wanted is not None
        dims = ", ".join("?" if dim is None else str(dim) for dim in wanted[1:])
        problem = f"have shape {list(sample.shape)}, but the model takes [{dims}] per sample{remedy}"
    elif sample.dtype.name != tensor.dtype:
        problem = f"are {sample.dtype.name}, but the model takes {tensor.dtype}"
    else:
        return
    raise UsageProblem(f"The samples of the input {tensor.name} {problem}: {path}")


def _samples(calibration: Calibration, inputs: Sequence[str], images: CalibrationImages | None) -> Iterator[Batch]:
    for path in images.files if images else calibration_files(calibration.data):
        yield from _file_samples(path, inputs, images)


def _file_samples(path: Path, inputs: Sequence[str], images: CalibrationImages | None) -> Iterator[Batch]:
    if path.suffix in ARRAY_SUFFIXES:
        yield from _array_samples(path, inputs)
        return
    if images is None:
        names = ", ".join(inputs)
        raise UsageProblem(f"Images can calibrate only detectors; give .npz files with {names} instead: {path}")
    yield images.read(path)


def _array_samples(path: Path, inputs: Sequence[str]) -> Iterator[Batch]:
    columns = array_columns(path, inputs)
    yield from (dict(zip(inputs, row, strict=True)) for row in zip(*columns.values(), strict=True))


def array_columns(path: Path, inputs: Sequence[str], *, others: bool = False) -> Batch:
    """Return the samples in a `.npy` or `.npz` file: by input an array with the samples along its first axis.

    Args:
        path: the file; other arrays than the inputs may be in it, such as targets.
        inputs: names.
        others: return those others instead.

    Raises:
        UsageProblem: the file does not fit the inputs.
    """
    arrays = load_arrays(path)
    if arrays.keys() == {""} and len(inputs) == 1:
        arrays = {inputs[0]: arrays[""]}
    if not arrays.keys() >= set(inputs):
        found = "one array" if arrays.keys() == {""} else sorted(arrays)
        raise UsageProblem(f"The file holds {found}, but the model takes {sorted(inputs)}: {path}")
    if len({array.shape[:1] for array in arrays.values()}) > 1 or any(array.ndim == 0 for array in arrays.values()):
        raise UsageProblem(f"The arrays in the file have different numbers of samples: {path}")
    return {name: arrays[name] for name in (sorted(arrays.keys() - set(inputs)) if others else inputs)}
