"""Pascal VOC's form of a data set: an XML file an image, and lists of the images of each split."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.hashing import hash_bytes, hash_document, hash_parts
from trt_workbench.core.image_files import is_image
from trt_workbench.core.input_files import read_bytes
from trt_workbench.vision.forms.form import DEFAULT_SPLIT, MOST_CLASSES, DataForm, read_lines, split_names

_IMAGES = ("JPEGImages", "images")
_MOST_BYTES = 2**26
_SIDES = ("xmin", "ymin", "xmax", "ymax")
# Of a list of one class (-1 absent, 0 difficult, 1 present), as `aeroplane_val.txt` has them.
_PRESENCE = re.compile(r"\s+(-1|0|1)\s*$")


class _Object(NamedTuple):
    """An object as its file has it: `box` is xmin, ymin, xmax, ymax."""

    name: str
    box: tuple[float, ...]
    difficult: bool


class _Labels(NamedTuple):
    """One file: `size` is width and height, None where it does not say."""

    file: Path
    data: bytes
    size: tuple[int | None, int | None]
    objects: list[_Object]
    image: str


def xml_files(folder: Path) -> list[Path]:
    """Return the XML files of a folder, by name; none of what is no folder."""
    return sorted(one for one in folder.glob("*.xml") if not one.name.startswith(".")) if folder.is_dir() else []


def split_lists(folder: Path) -> dict[str, Path]:
    """Return the list of each split, `ImageSets/Main/SPLIT.txt` next to the folder of XML files."""
    lists = sorted((folder.parent / "ImageSets" / "Main").glob("*.txt"))
    names = {one.stem for one in lists}
    return {one.stem: one for one in lists if one.stem.rpartition("_")[2] not in names - {one.stem}}


def images_beside(folder: Path) -> Path:
    """Return where the images of XML files are: next to their folder, or in it."""
    tried = [folder.parent / name for name in _IMAGES]
    return next((one for one in tried if one.is_dir()), folder)


def read_voc(folder: Path, split: str | None = None) -> DataForm:
    """Read the XML files of a folder, with ids of images and classes by the order of their names.

    The classes are those of all splits. Boxes are as Detectron2 reads them: pixels count from 1 and the last one is in
    the box. Where a box begins before 1, the file was written by a tool that counts from 0, and its numbers are taken
    as the edges of boxes. What is `difficult` is a crowd, as MMDetection converts it to COCO's form: VOC's own
    evaluation counts neither who finds it nor who does not.

    Args:
        folder: `Annotations`, or that of images with their XML files.
        split: of those that `ImageSets/Main` lists; without lists there is none.

    Raises:
        UsageProblem: a file, an object or a list cannot be used; the path names it.
    """
    found = {file.stem: _read(file) for file in xml_files(folder)}
    names = sorted({one.name for labels in found.values() for one in labels.objects})
    if not names:
        raise UsageProblem(f"None of the {counted(len(found), 'XML file')} has an object: {folder}")
    if len(names) > MOST_CLASSES:
        raise UsageProblem(
            f"The XML files have {len(names)} classes, more than the {MOST_CLASSES} that are read: {folder}"
        )
    images = images_beside(folder)
    files = {file.stem: file.name for file in images.iterdir() if is_image(file.name)}
    notes: list[str] = []
    listed, split = _listed(folder, split, found)
    if not split and (alone := sorted(files.keys() - found.keys())):
        notes.append(f"{counted(len(alone), 'image')} without an XML file, left out (such as {files[alone[0]]}).")
    first = min(min(one.box[:2]) for labels in found.values() for one in labels.objects)
    if (shift := 1.0 if first >= 1 else 0.0) == 0:
        notes.append(
            f"A box begins at {first:g}, so coordinates were taken as edges from 0, not as VOC's pixels from 1."
        )
    document: dict[str, Any] = {"categories": [{"id": place, "name": name} for place, name in enumerate(names)]}
    places = {name: place for place, name in enumerate(names)}
    document |= {"images": [], "annotations": []}
    for number, labels in enumerate(listed, 1):
        name = files.get(labels.file.stem) or labels.image or f"{labels.file.stem}.jpg"
        width, height = labels.size
        document["images"].append({"id": number, "file_name": name, "width": width, "height": height})
        document["annotations"] += [
            {"image_id": number, "category_id": places[one.name], **_box(one, shift)} for one in labels.objects
        ]
    if crowds := sum(one.difficult for labels in listed for one in labels.objects):
        notes.append(f"{counted(crowds, 'object')} marked difficult, as a crowd: neither found nor missed.")
    hashes = ((labels.file.name, hash_bytes(labels.data)) for labels in listed)
    return DataForm(
        images, document, hash_parts([("", hash_document({"names": names})), *hashes]), split, notes=tuple(notes)
    )


def _listed(folder: Path, split: str | None, found: dict[str, _Labels]) -> tuple[Sequence[_Labels], str | None]:
    """Return what a split lists, by name, and the split; all where there are no lists."""
    lists = split_lists(folder)
    if not lists:
        return [*found.values()], None
    wanted = split or DEFAULT_SPLIT
    name = next((one for one in split_names(wanted) if one in lists), None)
    if name is None:
        raise UsageProblem(f"The data set has no split {wanted!r} (--split: {', '.join(lists)}): {folder.parent}")
    stems = sorted(set(_stems(lists[name])))
    if not stems:
        raise UsageProblem(f"The list of the split has no image: {lists[name]}")
    if absent := [one for one in stems if one not in found]:
        raise UsageProblem(
            f"{counted(len(absent), 'image')} of the split {name} without an XML file, such as {absent[0]!r:.80} "
            f"(looked for in {folder}): {lists[name]}"
        )
    return [found[one] for one in stems], name


def _stems(file: Path) -> Iterator[str]:
    for line in read_lines(file, "list of the split"):
        if text := _PRESENCE.sub("", line).strip():
            yield Path(text).stem if is_image(Path(text).name) else text


def _read(file: Path) -> _Labels:
    try:
        data = read_bytes(file, _MOST_BYTES, text=True)
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise ValueError("it declares a document type, which VOC's files never do")
        root = ElementTree.fromstring(data)
    except OSError as error:
        raise UsageProblem(f"The XML file cannot be read ({error.strerror}): {file}") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UsageProblem(f"The file is not Pascal VOC's XML ({error}): {file}") from error
    if root.tag != "annotation":
        raise UsageProblem(
            f"The file is not Pascal VOC's XML (it begins with <{root.tag:.40}>, not <annotation>): {file}"
        )
    try:
        objects = [_object(one, number) for number, one in enumerate(root.findall("object"), 1)]
    except ValueError as error:
        raise UsageProblem(f"An object of the XML file cannot be used: {error}: {file}") from error
    width, height = (_side(root.findtext(f"size/{name}")) for name in ("width", "height"))
    return _Labels(file, data, (width, height), objects, Path((root.findtext("filename") or "").strip()).name)


def _object(element: ElementTree.Element, number: int) -> _Object:
    """Return an object. Raises ValueError, which says what is wrong. Parts of an object are not read."""
    name, which = (element.findtext("name") or "").strip(), f"object {number}"
    if not name:
        raise ValueError(f"{which} has no name")
    box = element.find("bndbox")
    if box is None:
        raise ValueError(f"{which} ({name:.40}) has no bndbox")
    values = tuple(_number(box.findtext(side), f"{which} ({name:.40})", side) for side in _SIDES)
    if values[2] < values[0] or values[3] < values[1]:
        named = ", ".join(f"{side} {value:g}" for side, value in zip(_SIDES, values, strict=True))
        raise ValueError(f"{which} ({name:.40}) has a box that ends before it begins: {named}")
    difficult = (element.findtext("difficult") or "0").strip()
    if difficult not in ("0", "1"):
        raise ValueError(f"{which} ({name:.40}) is difficult {difficult!r:.20}, not 0 or 1")
    return _Object(name, values, difficult == "1")


def _number(text: str | None, which: str, side: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{which} has {side} {(text or '').strip()!r:.20}, which is not a number")
    return value


def _side(text: str | None) -> int | None:
    """Return a side of the image; None where a tool left it out or wrote 0."""
    return whole_number((text or "").strip()) or None


def _box(one: _Object, shift: float) -> dict[str, Any]:
    left, top, right, bottom = one.box
    width, height = right - left + shift, bottom - top + shift
    return {"bbox": [left - shift, top - shift, width, height], "area": width * height, "iscrowd": int(one.difficult)}
