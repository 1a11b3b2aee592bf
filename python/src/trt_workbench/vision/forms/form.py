"""What every form of a data set becomes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import read_bytes, read_text

MOST_CLASSES = 100_000
"""That are read of a data set."""
LEFT_OUT = "-"
"""A line of a list of classes for what is none."""
DEFAULT_SPLIT = "val"
_ALSO = {"val": ("valid", "validation"), "valid": ("val",), "validation": ("val",)}


def split_names(split: str) -> tuple[str, ...]:
    """Return the names that a split goes by, its own first."""
    return (split, *_ALSO.get(split, ()))


def content(file: Path, what: str) -> bytes:
    """Return what a text file holds. Raises UsageProblem, naming `what` it is."""
    try:
        return read_bytes(file, text=True)
    except OSError as error:
        raise UsageProblem(f"The {what} cannot be read ({error.strerror}): {file}") from error


def read_lines(file: Path, what: str) -> list[str]:
    """Return the lines of a text file without blank ones at its end. Raises UsageProblem, naming `what` it is."""
    try:
        return [line.strip() for line in read_text(file).rstrip().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(f"The {what} cannot be read ({why}): {file}") from error


@dataclass(frozen=True)
class DataForm:
    """A data set as COCO's annotation file would say it.

    Attributes:
        folder: that the images' `file_name` are in.
        document: `images`, `categories` and `annotations`.
        sha256: of the labels with the names of their images, and of the classes.
        split: that was read; None of what has no splits.
        of_images: whether annotations are classes of whole images, not objects in them.
        notes: what the user should know about it, in sentences.
    """

    folder: Path
    document: dict[str, Any]
    sha256: str
    split: str | None = None
    of_images: bool = False
    notes: tuple[str, ...] = ()
