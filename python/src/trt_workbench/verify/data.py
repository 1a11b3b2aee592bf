"""The user's own inputs: samples from array files, whose rows are put together to batches of any size."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import Arrays
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.backends.samples import Sample, read_samples, require_sources, source_path
from trt_workbench.core.array_files import ARRAY_SUFFIXES
from trt_workbench.core.elements import Kind, is_finite, kind
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.hashing import hash_file, hash_folder, hash_parts
from trt_workbench.core.image_files import images_below
from trt_workbench.model.opened import Model
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import Case, Space

_IMAGE_RANK, _MOST_CHANNELS = 4, 4
# Of a folder; larger batches repeat the first ones.
_MOST_IMAGES = 64


class Data:
    """Samples that fit a model, all read. Those whose shapes differ in more than the batch are kept separately."""

    def __init__(
        self,
        sources: Sequence[str],
        specs: Sequence[TensorSpec],
        model: Model | None = None,
        preparation: Preparation = AS_THE_MODEL_SAYS,
        split: str | None = None,
    ) -> None:
        """Read the samples, as `infer-engine --input` does; images as calibration does, of a data set those of a split.

        Raises:
            UsageProblem: a file is absent or does not fit the model, or its image preprocessing is unknown.
        """
        self._samples: list[Sample] = _images(sources, specs, model, preparation, split) or list(
            read_samples(sources, specs)
        )

    def spaces(self, space: Space) -> list[tuple[Space, list[Arrays]]]:
        """Return the shapes of a space that the samples have, with every size of the batch, and the samples of each.

        Raises:
            UsageProblem: no sample fits the space.
        """
        found: dict[tuple[tuple[str, int], ...], list[Arrays]] = {}
        for sample in self._samples:
            sizes = space.sizes_of({k: v.shape for k, v in sample.inputs.items()}, with_batch=False)
            if sizes is not None:
                found.setdefault(tuple(sorted(sizes.items())), []).append(sample.inputs)
        if not found:
            shapes = "; ".join(f"{name} {list(array.shape)}" for name, array in self._samples[0].inputs.items())
            raise UsageProblem(f"No sample of --inputs has shapes that the target accepts; the first one has {shapes}.")
        fixed = []
        for key, samples in found.items():
            here = {name: Range(size, size, size) for name, size in key}
            ranges = {name: here.get(name, around) for name, around in space.ranges.items()}
            fixed.append((dataclasses.replace(space, ranges=ranges), samples))
        return fixed


def require_inputs(sources: Sequence[str], preparation: Preparation, split: str | None) -> None:
    """Refuse what can be refused of inputs before an engine is built for them.

    Raises:
        UsageProblem: there is nothing at a path, no such family or split, or an option has no inputs.
    """
    require_sources(sources)
    if preparation.family:
        _vision("families.recognise").check_family(preparation.family, "--family")
    if split and not sources:
        raise UsageProblem("--split needs --inputs, a data set.")
    if split and len(sources) == 1:
        _image_files(source_path(sources[0]), split)


def _image_files(path: Path, split: str | None) -> Any:
    return _vision("calibration").image_files(path, split, _vision("forms.form").DEFAULT_SPLIT)


def hash_sources(sources: Sequence[str], split: str | None) -> list[str]:
    """Return a hash of each source of samples; of images it is of those that are read.

    Raises:
        UsageProblem: there is nothing, or not that split.
        OSError: a file cannot be read.
    """
    require_sources(sources)
    found = []
    for source in sources:
        path = source_path(source)
        if (split or not path.is_dir() or next(images_below(path), None)) and (images := _image_files(path, split)):
            found.append(hash_parts((str(file), hash_file(file)) for file in images.files[:_MOST_IMAGES]))
        else:
            found.append(hash_folder(path) if path.is_dir() else hash_file(path))
    return found


def at(samples: Sequence[Arrays], space: Space, case: Case, first: int) -> Arrays:
    """Return the inputs of a case, made of the samples' rows from number `first` on, repeated as needed.

    Args:
        samples: of the case's shapes, but for the batch.
        space: that the case is of.
        case: its shapes.
        first: number of the first row; inputs without a batch are those of the sample with that number.
    """
    inputs: Arrays = {}
    for name, array in samples[first % len(samples)].items():
        if space.is_batched(name) and case.batch is not None:
            rows = np.concatenate([sample[name] for sample in samples])
            inputs[name] = np.ascontiguousarray(rows[np.arange(first, first + case.batch) % len(rows)])
        else:
            inputs[name] = array
    return inputs


def within(samples: Sequence[Arrays], given: Arrays, seed: int) -> Arrays:
    """Return inputs with floats drawn evenly between the least and largest of all samples, by channel of images."""
    inputs = dict(given)
    for name, array in given.items():
        if kind(array) is Kind.REAL:
            channels = array.ndim == _IMAGE_RANK and array.shape[1] <= _MOST_CHANNELS
            axes = (0, 2, 3) if channels else None
            rows = [np.where(is_finite(one[name]), one[name], 0).astype(np.float64) for one in samples]
            low, high = (
                functools.reduce(end, [choose(one, axis=axes, keepdims=True) for one in rows])
                for end, choose in ((np.minimum, np.min), (np.maximum, np.max))
            )
            drawn = np.random.default_rng([seed, zlib.crc32(name.encode())]).random(array.shape)
            inputs[name] = (low + (high - low) * drawn).astype(array.dtype)
    return inputs


def image_ranges(model: Model, preparation: Preparation) -> dict[str, Range]:
    """Return the one size of the dynamic height and width of a vision model's images, by `input.axis`.

    It is what the user or the model's metadata says: such models run at multiples of their stride alone, and are used
    at that size. Empty for other models, and where nobody says it.
    """
    images = next(iter(model.facts.inputs), None)
    shape = images.shape if images else None
    if images is None or shape is None or len(shape) != _IMAGE_RANK:
        return {}
    if not (free := {axis for axis in range(1, _IMAGE_RANK) if not isinstance(shape[axis], int)}):
        return {}
    recognise = _vision("families.recognise")
    try:
        facts = recognise.family_of(model, preparation).facts
    except (UsageProblem, ComponentMissing):
        if preparation.family or preparation.imgsz:
            raise
        return {}
    sides = zip((2, 3) if facts.layout == "nchw" else (1, 2), facts.input_size, strict=True)
    return {f"{images.name}.{axis}": Range(side, side, side) for axis, side in sides if axis in free}


def _vision(module: str) -> Any:
    """Return a module by its name: scoring detectors verifies their engines, and no two packages import each other."""
    return importlib.import_module(f"trt_workbench.vision.{module}")


def _images(
    sources: Sequence[str],
    specs: Sequence[TensorSpec],
    model: Model | None,
    preparation: Preparation,
    split: str | None,
) -> list[Sample]:
    """Return images as samples, prepared as the model's family takes them; none where the source holds arrays."""
    path = Path(sources[0].removeprefix(f"{specs[0].name}="))
    arrays = path.suffix in ARRAY_SUFFIXES or (path.is_dir() and next(images_below(path), None) is None)
    if len(sources) != 1 or not path.exists() or arrays:
        if split:
            raise UsageProblem(f"--split is of a data set of images, which --inputs is not: {path}")
        return []
    calibration, default = _vision("calibration"), _vision("forms.form").DEFAULT_SPLIT
    if model is None:
        if calibration.image_files(path, split, default) is None:
            return []
        raise UsageProblem(f"The preprocessing of images is read from the model; pass it with --model: {path}")
    try:
        images = calibration.calibration_images(model, path, preparation, split, default)
    except UsageProblem as problem:
        raise UsageProblem(f"{problem} Or give the inputs as .npy or .npz files: {path}") from problem
    types = {spec.name: spec.dtype for spec in specs}
    return [
        Sample(str(file), {name: array[None].astype(types[name]) for name, array in images.read(file).items()})
        for file in (images.files[:_MOST_IMAGES] if images else ())
    ]
