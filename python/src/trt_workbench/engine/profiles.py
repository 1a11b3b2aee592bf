"""Optimisation profiles: the ranges of shapes that an engine accepts, written `images:1x3x640x640/8x3x640x640/16x…`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

Dims = tuple[int, ...]
# TensorRT 8's sizes are int32.
_DIMS = re.compile(r"[0-9]{1,10}(x[0-9]{1,10})*")


class ShapeRange(BaseModel):
    """Smallest, best-tuned and largest value of every dimension. Written `min/opt/max`, or one shape for all three."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: Dims
    opt: Dims
    max: Dims

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_range(value) if isinstance(value, str | int) else value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError(f"min, opt and max must have the same rank, not {self}")
        if not all(low <= best <= high for low, best, high in zip(self.min, self.opt, self.max, strict=True)):
            raise ValueError(f"min <= opt <= max must hold in every dimension, not {self}")
        return self

    @model_serializer
    def _text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the form that is read, such as `1x3/8x3/16x3`, or `1x3` where all three are equal."""
        parts = ["x".join(map(str, dims)) for dims in (self.min, self.opt, self.max)]
        return parts[0] if len(set(parts)) == 1 else "/".join(parts)


class Profile(BaseModel):
    """One optimisation profile.

    Written `name:min/opt/max`, inputs separated by commas; `name=min/opt/max` gives the values of a shape tensor.

    Attributes:
        shapes: range of shapes by input name.
        values: range of values by name, of inputs whose values decide shapes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shapes: dict[str, ShapeRange] = {}
    values: dict[str, ShapeRange] = {}

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if isinstance(value, str):
            return parse_profile(value)
        if isinstance(value, dict) and not value.keys() <= {"shapes", "values"}:
            return {"shapes": value}  # the short form: {images: 1x3/8x3/16x3}
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.shapes and not self.values:
            raise ValueError("a profile must name at least one input")
        return self

    @model_serializer
    def _text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the form that is read."""
        shapes = [f"{name}:{shape}" for name, shape in self.shapes.items()]
        return ",".join(shapes + [f"{name}={values}" for name, values in self.values.items()])


def parse_range(text: str | int) -> dict[str, Dims]:
    """Parse `min/opt/max` or one shape, such as `1x3x224x224`.

    Raises:
        ValueError: the text is neither.
    """
    parts = str(text).strip().split("/")
    if len(parts) not in (1, 3) or not all(_DIMS.fullmatch(part) for part in parts):
        raise ValueError(
            f"expected min/opt/max such as 1x3x640x640/8x3x640x640/16x3x640x640, or one shape, not {text!r}"
        )
    dims = [tuple(int(dim) for dim in part.split("x")) for part in parts]
    return dict(zip(("min", "opt", "max"), dims if len(dims) == 3 else dims * 3, strict=True))


def parse_profile(text: str) -> dict[str, dict[str, str]]:
    """Split `a:1x3/8x3/16x3,b=1/2/3` into the ranges of shapes and values by input name.

    Raises:
        ValueError: an entry names no input, or an input occurs twice.
    """
    found: dict[str, dict[str, str]] = {"shapes": {}, "values": {}}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        # from the right: names such as `input:0` are usual
        name, separator, shape = max(entry.rpartition(":"), entry.rpartition("="), key=lambda parts: len(parts[0]))
        if not name:
            raise ValueError(f"expected NAME:MIN/OPT/MAX, not {entry!r}")
        if name in found["shapes"] or name in found["values"]:
            raise ValueError(f"input {name!r} occurs twice in one profile")
        found["shapes" if separator == ":" else "values"][name] = shape
    return found


def fixed_profile(shapes: Mapping[str, Dims]) -> Profile | None:
    """Return a profile for one shape of every input; None without any."""
    ranges = {name: ShapeRange(min=dims, opt=dims, max=dims) for name, dims in shapes.items()}
    return Profile(shapes=ranges) if ranges else None


def batch_profile(inputs: Iterable[tuple[str, tuple[int | str | None, ...] | None]], batch: int) -> Profile | None:
    """Return a profile for batches of 1 to `batch`, tuned for `batch`, if only the first dimension is dynamic.

    Args:
        inputs: name and shape of every input; a dynamic dimension is anything but a number.
        batch: the largest batch.
    """
    shapes = {}
    for name, shape in inputs:
        if shape is None or any(not isinstance(dim, int) for dim in shape[1:]):
            return None
        fixed = tuple(dim for dim in shape[1:] if isinstance(dim, int))
        if shape and not isinstance(shape[0], int):
            shapes[name] = ShapeRange(min=(1, *fixed), opt=(batch, *fixed), max=(batch, *fixed))
    return Profile(shapes=shapes) if shapes else None
