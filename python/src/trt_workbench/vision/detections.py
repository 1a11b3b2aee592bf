"""Detections of a whole run in compact arrays: 28 bytes each while they are collected."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_rows
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import atomic_writer
from trt_workbench.core.input_files import open_regular
from trt_workbench.vision.document import Box
from trt_workbench.vision.extras import Restored
from trt_workbench.vision.families.base import Detections
from trt_workbench.vision.tasks.base import VisionTask

_STEP: Final = 4096  # detections that are in memory as text
_CHUNK: Final = 2**22  # bytes


@dataclass(frozen=True)
class DetectionTable:
    """Detections sorted by image id; within an image by score, best first, as the family left them.

    Attributes:
        image_ids: int64 [M].
        category_ids: int64 [M], the dataset's ids.
        boxes: float32 [M,4], x, y, width, height in pixels of the source image.
        scores: float32 [M], 0 to 1.
        extra: what the task adds to each, M rows; None of boxes alone, or where there is nothing.
    """

    image_ids: NDArray[np.int64]
    category_ids: NDArray[np.int64]
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    extra: Restored | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def select(self, rows: NDArray[np.intp]) -> DetectionTable:
        """Return the detections at some places, int [K]."""
        extra = self.extra and self.extra.take(rows)
        return DetectionTable(self.image_ids[rows], self.category_ids[rows], self.boxes[rows], self.scores[rows], extra)

    @classmethod
    def joined(cls, parts: Sequence[DetectionTable]) -> DetectionTable:
        """Return the detections of several tables as one."""
        extras = [part.extra for part in parts if part.extra is not None]
        return cls(
            np.concatenate([np.empty(0, np.int64), *(part.image_ids for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.category_ids for part in parts)]),
            np.concatenate([np.empty((0, 4), np.float32), *(part.boxes for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.scores for part in parts)]),
            type(extras[0]).joined(extras) if extras else None,
        )


def at_least(scores: NDArray[np.float32], threshold: float) -> NDArray[np.bool_]:
    """Return which scores reach a threshold, in their own precision: one of 0.7 as float32 reaches 0.7."""
    return scores >= np.float32(threshold)


def ranks(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of each row among those of its group; groups are ascending."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)


def best_of(scores: NDArray[np.float32], most: int, groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rows with the best scores of each group, at most so many, in their order; of equal ones the first."""
    order = np.lexsort((-scores.astype(np.float64), groups))
    return np.sort(order[ranks(groups[order]) < most])


class DetectionStore:
    """Collects the detections of the images of a run, in any order.

    Each image has a slot of its own, so that threads need no lock.
    """

    def __init__(
        self,
        image_ids: NDArray[np.int64],
        category_ids: NDArray[np.int64],
        kept: NDArray[np.bool_] | None = None,
        most: int | None = None,
    ) -> None:
        """Make room.

        Args:
            image_ids: int64 [N], the images of the run, ascending.
            category_ids: int64 [classes], the dataset's category id of each class index of the model.
            kept: bool [classes], the classes whose boxes are stored; None for all.
            most: boxes of an image that are stored, the best ones; None for all.
        """
        self._image_ids, self._kept, self._most = image_ids, kept, most
        self._category_ids = category_ids
        self._parts: list[DetectionTable | None] = [None] * len(image_ids)

    def put(self, index: int, found: Detections) -> None:
        """Store the detections of image `index`.

        Args:
            index: position among the run's images.
            found: in pixels of the source image.

        Raises:
            UsageProblem: a label is beyond the dataset's categories (for models that do not give their class count).
        """
        labels = found.labels
        if len(labels) and labels.max() >= len(self._category_ids):
            raise UsageProblem(
                f"The model found an object of class {labels.max()}, but the annotations have "
                f"{counted(len(self._category_ids), 'category', 'categories')}; they must match. "
                "--classes FILE lists the category of each class, one per line."
            )
        if self._kept is not None and not (kept := self._kept[labels]).all():
            found = found.take(np.flatnonzero(kept))
        if self._most is not None:
            found = found.take(np.arange(min(self._most, len(found.scores))))
        boxes, extra = found.boxes, found.extra
        assert extra is None or isinstance(extra, Restored)  # as `Family.restore` leaves it
        sized = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
        image_ids = np.broadcast_to(self._image_ids[index], len(boxes))  # of no memory
        # Copies: a view would keep the whole output of its batch alive.
        scores, category_ids = np.array(found.scores, np.float32), self._category_ids[found.labels]
        self._parts[index] = DetectionTable(image_ids, category_ids, sized, scores, extra)

    def collect(self) -> DetectionTable:
        """Return all detections, and forget them here."""
        parts, self._parts = self._parts, []
        return DetectionTable.joined([part for part in parts if part is not None])


def read_predictions(path: Path, task: VisionTask) -> DetectionTable:
    """Return the detections of a task that `write_predictions` wrote. Raises UsageProblem as `read_rows`."""
    return DetectionTable.joined([_table(rows, task) for rows in read_rows(path, Box)])


def _table(found: Sequence[Box], task: VisionTask) -> DetectionTable:
    return DetectionTable(
        np.array([box["image_id"] for box in found], np.int64),
        np.array([box["category_id"] for box in found], np.int64),
        np.array([box["bbox"] for box in found], np.float32).reshape(-1, 4),
        np.array([box.get("score", 0.0) for box in found], np.float32),
        task.found(found) if found else None,
    )


def write_predictions(path: Path, detections: DetectionTable) -> None:
    """Write COCO's results format, the exact values that are scored, one detection a line, whole or not at all.

    Raises:
        OSError: the folder is not writable or the disk is full.
    """
    with atomic_writer(path, "w") as file:
        file.write("[")
        for start in range(0, len(detections), _STEP):
            file.write(("\n" if start == 0 else ",\n") + ",\n".join(_lines(detections, slice(start, start + _STEP))))
        file.write("\n]\n")


def join_predictions(path: Path, parts: Sequence[Path]) -> None:
    """Write what several files of `write_predictions` hold, byte for byte as it writes all of them.

    Raises:
        OSError: as `write_predictions`, or a part cannot be read.
    """
    with atomic_writer(path) as file:
        file.write(b"[")
        before = b"\n"
        for part in parts:
            with open_regular(part) as one:
                left = part.stat().st_size - len(b"[\n\n]\n")
                one.seek(len(b"[\n"))
                while left > 0 and (data := one.read(min(left, _CHUNK))):
                    file.write(before + data)
                    before, left = b"", left - len(data)
                before = before or b",\n"
        file.write(b"\n]\n")


def _lines(detections: DetectionTable, part: slice) -> Iterator[str]:
    """Yield some detections as `json.dumps` writes them, in a third of its time."""
    boxes, scores = detections.boxes[part], detections.scores[part]
    if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
        raise ValueError("a box or a score is not finite, which JSON cannot carry")
    columns = (detections.image_ids[part], detections.category_ids[part], boxes, scores)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    more = detections.extra.entries(part) if detections.extra else None
    added = (f", {json.dumps(entry, allow_nan=False)[1:-1]}" for entry in more) if more else itertools.repeat("")
    for (image, category, (x, y, width, height), score), text in zip(rows, added, strict=False):
        yield (
            f'{{"image_id": {image}, "category_id": {category}, "bbox": [{x!r}, {y!r}, {width!r}, {height!r}], '
            f'"score": {score!r}{text}}}'
        )
