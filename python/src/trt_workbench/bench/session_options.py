"""What a backend is asked for at one point of the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.bench.inputs import dimension_symbols
from trt_workbench.bench.matrix import Point

Ranges = Mapping[str, Sequence[int]]


def session_options(point: Point, model: Path, ranges: Ranges) -> SessionOptions:
    """Return the options of a session for `point`.

    TensorRT builds for ranges of shapes: unless the options name profiles, it gets one for this point's shapes. With
    `profile_shape: dynamic` among the options of `trt` the range spans the whole sweep and is tuned for this point.

    Args:
        point: what is measured.
        model: the model file.
        ranges: smallest and largest value of the batch (key "batch") and of each named dimension in the sweep.
    """
    extra = dict(point.options)
    dynamic = extra.pop("profile_shape", "static") == "dynamic"
    if point.backend == "trt" and "profiles" not in extra and "config" not in extra:
        profile = _profile(point, model, ranges if dynamic else {})
        if profile:
            extra["profiles"] = [profile]
    return SessionOptions(
        threads=point.threads, concurrency=point.concurrency, precision=point.precision, tf32=point.tf32, extra=extra
    )


def _profile(point: Point, model: Path, ranges: Ranges) -> str:
    """Return a profile as text, `name:min/opt/max,…`; empty for a model without dynamic inputs."""
    parts = []
    for name, shape in dimension_symbols(model).items():
        if all(isinstance(dim, int) for dim in shape):
            continue
        sides = [_side(point, ranges, name, axis, dim) for axis, dim in enumerate(shape)]
        parts.append(f"{name}:" + "/".join("x".join(str(side[which]) for side in sides) for which in range(3)))
    return ",".join(parts)


def _side(point: Point, ranges: Ranges, name: str, axis: int, dim: Any) -> tuple[int, int, int]:
    """Smallest, tuned and largest value of one dimension. What has no value is left to the scenario's own check: 1."""
    if isinstance(dim, int):
        return dim, dim, dim
    dims = point.work.dims
    key = next((key for key in (str(dim), f"{name}.{axis}") if key in dims), "batch" if axis == 0 else None)
    if key is None:
        return 1, 1, 1
    value = point.work.batch if key == "batch" else dims[key]
    low, high = ranges.get(key, (value, value))
    return low, value, high
