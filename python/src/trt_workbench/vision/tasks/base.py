"""What a task is to the code that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.document import ImageRecord, f1
from trt_workbench.vision.extras import TaskName

if TYPE_CHECKING:
    from trt_workbench.vision.dataset import GroundTruth
    from trt_workbench.vision.extras import Restored
    from trt_workbench.vision.families.base import Family
    from trt_workbench.vision.figures import Measure

Corners = tuple[float, float, float, float]
_MOST: Final = 2**24


class VisionTask:
    """What models of one kind find. Without state.

    Attributes:
        name: as families give it.
        words: what its models are for.
        keys: of an annotation, in addition to those of its box: they are read.
        of_images: whether its annotations are classes of whole images.
        most: how many detections of an image are kept, the best ones; None for all.
        rules: whose figures they are.
        measures: how detections are scored; the last one's main figure is what models are compared by.
        framed: whether the boxes themselves are drawn.
    """

    name: ClassVar[TaskName]
    words: ClassVar[str]
    keys: ClassVar[frozenset[str]] = frozenset()
    of_images: ClassVar[bool] = False
    most: ClassVar[int | None] = None
    rules: ClassVar[str] = "COCO"
    measures: ClassVar[tuple[Measure, ...]]
    framed: ClassVar[bool] = True

    @property
    def decided_by(self) -> str:
        """The figure of metrics.json that models are compared by."""
        return self.shown[0]

    @property
    def shown(self) -> tuple[str, str]:
        """That figure, and the one that is shown next to it."""
        first, second = (f"{self.measures[-1].prefix}{name}" for name in self.measures[-1].main)
        return first, second

    @property
    def figures(self) -> dict[str, str]:
        """All figures by their names in metrics.json, with what each one means."""
        return {f"{one.prefix}{name}": text for one in self.measures for name, text in one.figures.items()}

    def truth(
        self, rows: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int | None, int | None]]
    ) -> Restored | None:
        """Return what annotations hold in addition to boxes; None of boxes alone.

        Args:
            rows: annotations as the file has them.
            sizes: height and width of the image of each, None where the file does not say.

        Raises:
            ValueError: an annotation lacks it or has it in another form; the text says which one.
        """

    def found(self, rows: Sequence[Mapping[str, Any]]) -> Restored | None:
        """Return what rows of predictions.json add to boxes. Raises UsageProblem where they were changed."""

    def notes(self, family: Family, truth: GroundTruth) -> list[str]:  # noqa: ARG002 - for those that have some
        """Return what the user should know of a model on annotations, in sentences.

        Raises:
            UsageProblem: they do not fit each other.
        """
        return []

    def require_sizes(self, truth: GroundTruth, sizes: Mapping[int, tuple[int, int]]) -> None:
        """Check annotations against the decoded images, height and width by id.

        Raises:
            UsageProblem: what is annotated cannot be compared with what is found on them.
        """

    def append(self, folder: Path, image: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append what `predict` found on an image to files of the task's own format.

        Args:
            folder: of the run.
            image: the file's name without its suffix, of a video with the number of the frame.
            rows: as detections.jsonl has them.
        """

    def verdict(self, record: ImageRecord) -> str:
        """Say what was found on an image."""
        counts = (record["true_positives"], record["false_negatives"], record["false_positives"])
        colours = ("found (green)", "missed (blue)", "wrong (red)")
        words = colours if self.tells_apart(record) else ("found", "missed", "wrong")
        return f"{', '.join(f'{count} {word}' for count, word in zip(counts, words, strict=True))}, F1 {f1(record):.2f}"

    def tells_apart(self, record: ImageRecord) -> bool:
        """Whether pictures show which objects are missed or wrong: runs before 0.2.0 did not keep it."""
        return self.measures[0].by_score and "wrong" in record

    def label_place(self, box: Corners, place: int) -> Corners:  # noqa: ARG002 - for those with one box an image
        """Return the box at which the label of a detection is drawn, the `place`-th of its image."""
        return box

    def paint(
        self, image: NDArray[np.uint8], entry: Mapping[str, Any], scale: float, colour: tuple[int, int, int]
    ) -> None:
        """Draw what an annotation or a detection holds in addition to its box into a BGR picture.

        Args:
            image: of `scale` times the size of the image that the entry is of.
            entry: by the keys of JSON files; it may lack those of the task.
            scale: of the picture.
            colour: blue, green, red.
        """


def described(row: Mapping[str, Any], place: int) -> str:
    """Return which annotation is meant in a message."""
    return f"annotation {row.get('id', place)}"


def are_places(values: Sequence[Any]) -> bool:
    """Whether all are coordinates: numbers of which single precision, as OpenCV computes in, holds every pixel."""
    return all(type(one) in (int, float) and abs(one) <= _MOST for one in values)


def require_polygon(values: Sequence[Any], which: str) -> None:
    """Raise ValueError where a polygon of an annotation is not pairs of coordinates."""
    if not are_places(values) or len(values) % 2:
        raise ValueError(f"{which} has a polygon that is not x1, y1, x2, y2, … as numbers up to 2^24")


def changed(what: str) -> UsageProblem:
    """Return the error of a predictions.json that holds something else than was written."""
    return UsageProblem(f"The predictions of the run were changed: {what}.")
