"""Any form of a data set, read as if it were COCO's annotation file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_workbench.backends.preparation import Exif
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import other_case
from trt_workbench.core.hashing import hash_bytes
from trt_workbench.core.input_files import parse_json
from trt_workbench.vision.forms.classes import LISTS, read_classes
from trt_workbench.vision.forms.form import DEFAULT_SPLIT, DataForm, content
from trt_workbench.vision.forms.label_maps import holds_maps, read_maps
from trt_workbench.vision.forms.yolo import SUFFIXES, read_yolo

TASK_KEYS = frozenset({"segmentation", "keypoints"})
"""Of annotations, what tasks read in addition to boxes, and what makes an annotation file large."""


def is_coco(annotations: Path) -> bool:
    """Whether annotations are in COCO's own form."""
    return not annotations.is_dir() and annotations.suffix.lower() not in (*SUFFIXES, *LISTS)


def read_form(
    folder: Path,
    annotations: Path,
    split: str | None = None,
    exif: Exif = "ignore",
    keys: frozenset[str] = frozenset(),
) -> DataForm:
    """Return what annotations hold, as COCO's annotation file says it, before it is checked.

    Args:
        folder: as of `read_dataset`, as are the next three.
        annotations: the file.
        split: of a form that has some.
        exif: what becomes of an EXIF orientation.
        keys: of annotations that are needed, of those that make a file large.

    Raises:
        UsageProblem: as `read_dataset`.
    """
    if annotations.suffix.lower() in SUFFIXES:
        return read_yolo(annotations, split or DEFAULT_SPLIT, exif)
    if holds_maps(annotations):
        return read_maps(annotations)
    if not is_coco(annotations):
        return read_classes(annotations, exif)
    if not folder.is_dir():
        raise UsageProblem(
            f"The images folder does not exist{other_case(folder)}; pass the folder with the files that the "
            f"annotations name: {folder}"
        )
    data = content(annotations, "annotation file")
    document = _parse(data, annotations, keys)
    # as quantize writes it of a part of such a data set
    return DataForm(folder, document, hash_bytes(data), of_images=document.get("of_images") is True)


def _parse(data: bytes, path: Path, keys: frozenset[str]) -> dict[str, Any]:
    # Masks are nine tenths of the file: what is not scored is dropped as each annotation is parsed.
    unused = TASK_KEYS - keys

    def light(entry: dict[str, Any]) -> dict[str, Any]:
        for key in unused & entry.keys():
            del entry[key]
        return entry

    try:
        document = parse_json(data, object_hook=light)
    except ValueError as error:  # UnicodeDecodeError is a ValueError too
        raise UsageProblem(f"The annotation file is not JSON ({error}): {path}") from error
    if not isinstance(document, dict):
        raise UsageProblem(
            f"The annotation file is not in COCO's format (a JSON {type(document).__name__} at the top level): {path}"
        )
    return document
