"""What a backend is asked for at one point of the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.bench.config import LLM_KINDS
from trt_workbench.bench.matrix import IMAGE_SIDES, Point
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.inputs import Symbols, dimension_symbols, with_image_size

Ranges = Mapping[str, Sequence[int]]


def check_runtimes(points: Iterable[Point]) -> None:
    """Raise UsageProblem for a runtime none of whose points its backend serves, whatever the model; needs no device.

    Of a sweep some combinations may be impossible; these become failed records. Language models are asked for
    otherwise: their options are checked once the model is opened.
    """
    problems: dict[str, list[UsageProblem | None]] = {}
    for point in points:
        if point.work.kind not in LLM_KINDS:
            problems.setdefault(point.entry, []).append(_problem(point))
    for found in problems.values():
        if found[0] and all(found):
            raise found[0]


def _problem(point: Point) -> UsageProblem | None:
    try:
        get_backend(point.backend).check_options(_asked(point, _without_shape(point)))
    except UsageProblem as problem:
        return problem
    return None


def session_options(point: Point, model: Path, ranges: Ranges) -> SessionOptions:
    """Return the options of a session for `point`.

    TensorRT builds for ranges of shapes: unless the options name profiles, it gets one for this point's shapes. With
    `profile_shape: dynamic` among the options of `trt` the range spans the whole sweep and is tuned for this point.

    Args:
        point: what is measured.
        model: the model file.
        ranges: smallest and largest batch, named dimensions, `height` and `width` in the sweep.
    """
    extra = _without_shape(point)
    if point.backend == "trt":
        shape = point.options.get("profile_shape")
        made = "profiles" not in extra and "config" not in extra
        if made and (profile := _profile(point, model, ranges if shape == "dynamic" else {})):
            extra["profiles"] = [profile]
    return _asked(point, extra)


def _without_shape(point: Point) -> dict[str, Any]:
    """Return the options that the backend itself knows."""
    extra = dict(point.options)
    if point.backend == "trt" and (shape := extra.pop("profile_shape", "static")) not in ("static", "dynamic"):
        raise UsageProblem(f"profile_shape is static or dynamic, not {shape!r}.")
    return extra


def _asked(point: Point, extra: Mapping[str, Any]) -> SessionOptions:
    return SessionOptions(
        threads=point.threads, concurrency=point.concurrency, precision=point.precision, tf32=point.tf32, extra=extra
    )


def _profile(point: Point, model: Path, ranges: Ranges) -> str:
    """Return a profile as text, `name:min/opt/max,…`; empty for a plan, and for a model without dynamic inputs."""
    symbols = dimension_symbols(model)
    if all(isinstance(dim, int) for shape in symbols.values() for dim in shape):
        return ""
    sides = [_values(point, symbols, ranges, which) for which in (0, None, 1)]
    dynamic = {name: shape for name, shape in symbols.items() if not all(isinstance(dim, int) for dim in shape)}
    parts = []
    for name, shape in dynamic.items():
        shapes = ["x".join(_value(side, name, axis, dim) for axis, dim in enumerate(shape)) for side in sides]
        parts.append(f"{name}:{'/'.join(shapes)}")
    return ",".join(parts)


def _values(point: Point, symbols: Symbols, ranges: Ranges, which: int | None) -> dict[str, int]:
    """Return the batch and every dimension on one side of the range: 0 least, 1 largest, None this point's own."""
    work = point.work
    own = {"batch": work.batch, **work.dims, **dict(zip(IMAGE_SIDES, work.imgsz or (), strict=False))}
    chosen = own if which is None else {name: ranges.get(name, (value, value))[which] for name, value in own.items()}
    size = (chosen["height"], chosen["width"]) if work.imgsz and work.kind == "arrays" else None
    dims = with_image_size({name: chosen[name] for name in work.dims}, symbols, size)
    return {"batch": chosen["batch"], **dims}


def _value(values: Mapping[str, int], name: str, axis: int, dim: int | str | None) -> str:
    """Return one dimension. What has no value is left to the scenario's own check: 1."""
    if isinstance(dim, int):
        return str(dim)
    keys = [key for key in (str(dim), f"{name}.{axis}") if key in values]
    return str(values[keys[0]] if keys else values["batch"] if axis == 0 else 1)
