"""What lies where `--data` points: the form of a data set, and the paths that the reader of annotations takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there
from trt_workbench.vision.forms.classes import LISTS, class_folders
from trt_workbench.vision.forms.form import DEFAULT_SPLIT, content, split_names
from trt_workbench.vision.forms.label_maps import images_of, map_folder
from trt_workbench.vision.forms.yolo import SUFFIXES

DESCRIPTIONS = (*SUFFIXES, ".json")
"""Suffixes of files that describe a data set of images with objects."""
_ROBOFLOW = "_annotations.coco.json"
# COCO's files of other tasks than "instances", or no annotations.
_OTHERS = ("captions", "person", "keypoints", "panoptic", "stuff", "image")
# At most as long as a path may be: the search of a string that does not end would take 100 bytes for each of it.
_FILE_NAME = re.compile(rb'"file_name"\s*:\s*"((?:[^"\\]|\\.){0,4096})"')
_NAMES = re.compile(rb"^names\s*:", re.MULTILINE)
_KNOWN = (
    "data.yaml (Ultralytics), SPLIT/_annotations.coco.json (Roboflow), annotations/instances_SPLIT.json (COCO), "
    "images/SPLIT/ and masks/SPLIT/ (maps of classes), SPLIT/CLASS/ (classification); "
    "or images, with COCO's file given by --annotations"
)


class DataPlace(NamedTuple):
    """A data set as `read_dataset` takes it.

    Attributes:
        images: folder of the images.
        annotations: annotation file, or `data.yaml`.
        split: of `data.yaml`; None of COCO's form.
        words: what was found, for the user.
        of_images: whether it has a class for each image.
    """

    images: Path
    annotations: Path
    split: str | None = None
    words: str = ""
    of_images: bool = False


def find_data(path: Path, split: str | None = None) -> DataPlace:
    """Return the data set in a folder, or that a file describes.

    Args:
        path: a folder, a `data.yaml` or an annotation file in COCO's form.
        split: which part of it; None for `val`.

    Raises:
        UsageProblem: there is none, or several could be meant.
    """
    require_there("data set", path)
    if (found := look_for_data(path, split)) is None:
        what = f"--data found no data set of split {split or DEFAULT_SPLIT}"
        raise UsageProblem(f"{what}; it takes a folder with one of these, or the file: {_KNOWN}: {path}")
    return found


def look_for_data(path: Path, split: str | None = None) -> DataPlace | None:
    """Return the data set as `find_data`; None where there is none. Raises UsageProblem if several could be meant."""
    found = [*_descriptions(path), *_coco_files(path, split)] if path.is_dir() else [path]
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(path)) for file in found)
        raise UsageProblem(f"The folder has several data sets ({names}); pass one of these files: {path}")
    if not found:
        return _maps(path, split) or _by_class(path, split)
    (file,) = found
    if file.suffix.lower() in SUFFIXES:
        wanted = split or DEFAULT_SPLIT
        return DataPlace(file.parent, file, wanted, f"{file}, split {wanted}")
    if file.suffix.lower() not in (".json", *LISTS):
        return None
    if file == path:
        refuse_split(file, split)
    if file.suffix.lower() in LISTS:
        return DataPlace(file.parent, file, None, f"{file}, a class for each image", of_images=True)
    images = _images_of(file)
    return DataPlace(images, file, None, f"{file}, images in {images}")


def refuse_split(file: Path, split: str | None) -> None:
    """Raise UsageProblem where a split is asked of a file that has none."""
    if split and file.suffix.lower() not in SUFFIXES:
        raise UsageProblem(f"A file of this form has no splits; remove --split: {file}")


def _maps(path: Path, split: str | None) -> DataPlace | None:
    folder = map_folder(path, split_names(split or DEFAULT_SPLIT))
    words = f"{folder}, a map of classes for each image"
    return DataPlace(images_of(folder), folder, None, words) if folder else None


def _by_class(path: Path, split: str | None) -> DataPlace | None:
    """Return the folder whose folders are classes: that of the split, or `path` itself."""
    places = [path / name for name in split_names(split or DEFAULT_SPLIT)] + ([] if split else [path])
    for place in places:
        if classes := class_folders(place):
            words = f"{place}, {counted(len(classes), 'folder')} of classes"
            return DataPlace(place, place, None, words, of_images=True)
    return None


def _descriptions(folder: Path) -> list[Path]:
    """Return the data.yaml, or else all YAML files that name classes."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    own = [file for file in files if file.stem in ("data", "dataset")][:1]
    return own or [file for file in files if _NAMES.search(content(file, "file"))]


def _coco_files(folder: Path, split: str | None) -> list[Path]:
    """Return the annotation files of a split; where none was asked for and one file is there, that one."""
    names = split_names(split or DEFAULT_SPLIT)
    own = [file for name in names if (file := folder / name / _ROBOFLOW).is_file()]
    files = sorted(file for place in (folder, folder / "annotations") for file in place.glob("*.json"))
    files = [file for file in files if not file.stem.startswith(_OTHERS)]
    parts = [(file, re.split(r"[_.\-]", file.stem.lower())) for file in files]
    own += [file for file, words in parts if any(re.fullmatch(rf"({'|'.join(names)})\d*", word) for word in words)]
    return own or (files if split is None and len(files) == 1 else [])


def _images_of(file: Path) -> Path:
    """Return the folder that the first image of an annotation file is in, of those where people keep them."""
    said = _FILE_NAME.search(content(file, "file"))
    try:
        first = str(json.loads(b'"%b"' % said[1])) if said else ""
    except ValueError:
        first = ""
    if not first:
        return file.parent  # what is wrong with the file is said by what reads it
    tried = [*dict.fromkeys(_folders(file))]
    found = next((folder for folder in tried if (folder / first).is_file()), None)
    if found is None:
        raise UsageProblem(
            f"The first image, {first!r:.80}, is in none of {', '.join(map(str, tried))}; pass the folder "
            f"of the images as --data, with --annotations: {file}"
        )
    return found


def _folders(file: Path) -> Iterator[Path]:
    last = file.stem.rsplit("_", 1)[-1]  # instances_val2017
    for root in (file.parent, file.parent.parent):
        yield from (root, root / last, root / "images" / last, root / "images")
