"""LVIS: in each image only some categories were looked for, and some of these were not annotated everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted

Pair = tuple[int, int]
"""An image id and a category id."""
FREQUENCIES = {"rare": "r", "common": "c", "frequent": "f"}
"""How many images of the training set have a category: up to 10, up to 100, more."""


@dataclass(frozen=True)
class Federation:
    """What was looked for in which image.

    Attributes:
        absent: categories that were looked for and are not there.
        partial: categories that are there, and not all their objects are annotated.
    """

    absent: frozenset[Pair]
    partial: frozenset[Pair]


def read_federation(images: Sequence[Mapping[str, Any]], whole: Callable[[Any], int]) -> Federation | None:
    """Return what the images of an annotation file say; None of files that are not LVIS's.

    Args:
        images: as the file has them.
        whole: makes an id of a value.

    Raises:
        KeyError: an image lacks a list of the others.
        ValueError: an id is none.
    """
    if not any("neg_category_ids" in image for image in images):
        return None
    absent, partial = (
        frozenset((whole(image["id"]), whole(category)) for image in images for category in _listed(image, key))
        for key in ("neg_category_ids", "not_exhaustive_category_ids")
    )
    return Federation(absent, partial)


def without_frequency(frequencies: Mapping[str, str]) -> list[str]:
    """Return a note about categories, their frequencies by name, that count in no figure of a frequency."""
    lacking = [name for name, frequency in frequencies.items() if frequency not in FREQUENCIES.values()]
    figures = ", ".join(f"AP_{name}" for name in FREQUENCIES)
    which = f"{counted(len(lacking), 'category', 'categories')} without a frequency (r, c or f)"
    return [f"Left out of {figures}: {which}, such as {lacking[0]:.40}."] if lacking else []


def _listed(image: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(found := image[key], list):
        raise ValueError(f"image {image['id']} has {key} {found!r:.40}, not a list of category ids")
    return found


def name_of(image: Mapping[str, Any]) -> Any:
    """Return the file name of an image; LVIS has only its address, the folder of COCO and the name in it."""
    if "file_name" not in image and isinstance(address := image.get("coco_url"), str):
        return "/".join(address.split("/")[-2:])
    return image["file_name"]


def among(pairs: frozenset[Pair], images: NDArray[np.int64], categories: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows of two columns are one of the pairs, bool [N]."""
    rows = zip(images.tolist(), categories.tolist(), strict=True)
    return np.fromiter((row in pairs for row in rows), np.bool_, len(images))
