"""The label file of one image in Ultralytics' form: a line an object, `class` and shares of the image's sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import read_bytes

_BOX = 5  # class, centre x, centre y, width, height
_WITH_ANGLE = 6
# How far beyond the image Ultralytics lets a label reach, as a share of a side.
_SLACK = 0.01
_MOST_BYTES = 2**26


class Labels(NamedTuple):
    """The objects of an image.

    Attributes:
        data: of the label file; None where there is none.
        objects: keys of COCO's annotations, without ids.
        repeated: lines that another one says already; they are left out.
    """

    data: bytes | None
    objects: list[dict[str, Any]]
    repeated: int = 0


class LabelReader:
    """Reads the label files of one data set."""

    def __init__(self, classes: int, keypoints: tuple[int, int] | None) -> None:
        """Read labels of so many classes, with (points, values a point) where they have keypoints."""
        self._classes, self._keypoints = classes, keypoints

    def read(self, file: Path, size: tuple[int, int]) -> Labels:
        """Return the objects of an image of a size (width, height).

        Raises:
            UsageProblem: the file cannot be read, or a line is no label; it names the line.
        """
        try:
            data = read_bytes(file, _MOST_BYTES, text=True)
            lines = data.decode("utf-8-sig").splitlines()
        except FileNotFoundError:
            return Labels(None, [])
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageProblem(f"The label file cannot be read ({why}): {file}") from error
        rows = {number: parts for number, line in enumerate(lines, 1) if (parts := line.split())}
        segments = self._keypoints is None and any(len(parts) > _WITH_ANGLE for parts in rows.values())
        found: dict[tuple[float, ...], dict[str, Any]] = {}
        for number, parts in rows.items():
            try:
                values = self._values(parts, segments=segments)
            except ValueError as error:
                raise UsageProblem(f"A line of the labels cannot be used: {error}: {file}:{number}") from error
            found.setdefault(values, self._object(values, size))
        return Labels(data, list(found.values()), len(rows) - len(found))

    def _values(self, parts: list[str], *, segments: bool) -> tuple[float, ...]:
        """Return the numbers of a line. Raises ValueError, which says what is wrong."""
        self._require_count(len(parts), segments=segments)
        values = tuple(map(_number, parts))
        if values[0] != int(values[0]) or not 0 <= values[0] < self._classes:
            raise ValueError(f"class {parts[0]}, and the data set has classes 0 to {self._classes - 1}")
        places = [*values[1:_BOX], *self._points(values)] if self._keypoints else values[1:]
        if not -_SLACK <= min(places) <= max(places) <= 1 + _SLACK:
            wrong = max(places, key=lambda one: abs(one - 0.5))
            pixels = ", not pixels" if max(places) > 2 else ""
            raise ValueError(f"{wrong:g} is outside of the image; labels are shares of its sides, 0 to 1{pixels}")
        return values

    def _require_count(self, count: int, *, segments: bool) -> None:
        if self._keypoints:
            points, each = self._keypoints
            if count != (wanted := _BOX + points * each):
                raise ValueError(f"it has {count} values; with kpt_shape [{points}, {each}] a line has {wanted}")
        elif count == _BOX and segments:
            raise ValueError("5 values among segments are a box, or a segment of two points; a segment has three")
        elif count == _WITH_ANGLE:
            raise ValueError(
                "6 values are a box with a confidence or an angle; a box has 5, and a rotated box is its four corners "
                "(class and 8 numbers)"
            )
        elif count < _BOX:
            raise ValueError(f"it has {count} values; a box has 5: class, centre x, centre y, width, height")
        elif count % 2 == 0:
            raise ValueError(
                f"it has {count} values; a segment has its class and pairs of x and y, a pose needs kpt_shape"
            )

    def _points(self, values: tuple[float, ...]) -> Iterator[float]:
        """Yield x and y of the keypoints."""
        assert self._keypoints is not None
        for place in range(_BOX, len(values), self._keypoints[1]):
            yield from values[place : place + 2]

    def _object(self, values: tuple[float, ...], size: tuple[int, int]) -> dict[str, Any]:
        whole = {"category_id": int(values[0]), "iscrowd": 0}
        if self._keypoints is None and len(values) > _BOX:
            return whole | _polygon(_scaled(values[1:], size))
        x, y, width, height = _scaled(values[1:_BOX], size)
        box = {"bbox": [x - width / 2, y - height / 2, width, height], "area": width * height}
        return whole | box | (self._pose(values, size) if self._keypoints else {})

    def _pose(self, values: tuple[float, ...], size: tuple[int, int]) -> dict[str, Any]:
        assert self._keypoints is not None
        each = self._keypoints[1]
        places = _scaled(tuple(self._points(values)), size)
        # without a visibility Ultralytics takes every point that is not negative for one that is labelled
        seen = values[_BOX + 2 :: 3] if each == 3 else [2.0 * (min(one) >= 0) for one in _pairs(places)]
        flat = [value for (x, y), flag in zip(_pairs(places), seen, strict=True) for value in (x, y, int(flag))]
        return {"keypoints": flat, "num_keypoints": sum(flag > 0 for flag in seen)}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not finite")
    return value


def _scaled(values: tuple[float, ...], size: tuple[int, int]) -> list[float]:
    return [value * size[place % 2] for place, value in enumerate(values)]


def _pairs(values: list[float]) -> list[tuple[float, float]]:
    return list(zip(values[::2], values[1::2], strict=True))


def _polygon(points: list[float]) -> dict[str, Any]:
    xs, ys = points[::2], points[1::2]
    box = [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
    following = [*_pairs(points)[1:], (xs[0], ys[0])]
    twice = sum(x * b - a * y for x, y, (a, b) in zip(xs, ys, following, strict=True))
    return {"bbox": box, "area": abs(twice) / 2, "segmentation": [points]}
