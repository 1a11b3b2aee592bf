"""What a task adds to boxes, such as masks, one row a box: all that the loop, suppression and store know of it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.letterbox import Geometry

TaskName = Literal["boxes", "masks", "keypoints", "rotated", "classes", "semantic"]
"""What a vision model finds."""


class Extra(abc.ABC):
    """What is added to the boxes of one image. Immutable."""

    @abc.abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return what belongs to the boxes at these indices, in their order."""

    def arrays(self, boxes: NDArray[np.float32]) -> list[NDArray[Any]]:  # noqa: ARG002 - for those that override it
        """Return all that it holds, to be compared with what else was found in the same outputs."""
        return [one for one in vars(self).values() if isinstance(one, np.ndarray)]

    @abc.abstractmethod
    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Restored:
        """Map it from the model's input to the image.

        Args:
            boxes: float32 [K, 4], x1, y1, x2, y2 in pixels of the model's input.
            geometry: where the image lies in the input.
        """


class Restored(Extra):
    """What is added, in pixels of the image: it is stored, written, and of annotations as well.

    Attributes:
        words: what it is, in the plural.
        fills: whether a box is drawn around it, so that it reaches all sides.
    """

    words: ClassVar[str]
    fills: ClassVar[bool] = True

    @classmethod
    @abc.abstractmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several images as one; there is at least one part."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return how many rows there are."""

    @abc.abstractmethod
    def spans(self) -> NDArray[np.float64]:
        """Return x, y, width and height in pixels of what each row covers, NaN where that is nothing: [K, 4]."""

    def misread_spans(self) -> dict[str, NDArray[np.float64]]:
        """Return the spans by mistakes of annotators that change more than places, as the end of a sentence."""
        return {}

    @abc.abstractmethod
    def entries(self, rows: slice) -> list[dict[str, Any]]:
        """Return what JSON files hold of some rows, by the keys of COCO's results format where it has any."""


@dataclass(frozen=True)
class Columns(Extra):
    """Further values of each box, as a model's output has them, until the family makes something of them.

    Attributes:
        values: float32 [K, values].
    """

    values: NDArray[np.float32]

    def take(self, rows: NDArray[np.intp]) -> Columns:
        """Return the values of some boxes."""
        return Columns(self.values.take(rows, axis=0))

    def restore(self, boxes: NDArray[np.float32], geometry: Geometry) -> Restored:
        """Refuse: only its family knows what they are."""
        raise NotImplementedError
