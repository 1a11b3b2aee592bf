"""A detection dataset in COCO's format: the annotation file read and checked, and the images that it lists."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.preparation import Exif
from trt_workbench.core.counts import counted, some
from trt_workbench.core.errors import UsageProblem, is_text
from trt_workbench.core.files import other_case, path_within
from trt_workbench.vision.extras import Restored
from trt_workbench.vision.forms.read import is_coco, read_form
from trt_workbench.vision.tasks.base import VisionTask

_UNUSABLE = "The data set cannot be used"
_NUMBERS = (int, float)  # a tuple: a union of types takes twice the time
NAMES_SHOWN = 5  # how many absent images a message names


@dataclass(frozen=True, slots=True)
class Category:
    """One object category: COCO's id, any whole number of 64 bits, and its name.

    Attributes:
        parent: the name of what it belongs to (`supercategory`), "" where the file does not say.
        annotated: whether any annotation of the file is of it.
    """

    id: int
    name: str
    parent: str = ""
    annotated: bool = True


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """One image as the annotation file lists it; width and height in pixels, None where the file does not say."""

    id: int
    file_name: str
    width: int | None
    height: int | None


@dataclass(frozen=True)
class GroundTruth:
    """All annotations, compact.

    Attributes:
        image_ids: int64 [N].
        category_ids: int64 [N].
        boxes: float64 [N,4], x, y, width, height in pixels.
        areas: float64 [N], in square pixels: of the mask where the dataset has masks.
        crowd: bool [N], whether the box holds a crowd that a detection may fall into unpunished.
        extra: what the task adds to each box, N rows; None of boxes alone.
    """

    image_ids: NDArray[np.int64]
    category_ids: NDArray[np.int64]
    boxes: NDArray[np.float64]
    areas: NDArray[np.float64]
    crowd: NDArray[np.bool_]
    extra: Restored | None = None

    def __len__(self) -> int:
        return len(self.image_ids)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> GroundTruth:
        """Return the annotations where `rows` is true (bool [N]) or at its indices (int [K])."""
        return GroundTruth(
            self.image_ids[rows],
            self.category_ids[rows],
            self.boxes[rows],
            self.areas[rows],
            self.crowd[rows],
            self.extra and self.extra.take(np.arange(len(self))[rows]),
        )


@dataclass(frozen=True)
class CocoDataset:
    """Images, categories and annotations of one annotation file.

    Attributes:
        folder: where the image files are.
        annotations: the annotation file.
        sha256: hexadecimal SHA-256 of the annotation file.
        images: ascending by id.
        categories: ascending by id.
        truth: annotations of `images` only.
        missing: file names of images that are listed and absent; they are not among `images`.
        annotated: how many annotations the file has.
        unlisted: how many of them are of no image that the file lists.
        split: that was read of a data set in another form than COCO's; None of COCO's.
        of_images: whether annotations are classes of whole images, as large as these.
        notes: what reading that form found, in sentences.
    """

    folder: Path
    annotations: Path
    sha256: str
    images: tuple[ImageEntry, ...]
    categories: tuple[Category, ...]
    truth: GroundTruth
    missing: tuple[str, ...] = ()
    annotated: int = 0
    unlisted: int = 0
    split: str | None = None
    of_images: bool = False
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> str:
        """Say which images are missing, and what to do about it."""
        return (
            f"Left out: {counted(len(self.missing), 'image')} of the annotations that --data does not have "
            f"({some(self.missing, NAMES_SHOWN)}). The score is of {counted(len(self.images), 'image')}; to score all, "
            "pass the folder that has them."
            + " Most are missing: is it the right folder?"
            * (len(self.missing) > len(self.images))
        )

    def path(self, image: ImageEntry) -> Path:
        """Return the path of an image file."""
        return self.folder / image.file_name

    def subset(self, image_ids: NDArray[np.int64]) -> CocoDataset:
        """Return the dataset cut down to the images with these ids."""
        kept = set(image_ids.tolist())
        images = tuple(image for image in self.images if image.id in kept)
        return replace(self, images=images, truth=self.truth.select(np.isin(self.truth.image_ids, image_ids)))


READ_BY: Final = ("split", "exif", "limit", "allow_missing")
"""Settings of an evaluation that say what of a data set is read."""


def read_by(settings: Mapping[str, Any], task: VisionTask) -> CocoDataset:
    """Return the data set of an evaluation, of its settings or what a shard keeps of them, as `read_dataset` does."""
    places = (Path(settings[name]) for name in ("images", "annotations"))
    return read_dataset(*places, **{name: settings[name] for name in READ_BY}, task=task)


def read_dataset(
    folder: Path,
    annotations: Path,
    *,
    split: str | None = None,
    exif: Exif = "ignore",
    limit: int | None = None,
    allow_missing: bool = False,
    task: VisionTask | None = None,
) -> CocoDataset:
    """Read annotations in COCO's form, or in another one as if they were, and find their images.

    Args:
        folder: where the images' `file_name` are looked for; other forms than COCO's say themselves where they are.
        annotations: COCO's annotation file ("instances"), Ultralytics' `data.yaml`, a folder of folders of
            classes, or a list of images with their classes.
        split: of a form that has some; None for its default.
        exif: what becomes of an EXIF orientation, for labels that are shares of an image.
        limit: take only this many images, those with the lowest ids; of classes of images some of each.
        allow_missing: leave images out that are listed and absent.
        task: what is read of annotations in addition to boxes; None for nothing.

    Raises:
        UsageProblem: a file is absent, or not in its form, or images are absent and `allow_missing` is false.
    """
    form = read_form(folder, annotations, split, exif, task.keys if task else frozenset())
    document, folder = form.document, form.folder
    with _reading(annotations):
        if any("neg_category_ids" in image for image in _rows(document, "images")):  # which may have no `file_name`
            raise ValueError("LVIS annotates in each image only some categories, which lvis-api and hotcoco score")
        categories = _categories(_rows(document, "categories"))
        listed = _images(_rows(document, "images"))
        rows = _rows(document, "annotations")
        truth = _truth(rows)
    used = set(truth.category_ids.tolist())
    categories = tuple(replace(category, annotated=category.id in used) for category in categories)
    unknown = sorted(used - {category.id for category in categories})
    if unknown:
        raise UsageProblem(
            f"Annotations use category ids that the file does not list ({unknown[:NAMES_SHOWN]}): {annotations}"
        )
    if form.of_images and limit:  # they are listed class by class, and the first would be of one
        shares = {listed[place * len(listed) // limit].id for place in range(limit if listed else 0)}
        listed.sort(key=lambda image: image.id not in shares)
    present, missing = _find(listed, folder, limit=limit, allow_missing=allow_missing)
    if not present:
        raise UsageProblem(
            f"There is no image to evaluate; the annotation file lists {counted(len(listed), 'image')}: {annotations}"
        )
    whole = CocoDataset(
        folder,
        annotations,
        form.sha256,
        present,
        categories,
        truth,
        missing,
        annotated=len(truth),
        unlisted=int((~np.isin(truth.image_ids, [image.id for image in listed])).sum()),
        split=form.split,
        of_images=form.of_images,
        notes=form.notes,
    )
    dataset = whole.subset(np.array([image.id for image in present], np.int64))
    if task is None:
        return dataset
    sizes = {image.id: (image.height, image.width) for image in present}
    kept = [row for row, image in zip(rows, truth.image_ids.tolist(), strict=True) if image in sizes]
    with _reading(annotations, f"The annotations do not fit a model for {task.words}"):
        extra = task.truth(kept, [sizes[image] for image in dataset.truth.image_ids.tolist()])
    return replace(dataset, truth=replace(dataset.truth, extra=extra))


@contextlib.contextmanager
def _reading(annotations: Path, what: str = "") -> Iterator[None]:
    """Turn what is wrong with the form of an annotation file into one sentence, which begins with `what`."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        why = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        form = "The annotation file is not in COCO's detection format" if is_coco(annotations) else _UNUSABLE
        raise UsageProblem(f"{what or form} ({why}): {annotations}") from error


def _rows(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = document[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"its {key} are not a list of objects")
    return rows


def _categories(rows: list[dict[str, Any]]) -> tuple[Category, ...]:
    made = [Category(_whole(row["id"]), _name(row["name"]), str(row.get("supercategory") or "")) for row in rows]
    found = sorted(made, key=lambda item: item.id)
    _require_unique([category.id for category in found], "categories")
    if not found:
        raise ValueError("its list of categories is empty")
    return tuple(found)


def _images(rows: list[dict[str, Any]]) -> list[ImageEntry]:
    found = [
        ImageEntry(_whole(row["id"]), _file_name(row["file_name"]), _size(row.get("width")), _size(row.get("height")))
        for row in rows
    ]
    found.sort(key=lambda item: item.id)
    _require_unique([image.id for image in found], "images")
    return found


def _truth(rows: list[dict[str, Any]]) -> GroundTruth:
    for number, each in enumerate(rows):
        box = each["bbox"]
        if not isinstance(box, list) or len(box) != 4 or not all(isinstance(one, _NUMBERS) for one in box):
            raise ValueError(f"annotation {each.get('id', number)} has the bbox {box!r}, not 4 numbers")
    boxes = np.array([row["bbox"] for row in rows], np.float64).reshape(-1, 4)
    areas = np.array([row["area"] for row in rows], np.float64)
    broken = ~np.isfinite(boxes).all(axis=1) | (boxes[:, 2:] < 0).any(axis=1) | ~np.isfinite(areas) | (areas < 0)
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        raise ValueError(
            f"annotation {rows[row].get('id', row)} has an invalid bbox {boxes[row].tolist()} or area {areas[row]}"
        )
    _require_unique(_wholes([row["id"] for row in rows if "id" in row]).tolist(), "annotations")
    return GroundTruth(
        _wholes([row["image_id"] for row in rows]),
        _wholes([row["category_id"] for row in rows]),
        boxes,
        areas,
        np.array([_flag(row.get("iscrowd", 0)) for row in rows], np.bool_),
    )


def _find(
    listed: list[ImageEntry], folder: Path, *, limit: int | None, allow_missing: bool
) -> tuple[tuple[ImageEntry, ...], tuple[str, ...]]:
    wanted = len(listed) if limit is None else limit
    present: list[ImageEntry] = []
    missing: list[str] = []
    for image in listed:
        if len(present) + (0 if allow_missing else len(missing)) >= wanted:
            break
        if (folder / image.file_name).is_file():
            present.append(image)
        else:
            missing.append(image.file_name)
    if missing and (not allow_missing or not present):
        fix = "--allow-missing leaves them out" if present else "is it the right folder?"
        raise UsageProblem(
            f"Images that the annotations list are missing ({len(missing)} of {len(present) + len(missing)}: "
            f"{some(missing, NAMES_SHOWN)}{other_case(folder / missing[0])}); {fix}: {folder}"
        )
    return tuple(sorted(present, key=lambda image: image.id)), tuple(missing)


def _require_unique(ids: list[int], kind: str) -> None:
    repeated = [number for number, count in Counter(ids).items() if count > 1]
    if repeated:
        raise ValueError(f"its {kind} have duplicate ids {repeated[:NAMES_SHOWN]}")


def _wholes(values: list[Any]) -> NDArray[np.int64]:
    """Return `_whole` of each, at once where all are plain: of an annotation file there are many."""
    if set(map(type, values)) <= {int} and -(2**63) <= min(values, default=0) <= max(values, default=0) < 2**63:
        return np.array(values, np.int64)
    return np.array([_whole(value) for value in values], np.int64)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        raise ValueError(f"{value!r} is not a whole number")
    if isinstance(value, float) and abs(value) > 2**53:
        raise ValueError(f"{value!r} is not exact: write numbers above 2^53 without a decimal point or an exponent")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r} does not fit into a signed 64-bit integer")
    return int(value)


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError(f"iscrowd must be 0 or 1, not {value!r}")
    return bool(value)


def _name(value: Any) -> str:
    name = str(value)
    if not is_text(name):
        raise ValueError(f"{name!r} is not a category name: it contains unprintable characters")
    return name


def _file_name(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{value!r} is not a file name")
    path_within(Path(), value)  # an annotation file of somebody else's must not choose among all files of this machine
    return value


def _size(value: Any) -> int | None:
    return None if value is None else _whole(value)
