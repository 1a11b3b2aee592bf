"""Images with one class each: a folder a class, or a list of `path class` lines. The class is of the whole image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trt_workbench.backends.preparation import Exif
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import path_within
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.image_files import images_below, is_image
from trt_workbench.vision.decode import image_size
from trt_workbench.vision.forms.form import MOST_CLASSES, DataForm, read_lines

LISTS = (".txt", ".csv", ".tsv")
"""Suffixes of a list of images with their classes."""
_NUMBER = re.compile("[0-9]{1,20}")
_PARTS = frozenset({"images", "labels", "annotations", "train", "val", "valid", "validation", "test"})


def class_folders(folder: Path) -> list[Path]:
    """Return the folders of classes in a folder, by name; none where its images are not by class."""
    if not folder.is_dir() or any(is_image(entry.name) and not entry.is_dir() for entry in folder.iterdir()):
        return []
    found = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return [] if any(one.name in _PARTS for one in found) or not any(any(images_below(one)) for one in found) else found


def read_classes(place: Path, exif: Exif = "ignore") -> DataForm:
    """Read images with one class each, as annotations that are as large as their image.

    Args:
        place: a folder with a folder a class, which are numbered by name; or a list, whose classes are numbers, or
            names that are numbered in their order.
        exif: what becomes of an EXIF orientation.

    Raises:
        UsageProblem: there is no image, or a line of the list is none.
    """
    folder = place if place.is_dir() else place.parent
    rows, names, notes = _folders(place) if place.is_dir() else _listed(place)
    if not rows:
        raise UsageProblem(f"No image has a class; expected a folder of images a class, or a list: {place}")
    document: dict[str, Any] = {"images": [], "annotations": []}
    document["categories"] = [{"id": number, "name": name} for number, name in enumerate(names)]
    for number, (name, label) in enumerate(sorted(rows), 1):
        entry = {"id": number, "file_name": name}
        if (folder / name).is_file():
            width, height = image_size(folder / name, exif)
            entry |= {"width": width, "height": height}
            whole = {"bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0}
            document["annotations"].append({"image_id": number, "category_id": label, **whole})
        document["images"].append(entry)
    digest = hash_document({"names": names, "rows": sorted(rows)})
    return DataForm(folder, document, digest, notes=tuple(notes), of_images=True)


def _folders(folder: Path) -> tuple[list[tuple[str, int]], list[str], list[str]]:
    """Return file names with the number of their class, the classes' names, and notes."""
    folders = class_folders(folder)
    rows = [
        (image.relative_to(folder).as_posix(), number)
        for number, one in enumerate(folders)
        for image in images_below(one)
    ]
    used = {number for _, number in rows}
    empty = [one.name for number, one in enumerate(folders) if number not in used]
    notes = [f"{counted(len(empty), 'class', 'classes')} without an image: {', '.join(empty[:5])}."] if empty else []
    return rows, [one.name for one in folders], notes


def _listed(file: Path) -> tuple[list[tuple[str, int]], list[str], list[str]]:
    found: dict[str, str] = {}
    notes: list[str] = []
    for number, line in enumerate(read_lines(file, "list of images"), 1):
        if not line:
            continue
        name, label = _parts(line, file, number)
        if found.setdefault(name, label) != label:
            raise UsageProblem(f"{name!r:.80} has two classes, {found[name]} and {label}: {file}:{number}")
    if all(map(_NUMBER.fullmatch, found.values())):
        found = {name: str(int(label)) for name, label in found.items()}
    names = _names([*found.values()], file)
    places = {name: place for place, name in enumerate(names)}
    return [(name, places[label]) for name, label in found.items()], names, notes


def _parts(line: str, file: Path, number: int) -> tuple[str, str]:
    """Return the path in the list's folder, and the class, of a line."""
    separator = next((one for one in ("\t", ",") if one in line), None)
    name, _, label = (part.strip() for part in line.rpartition(separator or " "))
    if not name or not label or not is_image(Path(name).name) or "\0" in name:
        raise UsageProblem(f"{line!r:.80} is not the path of an image and a class: {file}:{number}")
    place = Path(name)
    try:
        place = place.relative_to(file.absolute().parent) if place.is_absolute() else place
    except ValueError:
        raise UsageProblem(f"{name!r:.80} is not in the folder of the list: {file}:{number}") from None
    try:
        path_within(Path(), place.as_posix())  # before the file is opened
    except ValueError as error:
        raise UsageProblem(f"{error}: {file}:{number}") from None
    return place.as_posix(), label


def _names(labels: Sequence[str], file: Path) -> list[str]:
    """Return the names of classes: of numbers all from 0 to the largest."""
    if not all(map(_NUMBER.fullmatch, labels)):
        return sorted(set(labels))
    most = max(map(int, labels), default=-1)
    if most >= MOST_CLASSES:
        raise UsageProblem(f"Class {most} is above the {MOST_CLASSES} that are read: {file}")
    return [str(number) for number in range(most + 1)]
