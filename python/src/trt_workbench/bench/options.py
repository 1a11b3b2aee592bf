"""The options of a backend at one point of the matrix."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import SessionOptions, TensorSpec
from trt_workbench.backends.measure.inputs import (
    Symbols,
    dimension_symbols,
    input_shapes,
    onnx_inputs,
    with_image_size,
)
from trt_workbench.backends.registry import get_backend
from trt_workbench.bench.matrix import IMAGE_SIDES, LLM_KINDS, STREAM, Point, Work
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.model.facts import ModelTensor

Ranges = Mapping[str, Sequence[int]]


def check_runtimes(points: Iterable[Point]) -> None:
    """Raise UsageProblem for a runtime whose backend serves none of its points, whatever the model; needs no device.

    Of a sweep some combinations may be impossible; these become failed records. Options of language models are checked
    once the model is opened.
    """
    _refuse((point.entry, _problem(point)) for point in points if point.work.kind not in LLM_KINDS)


def check_shapes(points: Iterable[Point], files: Mapping[str, Path]) -> None:
    """Raise UsageProblem for arrays of a scenario whose sizes fit a model at none of its points; needs no device.

    A server and an engine say their own shapes once they are loaded.
    """
    own = (point for point in points if point.work.kind == "arrays" and not get_backend(point.backend).served)
    _refuse(((point.work.scenario, point.source), _misfit(point.work, files[point.source])) for point in own)


def _refuse(found: Iterable[tuple[Hashable, UsageProblem | None]]) -> None:
    """Raise the first problem of what has one at every point."""
    problems: dict[Hashable, list[UsageProblem | None]] = {}
    for part, problem in found:
        problems.setdefault(part, []).append(problem)
    for ones in problems.values():
        if ones[0] and all(ones):
            raise ones[0]


def _problem(point: Point) -> UsageProblem | None:
    try:
        get_backend(point.backend).check_options(_asked(point, _without_shape(point)))
    except UsageProblem as problem:
        return problem
    return None


def _misfit(work: Work, model: Path) -> UsageProblem | None:
    try:
        if tensors := onnx_inputs(model):
            array_shapes([TensorSpec.of(tensor) for tensor in tensors], tensors, work)
    except UsageProblem as problem:
        return problem
    return None


def array_shapes(specs: Sequence[TensorSpec], tensors: Sequence[ModelTensor], work: Work) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input for arrays. Raises UsageProblem as `with_image_size` and `input_shapes`.

    Args:
        specs: the inputs as a session has them.
        tensors: the inputs of the ONNX model, which name dynamic dimensions; empty for other files.
        work: what is executed.
    """
    symbols = dimension_symbols(tensors) or {spec.name: spec.shape for spec in specs}
    return input_shapes(specs, symbols, work.batch, with_image_size(work.dims, symbols, work.imgsz))


def session_options(point: Point, model: Path, ranges: Ranges, contract: Path | None = None) -> SessionOptions:
    """Return the options of a session for `point`.

    What builds for ranges of shapes gets this point's. With `profile_shape: dynamic` among its options the range spans
    the whole sweep and is tuned for this point.

    Args:
        point: what is measured.
        model: the model file.
        ranges: smallest and largest batch, named dimensions, `height` and `width` in the sweep.
        contract: of a streaming model, which says its shapes.
    """
    if point.concurrency > 1 and point.work.kind == STREAM:
        raise UsageProblem(f"Scenarios of kind {STREAM} do not support concurrency; batch is the number of streams.")
    extra = _without_shape(point)
    if not get_backend(point.backend).ranges:
        return _asked(point, extra)
    is_dynamic = point.options.get("profile_shape") == "dynamic"
    return _asked(point, extra, _profile(point, model, ranges if is_dynamic else {}, contract))


def _without_shape(point: Point) -> dict[str, Any]:
    """Return the options that the backend itself knows."""
    extra = dict(point.options)
    shape = extra.pop("profile_shape", "static") if get_backend(point.backend).ranges else "static"
    if shape not in ("static", "dynamic"):
        raise UsageProblem(f"profile_shape must be static or dynamic, not {shape!r}.")
    return extra


def _asked(point: Point, extra: Mapping[str, Any], shapes: Profile | None = None) -> SessionOptions:
    return SessionOptions(
        point.threads, point.concurrency, point.precision, tf32=point.tf32, extra=extra, shapes=shapes
    )


def _profile(point: Point, model: Path, ranges: Ranges, contract: Path | None) -> Profile | None:
    """Return the shapes; None for a plan, and for a model without dynamic inputs."""
    symbols = dimension_symbols(onnx_inputs(model))
    dynamic = {name: shape for name, shape in symbols.items() if not all(isinstance(dim, int) for dim in shape)}
    if not dynamic:
        return None
    if point.work.kind == STREAM and contract:
        from trt_workbench.bench.streams import stream_profile
        from trt_workbench.stream import read_contract

        shapes = stream_profile(read_contract(contract), point.work, ranges).shapes
        return Profile(shapes={name: shapes[name] for name in dynamic})
    sides = [_values(point, symbols, ranges, which) for which in (0, None, 1)]
    shapes = {}
    for name, shape in dynamic.items():
        low, best, high = (tuple(_value(side, name, axis, dim) for axis, dim in enumerate(shape)) for side in sides)
        shapes[name] = ShapeRange(min=low, opt=best, max=high)
    return Profile(shapes=shapes)


def _values(point: Point, symbols: Symbols, ranges: Ranges, which: int | None) -> dict[str, int]:
    """Return the batch and every dimension on one side of the range: 0 least, 1 largest, None this point's own."""
    work = point.work
    own = {"batch": work.batch, **work.dims, **dict(zip(IMAGE_SIDES, work.imgsz or (), strict=False))}
    chosen = own if which is None else {name: ranges.get(name, (value, value))[which] for name, value in own.items()}
    size = (chosen["height"], chosen["width"]) if work.imgsz and work.kind == "arrays" else None
    dims = with_image_size({name: chosen[name] for name in work.dims}, symbols, size)
    return {"batch": chosen["batch"], **dims}


def _value(values: Mapping[str, int], name: str, axis: int, dim: int | str | None) -> int:
    """Return one dimension. What has no value is left to the scenario's own check: 1."""
    if isinstance(dim, int):
        return dim
    keys = [key for key in (str(dim), f"{name}.{axis}") if key in values]
    return values[keys[0]] if keys else values["batch"] if axis == 0 else 1
