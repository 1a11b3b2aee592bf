"""Which category of the dataset each class of the model is. COCO's 80 classes have ids from 1 to 90."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted, some
from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.input_files import read_text
from trt_workbench.vision.dataset import NAMES_SHOWN, Category
from trt_workbench.vision.forms.form import LEFT_OUT
from trt_workbench.vision.settings import BY_ID, BY_NAME, BY_ORDER

_some = partial(some, most=NAMES_SHOWN)
# Names that are none: Ultralytics' of a dataset without names, by its models and its exporter.
_PLACE = re.compile(r"(?:class[ _]?)?([0-9]{1,6})")
COCO_SLOTS = 91
"""Classes of a head that has one for each of COCO's ids, 0 and the unused ones too, as those of RF-DETR and LW-DETR."""
COCO_IDS = tuple(sorted({*range(COCO_SLOTS)} - {0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83}))
COCO_NAMES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator",
    "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip


@dataclass(frozen=True)
class ClassMap:
    """The categories of a model's classes.

    Attributes:
        ids: int64 [classes], the category id of each class index; of a class that is left out, any.
        kept: bool [classes], whether a class has a category; boxes of the others are left out.
        notes: what was chosen and left out, in sentences.
    """

    ids: NDArray[np.int64]
    kept: NDArray[np.bool_]
    notes: tuple[str, ...] = ()


def map_classes(
    class_count: int | None, names: Sequence[str] | None, categories: Sequence[Category], how: str | None = None
) -> ClassMap:
    """Map the model's contiguous class indices to category ids.

    By default a model that names its classes is mapped by name, and both sets of names must be equal (except case and
    blanks at the ends). One without names, or with numbers for names, is mapped by order: its classes are taken to be
    in the order of the ids, and the counts must be equal; 91 classes on COCO's categories are their ids. Categories
    without annotations and class are left out.

    Args:
        class_count: how many classes the model has; None where it does not say.
        names: the model's own class names by index; None where it has none.
        categories: the dataset's, ascending by id.
        how: "by-name" to leave out what only one side has, "by-order" whatever the names are, "by-id" where a class is
            the category of that id, or a file with the category, by name or id, of one class a line; None as above.

    Raises:
        UsageProblem: counts or names differ, so that no score could be trusted, or the file cannot be used.
    """
    count = len(names) if class_count is None and names else class_count
    if how == BY_NAME:
        return _shared_names(names or (), categories)
    if how == BY_ORDER:
        return _by_order(count, categories)
    if how == BY_ID:
        return _by_id(count, names, categories)
    if how is not None:
        return _by_file(count, names, class_lines(how, categories), categories, Path(how))
    if not names and count == COCO_SLOTS and _are_cocos(categories):
        by_slot = dict(zip(COCO_IDS, (one.id for one in categories), strict=True))
        slots = _made([by_slot.get(place) for place in range(count)], [*map(str, range(count))], categories)
        return ClassMap(slots.ids, slots.kept, (*slots.notes, "The model's 91 classes are interpreted as COCO's ids."))
    if not names:
        return _by_order(count, categories)
    if (found := _equal_names(names, categories)) is not None:
        return found
    numbers = [int(re.sub("[^0-9]", "", name)) for name in names if _PLACE.fullmatch(_plain(name))]
    if numbers == list(range(len(names))):
        found = _by_order(count, categories)
        return ClassMap(
            found.ids,
            found.kept,
            (*found.notes, "The model's class names are numbers: its classes are mapped by order."),
        )
    own, known = {_plain(name) for name in names}, {_plain(one.name) for one in categories}
    if twice := _repeated([_plain(one.name) for one in categories if one.annotated or _plain(one.name) in own]):
        raise UsageProblem(
            f"The annotations have several categories with one name ({_some(sorted(twice))}); rename them, or list the "
            "category of each class by its id, one per line, with --classes FILE."
        )
    raise UsageProblem(
        f"The model's {counted(len(names), 'class', 'classes')} and the annotations' "
        f"{counted(len(categories), 'category', 'categories')} differ: only the model has "
        f"{_some(sorted(own - known)) or 'none'}; only the annotations have {_some(sorted(known - own)) or 'none'}. "
        f"{_ways(count, names, categories)}"
    )


def _are_cocos(categories: Sequence[Category]) -> bool:
    """Whether these are COCO's 80, by their own ids, or in their order by others, as a data.yaml counts them."""
    return tuple(one.id for one in categories) == COCO_IDS or [_plain(one.name) for one in categories] == [*COCO_NAMES]


def _equal_names(names: Sequence[str], categories: Sequence[Category]) -> ClassMap | None:
    own = [_plain(name) for name in names]
    kept = [one for one in categories if one.annotated or _plain(one.name) in own]
    ids = {_plain(one.name): one.id for one in kept}
    if own == [_plain(one.name) for one in kept]:
        return _whole([one.id for one in kept], categories)
    if set(own) != ids.keys() or not len(own) == len(kept) == len(ids):
        return None
    return _whole([ids[name] for name in own], categories)


def _repeated(names: Sequence[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _shared_names(names: Sequence[str], categories: Sequence[Category]) -> ClassMap:
    own, known = [_plain(name) for name in names], [_plain(one.name) for one in categories]
    both = set(own) & set(known)
    if not both:
        what = "no class has the name of a category" if names else "the model has no class names"
        raise UsageProblem(f"--classes {BY_NAME}: {what}. Use by-order or a file.")
    if twice := sorted(both & (_repeated(own) | _repeated(known))):
        raise UsageProblem(f"--classes {BY_NAME}: duplicate names are ambiguous ({_some(twice)}); use a file.")
    ids = dict(zip(known, (one.id for one in categories), strict=True))
    return _made([ids.get(name) for name in own], list(names), categories)


def _by_order(count: int | None, categories: Sequence[Category]) -> ClassMap:
    if count in (None, len(categories)):
        return _whole([one.id for one in categories], categories)
    # Roboflow's root, which the others name as what they belong to; then whatever has no annotations
    parents = {one.parent for one in categories if one.parent != one.name}
    named: list[Callable[[Category], bool]] = [lambda one: one.name in parents, lambda _: True]
    for is_left_out in named:
        kept = [one.id for one in categories if one.annotated or not is_left_out(one)]
        if len(kept) == count:
            return _whole(kept, categories)
    raise UsageProblem(
        f"The model has {counted(count or 0, 'class', 'classes')} and the annotations have "
        f"{counted(len(categories), 'category', 'categories')} ({_some([one.name for one in categories])}); "
        f"they must match. {_ways(count, (), categories)}"
    )


def _by_id(count: int | None, names: Sequence[str] | None, categories: Sequence[Category]) -> ClassMap:
    known = {one.id for one in categories}
    if count is None or not known.intersection(range(count)):
        what = "does not say how many classes it has" if count is None else f"has {counted(count, 'class', 'classes')}"
        raise UsageProblem(f"--classes {BY_ID}: the model {what}, and no category id is the index of a class.")
    return _made([place if place in known else None for place in range(count)], _labels(count, names), categories)


def class_lines(how: str | None, categories: Sequence[Category]) -> list[str]:
    """Return the category that a file names for each class, none where `how` is no file; needs no model.

    Raises:
        UsageProblem: the file cannot be read, or the annotations lack a category.
    """
    if how in (None, BY_NAME, BY_ORDER, BY_ID):
        return []
    path = Path(how)
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(
            f"--classes takes {BY_NAME}, {BY_ORDER}, {BY_ID} or a text file, and the file cannot be read ({why}): "
            f"{path}"
        ) from error
    while lines and not lines[-1]:
        lines.pop()
    known = _known(categories)
    if wrong := [line for line in lines if _plain(line) not in known]:
        hint = did_you_mean(wrong[0], [one.name for one in categories])
        raise UsageProblem(f"The annotations have no category {wrong[0]!r}; {hint} The class file names it: {path}")
    return lines


def _known(categories: Sequence[Category]) -> dict[str, int | None]:
    """Return the id of a category by what a class file may call it; of no category, None."""
    known: dict[str, int | None] = {str(one.id): one.id for one in categories}
    return known | {_plain(one.name): one.id for one in categories} | {LEFT_OUT: None}


def _by_file(
    count: int | None, names: Sequence[str] | None, lines: Sequence[str], categories: Sequence[Category], path: Path
) -> ClassMap:
    if count not in (None, len(lines)) or not lines:
        raise UsageProblem(
            f"The class file has {counted(len(lines), 'line')}, but the model has "
            f"{counted(count, 'class', 'classes') if count else 'classes'}; write the category of each class, one per "
            f"line, {LEFT_OUT} for none: {path}"
        )
    known = _known(categories)
    return _made([known[_plain(line)] for line in lines], _labels(len(lines), names), categories)


def _labels(count: int, names: Sequence[str] | None) -> list[str]:
    """Return what classes are called in notes: by their names, else by their numbers."""
    return [*names] if names and len(names) == count else [*map(str, range(count))]


def _made(ids: Sequence[int | None], names: Sequence[str], categories: Sequence[Category]) -> ClassMap:
    """Return a map in which some have no partner, with notes that say so."""
    alone = [name for name, found in zip(names, ids, strict=True) if found is None]
    known = set(ids)
    missed = [one.name for one in categories if one.annotated and one.id not in known]
    notes = []
    if alone:
        count = counted(len(alone), "model class", "model classes")
        notes.append(f"Predictions of {count} without a category are dropped: {_some(alone)}.")
    if missed:
        count = counted(len(missed), "category", "categories")
        notes.append(f"Annotations of {count} without a model class count as missed: {_some(missed)}.")
    kept = np.array([found is not None for found in ids], np.bool_)
    return ClassMap(np.array([found or 0 for found in ids], np.int64), kept, tuple(notes))


def _whole(ids: Sequence[int], categories: Sequence[Category]) -> ClassMap:
    """Return a map of all classes, with a note if it leaves categories out."""
    known = set(ids)
    unused = [one.name for one in categories if one.id not in known]
    note = f"Categories without annotations and without a model class are left out: {_some(unused)}."
    return ClassMap(np.array(ids, np.int64), np.ones(len(ids), np.bool_), (note,) if unused else ())


def _ways(count: int | None, names: Sequence[str], categories: Sequence[Category]) -> str:
    """Say which values of --classes would do."""
    ways = []
    if {_plain(name) for name in names} & {_plain(one.name) for one in categories}:
        ways.append(f"--classes {BY_NAME} uses the names that both have")
    if names and (count == len(categories) or count == sum(one.annotated for one in categories)):
        ways.append(f"--classes {BY_ORDER} matches them by order")
    ids = [one.id for one in categories]
    counted_here = ids == [*range(len(ids))] and count != len(ids) + 1  # ids that say nothing of the model's classes
    if count and not names and len(ids) < count and max(ids) < count and not counted_here:
        ways.append(f"--classes {BY_ID} uses the class index as the category id")
    return "; ".join([*ways, "--classes FILE lists the category of each class, one per line"]) + "."


def _plain(name: str) -> str:
    return name.strip().casefold()
