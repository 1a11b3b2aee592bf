"""What the heads that families describe to a device share."""

from __future__ import annotations

from trt_workbench.backends.images import Head, Place
from trt_workbench.vision.families.base import DecodeSettings, Family


def overlap_of(family: Family, settings: DecodeSettings) -> float | None:
    """Return the overlap above which boxes are dropped; None for a family without suppression."""
    return None if family.default_iou is None else settings.iou or family.default_iou


def rows_head(family: Family, name: str, columns: int, rows: int, settings: DecodeSettings) -> Head:
    """Return the head of rows that begin with a box, its score and its class."""
    return Head(
        *family.input_size,
        items=rows,
        classes=family.class_count or 0,
        kind="rows",
        boxes=Place(name, 0, columns),
        scores=Place(name, 4, columns),
        labels=Place(name, 5, columns),
        conf=settings.conf,
        max_dets=settings.max_dets,
    )
