"""Inputs to run a model with: of the requested shapes, random, the same for the same seed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import metadata_size
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.counts import some
from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.memory import require_room
from trt_workbench.core.settings import FREE_SIZE

if TYPE_CHECKING:
    from trt_workbench.model.facts import ModelTensor
    from trt_workbench.model.opened import Model

Symbols = Mapping[str, Sequence[int | str | None]]
Arrays = dict[str, NDArray[Any]]
Kind = Literal["random", "signed", "zeros", "large"]
Ranges = Mapping[str, tuple[float, float]]

# Token ids are drawn below this, or below the length of the model's table where that is known and shorter.
SMALLEST_VOCABULARY = 256
# Of a number while it is drawn: as numpy draws it, and converted.
_DRAWN_BYTES = 16
_LARGE = 30.0
_SMALL_INTEGER = 4
# Caution with which whole numbers are drawn that no model refuses for their size.
SURE = 2
_IMAGE_RANK = 4
_CHANNELS = (1, 3, 4)
SHAPE_HINT = "set its shape, such as --shape {input}:{shape}"


def onnx_inputs(model: Path) -> tuple[ModelTensor, ...]:
    """Return the inputs of an ONNX model; nothing for other files.

    Raises:
        UsageProblem: the model cannot be read.
    """
    if model.suffix != ".onnx":
        return ()
    from trt_workbench.model.opened import Model

    return Model.open(model).facts.inputs


def dimension_symbols(tensors: Iterable[ModelTensor]) -> dict[str, tuple[int | str | None, ...]]:
    """Return the shapes of an ONNX model's inputs with the names of dynamic dimensions."""
    return {tensor.name: tensor.shape or () for tensor in tensors}


def limited(specs: Sequence[TensorSpec], model: Path) -> list[TensorSpec]:
    """Return a model's inputs as `with_limits`; the file is read only where one of them takes whole numbers.

    Raises:
        UsageProblem: the model cannot be read.
    """
    return with_limits(specs, onnx_inputs(model)) if any("int" in spec.dtype for spec in specs) else list(specs)


def with_limits(specs: Sequence[TensorSpec], tensors: Iterable[ModelTensor]) -> list[TensorSpec]:
    """Return inputs with the lengths of the tables that the model's own index, by name."""
    known = {tensor.name: tensor.below for tensor in tensors}
    return [replace(spec, below=known.get(spec.name)) for spec in specs]


def with_image_size(dims: Mapping[str, int], shapes: Symbols, imgsz: tuple[int, int] | None) -> dict[str, int]:
    """Return `dims` with values for the dynamic height and width of every image input, by `input.axis`.

    Args:
        dims: values by symbol or by `input.axis`.
        shapes: of the inputs; a dynamic dimension is a name or None.
        imgsz: height and width, pixels; None leaves `dims` unchanged.

    Raises:
        UsageProblem: the size of the images is fixed, to another one.
    """
    found = dict(dims)
    if imgsz is None:
        return found
    images = {name: shape for name, shape in shapes.items() if len(shape) == _IMAGE_RANK}
    for name, shape in images.items():
        for axis, size in enumerate(imgsz, _first_side(shape)):
            if not isinstance(shape[axis], int):
                found[f"{name}.{axis}"] = size
            elif shape[axis] != size:
                raise UsageProblem(f"The model was exported for {shape[axis]} pixels along axis {axis}, not {size}.")
    if not images:
        raise UsageProblem("imgsz is for models with image inputs (four dimensions); this model has none.")
    return found


def _first_side(shape: Sequence[int | str | None]) -> int:
    """Return the axis of an image's height; one behind the last where the shape is no image's."""
    return len(shape) if len(shape) != _IMAGE_RANK else 1 if shape[-1] in _CHANNELS else 2


def sum_parts(symbol: str) -> list[str]:
    """Return what a symbolic dimension is the sum of, itself if nothing else; exporters write "past + 1" into one."""
    return [part.strip() for part in symbol.split("+")]


def symbol_size(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a symbolic dimension: its own, or that of its parts together; None where one is unknown."""
    if symbol in sizes:
        return sizes[symbol]
    found = [whole_number(part) if part.isdecimal() else sizes.get(part) for part in sum_parts(symbol)]
    known = [size for size in found if size is not None]
    return sum(known) if len(known) == len(found) else None


def complete_shapes(
    specs: Sequence[TensorSpec],
    symbols: Symbols,
    sizes: Mapping[str, int],
    hint: str,
    *,
    asked: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = 1,
    default: int | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Args:
        specs: the inputs as a session has them; a dynamic dimension is None.
        symbols: names of dynamic dimensions, as `dimension_symbols` returns them.
        sizes: by symbol, such as `sequence`, or by `input.axis`; a sum such as "past + 1" follows its parts.
        hint: what to do about a dimension without a size, for the message; may hold `{input}` and `{shape}`.
        asked: whole shapes by input, which count more.
        batch: of the first dimension where it is dynamic and `sizes` has none for it.
        default: of all other dynamic dimensions.

    Raises:
        UsageProblem: a shape is asked for an input that is not there, or a dynamic dimension has no size.
    """
    asked = asked or {}
    if unknown := sorted(asked.keys() - {spec.name for spec in specs}):
        raise UsageProblem(f"The model has no input {unknown[0]!r}; it takes {some(spec.name for spec in specs)}.")
    shapes = {}
    for spec in specs:
        names = [str(name or f"{spec.name}.{axis}") for axis, name in enumerate(symbols.get(spec.name, spec.shape))]
        shape = list(asked.get(spec.name, spec.shape))
        for axis, dim in enumerate(shape):
            if dim is not None:
                continue
            own = sizes.get(f"{spec.name}.{axis}")
            known = (symbol_size(names[axis], sizes), own, batch if axis == 0 else None, default)
            shape[axis] = next((size for size in known if size is not None), None)
            if shape[axis] is None:
                example = "x".join("8" if dim is None else str(dim) for dim in spec.shape)
                fix = hint.format(input=spec.name, shape=example)
                raise UsageProblem(f"The size of dimension {names[axis]} of input {spec} is unknown; {fix}.")
        shapes[spec.name] = tuple(dim for dim in shape if dim is not None)
    return shapes


def usual_shapes(
    model: Model,
    *,
    batch: int = 1,
    size: int = FREE_SIZE,
    sizes: Mapping[str, int] = MappingProxyType({}),
    asked: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[list[TensorSpec], dict[str, tuple[int, ...]]]:
    """Return the inputs of a model and the shapes that they are drawn in where nobody says others.

    Images have the size that the metadata says (`imgsz`), the first dimension is the batch, every other one has `size`.

    Args:
        model: the model.
        batch: of the first dimension.
        size: of all others that are free.
        sizes: by symbol or `input.axis`, and
        asked: whole shapes by input, which count more.

    Raises:
        UsageProblem: as `complete_shapes`, or the metadata cannot be read.
    """
    specs, symbols = [TensorSpec.of(one) for one in model.facts.inputs], dimension_symbols(model.facts.inputs)
    sides = dict(enumerate(metadata_size(model.facts.metadata) or ()))
    places = [(axis, spec, symbol) for spec in specs for axis, symbol in enumerate(symbols[spec.name])]
    usual = {
        str(symbol or f"{spec.name}.{axis}"): sides.get(axis - _first_side(spec.shape), size) if axis else batch
        for axis, spec, symbol in sorted(places, key=lambda place: place[0])  # what is not first anywhere is no batch
        if len(sum_parts(str(symbol))) == 1
    }
    return specs, complete_shapes(specs, symbols, {**usual, **sizes}, "", asked=asked, batch=batch, default=size)


def input_shapes(
    specs: Sequence[TensorSpec], symbols: Symbols, batch: int, dims: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input for a point of a bench.

    Raises:
        UsageProblem: as `complete_shapes`; or a size of `dims` is not used, or the batch does not fit.
    """
    used = {
        name
        for spec in specs
        for axis, (dim, symbol) in enumerate(zip(spec.shape, symbols.get(spec.name, spec.shape), strict=True))
        for name in (str(symbol), f"{spec.name}.{axis}", *sum_parts(str(symbol)))
        if dim is None or dim == dims.get(name)  # an engine that was built for the size alone has it fixed
    }
    if unused := sorted(dims.keys() - used):
        raise UsageProblem(f"The model has no dynamic dimension {unused[0]}; its inputs: {some(specs, mark='; ')}.")
    hint = "set it by --dim, or under dims of the scenario"
    shapes = complete_shapes(specs, symbols, dims, hint, batch=batch)
    first = {shape[0] for shape in shapes.values() if shape}
    if first and batch not in first:
        raise UsageProblem(
            f"The model takes only batches of {min(first)}, not {batch}: it was exported with a fixed batch."
        )
    return shapes


def random_inputs(
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    kind: Kind = "random",
    *,
    ranges: Ranges | None = None,
    below: int = SMALLEST_VOCABULARY,
    caution: int = SURE,
    hint: str = "pass your own arrays",
) -> Arrays:
    """Return one array an input, by what it means: images, token ids, boxes, masks with padding, lengths, positions.

    All rows differ, since equal rows, zeros and masks of only ones hide wrong results; zeros can
    also run faster than real data. Whole numbers have both ends of their range among them: one number is the
    least where `kind` is "signed", and the greatest where it is another.

    Args:
        specs: the inputs.
        shapes: their shapes.
        seed: the same seed gives the same arrays, whatever other inputs there are.
        kind: "random" by meaning, images from 0 to 1; "signed" the same with images of both signs; "zeros" with floats
            of 0; "large" with signed floats 30 times as large as usual.
        ranges: least and largest value of inputs of floats, such as calibration saw; "signed" draws within them and
            their negatives.
        below: of integers of two and more dimensions that index no known table.
        caution: 0 for whole numbers of all that they may be, as `whole_numbers` says, which a model can refuse; 1 for
            those within the largest size of the other inputs, SURE for the smallest.
        hint: what to do about an input that cannot be drawn, for the message.

    Raises:
        UsageProblem: an input is of a type or shape that cannot be drawn.
    """
    arrays: Arrays = {}
    for spec in specs:
        require_room(f"Input {spec.name}", shapes[spec.name], _DRAWN_BYTES)
        # crc32, not hash(): that differs from process to process
        generator = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
        if spec.dtype.startswith(("float", "bfloat")):
            own = (ranges or {}).get(spec.name)
            values = _floats(shapes[spec.name], kind, generator, own, is_mask="mask" in spec.name.lower())
            arrays[spec.name] = np.asarray(values, numpy_dtype(spec.dtype))  # of no dimension, too
        elif numpy_dtype(spec.dtype).kind in "biu":
            arrays[spec.name] = _integers(spec, specs, shapes, below, generator, kind, caution)
        else:
            raise UsageProblem(f"Random values cannot be drawn for the type of input {spec}; {hint}.")
    return arrays


def random_image(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """Return a smooth random picture uint8 [height, width, 3]: noise on a grid of 16 by 16, enlarged.

    Raises:
        UsageProblem: it is larger than the memory.
    """
    import cv2

    require_room("An image", (height, width, 3), 1)
    coarse = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def whole_numbers(
    spec: TensorSpec,
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    below: int = SMALLEST_VOCABULARY,
    caution: int = 0,
) -> tuple[int, int, bool]:
    """Return the least and greatest number to draw for an input, and whether these are the ends of all that it takes.

    Args:
        spec: an input of whole numbers.
        specs: all inputs.
        shapes: of all inputs: lengths are within the sizes of the others.
        below: of numbers of which nothing is known.
        caution: as of `random_inputs`.
    """
    name, shape, dtype = spec.name.lower(), shapes[spec.name], np.dtype(spec.dtype)
    if dtype.kind == "b" or "mask" in name:
        return 0, 1, True
    is_length = "len" in name
    if spec.below:
        return min(int(is_length), spec.below - 1), spec.below - 1, True
    if "type" in name:
        return 0, 1, False
    beside = _sizes_beside(spec, specs, shapes)
    if is_length and beside:
        return 1, max(1, (min if caution == SURE else max)(beside)), caution < SURE
    if dtype.itemsize == 1:
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), True
    if "position" in name:
        return 0, max(below, shape[-1] if shape else 1) - 1, False
    if is_length or "size" in name:
        return 1, _SMALL_INTEGER - 1, False
    is_few = len(shape) < 2 and None not in spec.shape  # perhaps sizes of what is made
    if len(shape) < 2 and (is_few or caution == SURE):
        every = [size for one in specs if one.name != spec.name for size in shapes[one.name]] if caution else []
        return 0, max(0, min([_SMALL_INTEGER, *every]) - 1), False
    if caution == 1 and beside:  # places in another input
        return 0, max(0, min(below, max(beside)) - 1), False
    return 0, below - 1, False


def _sizes_beside(spec: TensorSpec, specs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Return the sizes that lengths may count: of the input that a name such as `text_lengths` is of, else of all.

    Free dimensions count first; the one that the lengths themselves have, such as the batch, does not.
    """
    others = [one for one in specs if one.name != spec.name and len(shapes[one.name]) > 1]
    stem = spec.name.lower().split("len")[0].strip("_./")
    named = [one for one in others if stem and stem in one.name.lower()] or others
    found = []
    for is_free in (True, False):
        for one in named:
            own = list(shapes[spec.name][:1])
            for size, dim in zip(shapes[one.name], one.shape, strict=False):
                if own == [size]:
                    own = []
                elif is_free == (dim is None):
                    found.append(size)
        if found:
            break
    return found


def _integers(
    spec: TensorSpec,
    specs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    below: int,
    generator: np.random.Generator,
    kind: Kind,
    caution: int,
) -> NDArray[Any]:
    name, shape, dtype = spec.name.lower(), shapes[spec.name], np.dtype(spec.dtype)
    low, high, _ = whole_numbers(spec, specs, shapes, below, caution)
    if dtype.kind == "b" or "mask" in name:
        return _mask(shape, generator).astype(dtype)
    if "position" in name:  # counted on from where each row begins
        length = shape[-1] if shape else 1
        first = _with_ends(generator, shape[:-1], 0, 0 if caution == SURE else max(0, high + 1 - length), kind)
        return ((first[..., None] + np.arange(length)) % (high + 1)).astype(dtype).reshape(shape)
    drawn = _with_ends(generator, shape, low, high, kind)
    if "box" in name and shape[-1:] == (
        4,
    ):  # from one corner to the other: models take the sizes, too, which are not negative
        drawn = np.sort(drawn.reshape(*shape[:-1], 2, 2), axis=-2).reshape(shape)
    return drawn.astype(dtype)


def _with_ends(generator: np.random.Generator, shape: tuple[int, ...], low: int, high: int, kind: Kind) -> NDArray[Any]:
    drawn = np.asarray(generator.integers(low, high + 1, shape))
    ends = (low, high) if kind == "signed" else (high, low)
    if drawn.size:
        drawn.flat[-1], drawn.flat[0] = ends[1], ends[0]  # of one number the first end stays
    return drawn


def _floats(
    shape: tuple[int, ...],
    kind: Kind,
    generator: np.random.Generator,
    own: tuple[float, float] | None,
    *,
    is_mask: bool,
) -> NDArray[np.float64]:
    if is_mask:
        return _mask(shape, generator).astype(np.float64)
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "signed" and own:
        return generator.uniform(-1.0, 1.0, shape) * max(map(abs, own))
    if kind == "random" and len(shape) == 4 and shape[1] in (1, 3):
        return generator.random(shape)
    return generator.standard_normal(shape) * (_LARGE if kind == "large" else 1.0)


def _mask(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return ones followed by zeros along the last axis; the first row is full, others are padded at random."""
    if not shape:
        return np.ones((), np.int64)
    length = shape[-1]
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    lengths = generator.integers(1, length + 1, rows) if length else np.zeros(rows, np.int64)
    if rows:
        lengths[0] = length
    return (np.arange(length)[None, :] < lengths[:, None]).astype(np.int64).reshape(shape)
