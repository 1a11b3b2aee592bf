"""Ultralytics' form of a data set: `data.yaml` names classes and splits, and each image has a file of labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trt_workbench.backends.preparation import Exif
from trt_workbench.core.counts import counted, some
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import other_case
from trt_workbench.core.hashing import hash_bytes, hash_document, hash_parts
from trt_workbench.core.image_files import images_below, is_image
from trt_workbench.core.yaml_files import read_yaml
from trt_workbench.core.yaml_settings import Location
from trt_workbench.vision.decode import image_size
from trt_workbench.vision.forms.form import DEFAULT_SPLIT, MOST_CLASSES, DataForm, read_lines, split_names
from trt_workbench.vision.forms.yolo_labels import LabelReader, Labels

SUFFIXES = (".yaml", ".yml")
"""Of the file that describes a data set."""
# Keys that are no splits, whatever they hold.
_NO_SPLITS = frozenset({"path", "names", "nc", "download", "kpt_shape", "kpt_names", "flip_idx", "roboflow"})
_SHOWN = 3


class _Yaml(NamedTuple):
    """A `data.yaml` with the lines of its values."""

    file: Path
    content: Mapping[str, Any]
    lines: Mapping[Location, int]

    def wrong(self, key: str, problem: str) -> UsageProblem:
        """Return the error about the value of a key."""
        return UsageProblem(f"In the data set's {key}: {problem}: {self.file}:{self.lines.get((key,), 1)}")


class _Listed(NamedTuple):
    """The images of a split, and the folder of each where a folder was named."""

    images: list[Path]
    is_folder: bool


def read_yolo(file: Path, split: str = DEFAULT_SPLIT, exif: Exif = "ignore") -> DataForm:
    """Read the labels of a split, with ids of images by the order of their names and those of classes by index.

    Args:
        file: `data.yaml`.
        split: key of the split.
        exif: what becomes of an EXIF orientation: labels are shares of the image as it is decoded.

    Raises:
        UsageProblem: the file, a list of images or a label cannot be used; it names the line.
    """
    described = _Yaml(file, *read_yaml(file, "a data set"))
    names, keypoints = _names(described), _keypoint_shape(described)
    notes: list[str] = []
    listed = _split(described, split, notes)
    folder = Path(os.path.commonpath([image.parent for image in listed.images]))
    reader = LabelReader(len(names), keypoints)
    document: dict[str, Any] = {"categories": [{"id": place, "name": name} for place, name in enumerate(names)]}
    labels = _read_images(listed.images, folder, reader, exif, document)
    if all(one.data is None for one in labels):
        first = label_file(listed.images[0])
        raise UsageProblem(f"None of the {len(labels)} images of {split} has a file of labels, such as: {first}")
    notes += _notes(labels)
    if listed.is_folder:
        notes += _without_images(listed.images)
    hashes = (
        (image["file_name"], hash_bytes(one.data or b"")) for image, one in zip(document["images"], labels, strict=True)
    )
    whole = hash_document({"names": names, "keypoints": keypoints})
    return DataForm(folder, document, hash_parts([("", whole), *hashes]), split, notes=tuple(notes))


def label_file(image: Path) -> Path:
    """Return where Ultralytics looks for the labels of an image: below `labels` in place of the last `images`."""
    images, labels = (f"{os.sep}{name}{os.sep}" for name in ("images", "labels"))
    return Path(labels.join(str(image).rsplit(images, 1))).with_suffix(".txt")


def _read_images(
    images: Sequence[Path], folder: Path, reader: LabelReader, exif: Exif, document: dict[str, Any]
) -> list[Labels]:
    """Fill in the images and annotations of a document; return the labels by image."""
    document |= {"images": [], "annotations": []}
    found = []
    for number, image in enumerate(images, 1):
        entry: dict[str, Any] = {"id": number, "file_name": image.relative_to(folder).as_posix()}
        labels = Labels(None, [])
        if image.is_file():  # a list may name what is absent, which the reader of annotations reports
            entry["width"], entry["height"] = size = image_size(image, exif)
            labels = reader.read(label_file(image), size)
        document["images"].append(entry)
        document["annotations"] += [{**one, "image_id": number} for one in labels.objects]
        found.append(labels)
    return found


def _names(described: _Yaml) -> list[str]:
    names, count = described.content.get("names"), described.content.get("nc")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MOST_CLASSES):
        raise described.wrong("nc", f"{count!r:.40} is not a number of classes")
    if names is None and count is not None:
        return [f"class_{place}" for place in range(count)]  # as Ultralytics calls them
    if names is None:
        raise UsageProblem(
            f"The data set names no classes; add `names`, in the order of their numbers: {described.file}"
        )
    if isinstance(names, dict):
        places = {str(key): value for key, value in names.items()}
        if absent := [place for place in range(len(names)) if str(place) not in places]:
            raise described.wrong("names", f"class {absent[0]} has no name; classes are numbered from 0")
        names = [places[str(place)] for place in range(len(places))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str | int | float) for name in names):
        raise described.wrong("names", "it is neither a list of names nor a name for each number")
    if count not in (None, len(names)):
        raise described.wrong("names", f"it has {len(names)} names, and nc is {count}")
    return [str(name) for name in names]


def _keypoint_shape(described: _Yaml) -> tuple[int, int] | None:
    shape = described.content.get("kpt_shape")
    if shape is None:
        return None
    whole = isinstance(shape, list) and all(isinstance(one, int) for one in shape)
    if not whole or len(shape) != 2 or shape[0] < 1 or shape[1] not in (2, 3):
        raise described.wrong("kpt_shape", f"{shape!r:.40} is not [points, 2 or 3]")
    return shape[0], shape[1]


def _split(described: _Yaml, split: str, notes: list[str]) -> _Listed:
    """Return the images of a split, by name. What is taken in another place than the file says is noted."""
    content = described.content
    key = next((one for one in split_names(split) if one not in _NO_SPLITS and content.get(one)), None)
    if key is None:
        known = [one for one in content if one not in _NO_SPLITS and isinstance(content[one], str | list)]
        raise UsageProblem(
            f"The data set has no split {split!r} (--split: {', '.join(known) or 'none'}): {described.file}"
        )
    values = content[key] if isinstance(content[key], list) else [content[key]]
    if not all(isinstance(value, str) and value and "\0" not in value for value in values):
        raise described.wrong(key, "a split is a folder, a list of folders, or a .txt of image paths")
    images: list[Path] = []
    places = [_place(described, key, value, notes) for value in values]
    for place in places:
        images += images_below(place) if place.is_dir() else _from_list(place, described, notes)
    if not images:
        raise described.wrong(key, f"there is no image in {', '.join(map(str, places))}")
    if repeated := len(images) - len(unique := sorted(set(images))):
        notes.append(f"{counted(repeated, 'image')} listed again; each counts once.")
    if not any(label_file(image).is_file() for image in unique):  # links, and the labels lie where they lead
        unique = sorted({image.resolve() for image in unique})
    return _Listed(unique, all(place.is_dir() for place in places))


def _place(described: _Yaml, key: str, value: str, notes: list[str]) -> Path:
    """Return the folder or list that a split names, in the first place where there is one."""
    path, here = described.content.get("path"), described.file.absolute().parent
    if not isinstance(path, str | None) or "\0" in (path or ""):
        raise described.wrong("path", f"{path!r:.40} is not a folder")
    said = (here / path if path else here) / value
    # Roboflow's ../ leads past the folder of data.yaml, and an absolute path may be one of another machine
    rest = [part for part in Path(value).parts if part not in ("..", os.sep)]
    tails = [here.joinpath(*rest), *(here.joinpath(*rest[start:]) for start in range(1, len(rest) - 1))]
    found = next((one for one in (said, here / value, *tails) if one.exists()), None)
    if found is None or not (found.is_dir() or found.suffix == ".txt"):
        never = "; its `download` is never run" if "download" in described.content else ""
        kind = "is neither a folder nor a .txt" if found else f"does not exist{other_case(_plain(said))}"
        raise described.wrong(key, f"{_plain(found or said)} {kind}{never}")
    if found != said:
        notes.append(f"{_plain(said)}, the data set's {key}, does not exist; {_plain(found)} was taken.")
    return _plain(found)


def _plain(path: Path) -> Path:
    """Return a path without `..`; links stay, as labels lie beside them."""
    return Path(os.path.normpath(path))


def _from_list(file: Path, described: _Yaml, notes: list[str]) -> list[Path]:
    """Return the images that a .txt names, a line each."""
    found, moved = [], 0
    for number, text in enumerate(read_lines(file, "list of images"), 1):
        if not text:
            continue
        if not is_image(Path(text).name) or "\0" in text:
            raise UsageProblem(f"{text!r:.80} is not the path of an image: {file}:{number}")
        place = file.parent / text
        if not place.is_file() and (other := _elsewhere(text, (file.parent, described.file.absolute().parent))):
            place, moved = other, moved + 1
        # what is absent is reported as of this folder
        found.append(_plain(place if place.is_file() else file.parent / text.lstrip(os.sep)))
    if moved:
        notes.append(f"{moved} of {len(found)} paths in {file.name} do not exist; their ends below it were taken.")
    return found


def _elsewhere(text: str, folders: Sequence[Path]) -> Path | None:
    """Return the file that the longest end of a path names in one of the folders."""
    parts = Path(text).parts
    ends = (folder.joinpath(*parts[start:]) for start in range(len(parts)) for folder in folders)
    return next((end for end in ends if end.is_file()), None)


def _notes(labels: Sequence[Labels]) -> list[str]:
    absent = sum(one.data is None for one in labels)
    empty = sum(not one.objects for one in labels) - absent
    notes = []
    if absent or empty:
        notes.append(
            f"{absent + empty} of {counted(len(labels), 'image')} have no object: {absent} without a file of labels, "
            f"{empty} with an empty one."
        )
    if repeated := sum(one.repeated for one in labels):
        notes.append(f"{counted(repeated, 'label')} repeated in a file, left out as Ultralytics does.")
    return notes


def _without_images(images: Sequence[Path]) -> list[str]:
    """Say which files of labels have no image; those of a list may be of images that it leaves out."""
    wanted = set(map(label_file, images))
    folders = {file.parent for file in wanted} - {image.parent for image in images}
    found = (file for folder in folders if folder.is_dir() for file in folder.glob("*.txt"))
    alone = sorted(file.name for file in found if file not in wanted and file.name != "classes.txt")
    said = f"{counted(len(alone), 'file')} of labels without an image, not counted ({some(alone, _SHOWN)})."
    return [said] if alone else []
