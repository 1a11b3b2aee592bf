"""What the heads that families describe to a device share."""

from __future__ import annotations

from trt_workbench.backends.images import Head, Place
from trt_workbench.vision.families.base import DecodeSettings, Family


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
