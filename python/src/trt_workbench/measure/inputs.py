"""Inputs to measure with: random, the same for the same seed, and of the shapes that a point asks for."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.errors import UsageProblem

Symbols = Mapping[str, Sequence[int | str | None]]

# Token ids are drawn below this: every vocabulary in use is larger.
_SMALLEST_VOCABULARY = 256
_IMAGE_RANK = 4
_CHANNELS = (1, 3, 4)


def dimension_symbols(model: Path) -> dict[str, tuple[int | str | None, ...]]:
    """Return the shapes of an ONNX model's inputs with the names of dynamic dimensions; nothing for other files.

    Raises:
        UsageProblem: the model cannot be read.
    """
    if model.suffix != ".onnx":
        return {}
    from trt_workbench.onnxtools.preflight import examine_model

    return {tensor.name: tensor.shape or () for tensor in examine_model(model).inputs}


def with_image_size(dims: Mapping[str, int], shapes: Symbols, imgsz: tuple[int, int] | None) -> dict[str, int]:
    """Return `dims` with values for the dynamic height and width of every image input, by `input.axis`.

    Args:
        dims: values by symbol or by `input.axis`.
        shapes: of the inputs; a dynamic dimension is a name or None.
        imgsz: height and width, pixels; None leaves `dims` as they are.

    Raises:
        UsageProblem: the size of the images is fixed, to another one.
    """
    found = dict(dims)
    if imgsz is None:
        return found
    images = {name: shape for name, shape in shapes.items() if len(shape) == _IMAGE_RANK}
    for name, shape in images.items():
        first = 1 if shape[-1] in _CHANNELS else 2
        for axis, size in enumerate(imgsz, first):
            if not isinstance(shape[axis], int):
                found[f"{name}.{axis}"] = size
            elif shape[axis] != size:
                raise UsageProblem(f"The model was exported for {shape[axis]} pixels along axis {axis}, not {size}.")
    if not images:
        raise UsageProblem("imgsz is for models with images, inputs of four dimensions; this one has none.")
    return found


def input_shapes(
    specs: Sequence[TensorSpec], symbols: Symbols, batch: int, dims: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Args:
        specs: the inputs as the session tells them; a dynamic dimension is None.
        symbols: names of dynamic dimensions, as `dimension_symbols` returns them.
        batch: value of the first dimension where it is dynamic and `dims` does not name it.
        dims: values by symbol, such as `sequence`, or by `input.axis`.

    Raises:
        UsageProblem: a dynamic dimension has no value, a value is not used, or the batch does not fit.
    """
    used: set[str] = set()
    shapes = {}
    for spec in specs:
        names = symbols.get(spec.name, spec.shape)
        shape = []
        for axis, (fixed, symbol) in enumerate(zip(spec.shape, names, strict=True)):
            keys = [key for key in (str(symbol), f"{spec.name}.{axis}") if key in dims]
            if fixed is not None:
                shape.append(fixed)
            elif keys:
                used.update(keys)
                shape.append(dims[keys[0]])
            elif axis == 0:
                shape.append(batch)
            else:
                called = symbol if isinstance(symbol, str) else f"{spec.name}.{axis}"
                raise UsageProblem(
                    f"Dimension {called} of input {spec} has no value; give it one under dims of the scenario."
                )
        shapes[spec.name] = tuple(shape)
    if unused := sorted(dims.keys() - used):
        raise UsageProblem(f"The model has no dynamic dimension {unused[0]}; its inputs: {'; '.join(map(str, specs))}.")
    first = {shape[0] for shape in shapes.values() if shape}
    if first and batch not in first:
        raise UsageProblem(
            f"The model takes batches of exactly {min(first)}, not {batch}: it was exported with a fixed batch."
        )
    return shapes


def random_inputs(
    specs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]], seed: int
) -> dict[str, NDArray[Any]]:
    """Return one array an input.

    Floats are standard normal, never zeros: zeros hide wrong results and can run faster than real data. Integers are
    below 256, a safe token id in every vocabulary; masks (by name) are ones and token types zeros.

    Args:
        specs: the inputs.
        shapes: their shapes.
        seed: the same seed gives the same arrays.
    """
    arrays = {}
    for spec in specs:
        # crc32, not hash(): that differs from process to process
        draw = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
        arrays[spec.name] = _random(spec, shapes[spec.name], draw)
    return arrays


def random_image(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """Return a smooth random picture uint8 [height, width, 3]: noise on a grid of 16 by 16, enlarged."""
    import cv2

    coarse = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def _random(spec: TensorSpec, shape: tuple[int, ...], draw: np.random.Generator) -> NDArray[Any]:
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return draw.standard_normal(shape).astype(dtype)
    if dtype.kind == "b" or "mask" in spec.name:
        return np.ones(shape, dtype)
    if dtype.kind not in "iu":
        raise UsageProblem(f"Input {spec} cannot be made at random.")
    if "type" in spec.name:
        return np.zeros(shape, dtype)
    # drawn as int64: a runtime that narrows the type gets the same values
    return draw.integers(0, min(_SMALLEST_VOCABULARY, np.iinfo(dtype).max), shape, np.int64).astype(dtype)
