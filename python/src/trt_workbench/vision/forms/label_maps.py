"""Maps of classes: a PNG an image, whose values are the numbers of the pixels' classes, 255 of those that have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_file, hash_parts
from trt_workbench.core.image_files import images_below
from trt_workbench.core.input_files import open_regular
from trt_workbench.vision.forms.form import LEFT_OUT, DataForm, read_lines
from trt_workbench.vision.masks import annotation_of

_MAPS = ("masks", "annotations", "labels")
_IGNORED = 255
_NAMES = "classes.txt"


def map_folder(root: Path, splits: tuple[str, ...]) -> Path | None:
    """Return the folder of a split's maps, `ROOT/annotations/SPLIT` next to `ROOT/images/SPLIT`; None without one."""
    return next((one for one in (root / maps / split for split in splits for maps in _MAPS) if holds_maps(one)), None)


def holds_maps(folder: Path) -> bool:
    """Whether annotations are a folder of maps."""
    return folder.parent.name in _MAPS and images_of(folder).is_dir() and next(_maps(folder), None) is not None


def images_of(folder: Path) -> Path:
    """Return the folder of the images of maps."""
    return folder.parent.parent / "images" / folder.name


def read_maps(folder: Path) -> DataForm:
    """Read maps as one mask a class of each image, and what has no class as a crowd, which is not scored.

    Classes are the numbers up to the largest, or the lines of `classes.txt` beside the folder `images`, whose line "-"
    says that its number is no class.

    Raises:
        UsageProblem: a map is none, is of no image, or has a number that is no class; or all are of class 0.
    """
    images, listed = images_of(folder), folder.parent.parent / _NAMES
    named = read_lines(listed, "list of classes") if listed.is_file() else None
    skipped = {_IGNORED, *(value for value, name in enumerate(named or ()) if name == LEFT_OUT)}
    least = min({*range(len(named or "0"))} - skipped, default=0)  # a crowd needs a class, whichever
    files = {one.relative_to(images).with_suffix(""): one for one in images_below(images)}
    document: dict[str, Any] = {"images": [], "annotations": []}
    largest, hashes = 0, []
    for number, file in enumerate(sorted(_maps(folder)), 1):
        if (image := files.pop(file.relative_to(folder).with_suffix(""), None)) is None:
            raise UsageProblem(f"The map of classes has no image in {images}: {file}")
        plane, name = _values(file), image.relative_to(images).as_posix()
        document["images"].append({"id": number, "file_name": name, "height": plane.shape[0], "width": plane.shape[1]})
        hashes.append((name, hash_file(file)))
        for value in np.unique(plane).tolist():
            crowd = value in skipped
            largest = largest if crowd else max(largest, value)
            own = {"image_id": number, "category_id": least if crowd else value}
            document["annotations"].append({**annotation_of(plane == value), **own, "iscrowd": int(crowd)})
        if named and largest >= len(named):
            raise UsageProblem(f"Class {largest} is in none of the {len(named)} lines of {listed}: {file}")
    if not named and not largest:
        raise UsageProblem(
            f"All pixels of the maps are of class 0, or {_IGNORED}, which is no class. Masks of two values are "
            f"written as 0 and 1: {folder}"
        )
    names = named or [f"class{value}" for value in range(largest + 1)]
    document["categories"] = [{"id": value, "name": name} for value, name in enumerate(names) if value not in skipped]
    notes = (f"{counted(len(files), 'image')} without a map of classes, left out.",) if files else ()
    return DataForm(images, document, hash_parts([*hashes, ("", "\n".join(names))]), notes=notes)


def _maps(folder: Path) -> Iterator[Path]:
    return (one for one in images_below(folder) if one.suffix.lower() == ".png")


def _values(file: Path) -> NDArray[np.int64]:
    """Return the numbers of a map; those of a palette are its places, not its colours."""
    try:
        with open_regular(file) as opened, Image.open(opened, formats=("PNG",)) as image:
            values = np.asarray(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageProblem(f"The map of classes cannot be read ({error}): {file}") from error
    if values.ndim != 2:
        raise UsageProblem(f"The map of classes has colours; its pixels must be numbers of classes: {file}")
    return values.astype(np.int64)
