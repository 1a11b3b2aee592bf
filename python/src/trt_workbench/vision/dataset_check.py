"""Whether a data set can be what it says: which images its annotations are of, the form of their boxes, and classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
from hotcoco.primitives import bbox_iou
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.percent import share
from trt_workbench.vision.confusion import Confusion
from trt_workbench.vision.dataset import NAMES_SHOWN, CocoDataset, GroundTruth
from trt_workbench.vision.detections import DetectionTable, at_least
from trt_workbench.vision.faults import AREA, DUPLICATE, EMPTY, Boxes, Sizes, are_outside, by_box, odd_boxes
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import ROTATED
from trt_workbench.vision.rotated import RotatedBoxes
from trt_workbench.vision.settings import IOU_THRESHOLD, SCORE_THRESHOLD

# Boxes of shares reach up to 1, and a little beyond.
_LARGEST_SHARE, _NEARLY_ALL = 1.5, 0.95
# Of all boxes: so many outside are looked into; another form must leave so much fewer outside.
_MANY_OUTSIDE, _MUCH_FEWER, _MOST = 0.05, 0.2, 0.5
_LEAST_OUTSIDE = 3  # one or two may be drawn badly
# Of what is found: as it is, and in another form, from so many objects on.
_FEW_FOUND, _WELL_FOUND, _TIMES, _LEAST_OBJECTS = 0.3, 0.5, 3, 5
# A model that finds little finds at least so much more, of so many objects.
_SOME_FOUND, _MANY_TIMES, _SOME_OBJECTS = 0.2, 5, 10
_LOOKED_AT = 500  # images are enough to detect a form
# Longer sides that images are resized to, whose pixels boxes may be of.
_RESIZED: Final = (320, 416, 512, 640, 800, 1024, 1280)
_LARGEST_AREA = 1e10  # COCO's figures are of areas up to it
_NEARLY_EVERY = 0.8
_NEARLY_ZERO = 0.01  # AP50; boxes in the wrong places meet an object now and then

_FORMS: Final[dict[str, Callable[[Boxes], Boxes]]] = {
    "": lambda boxes: boxes,
    "corners (x1, y1, x2, y2)": lambda boxes: np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1),
    "centres (centre x, centre y, width, height)": lambda boxes: np.concatenate(
        [boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]], axis=1
    ),
    "y before x": lambda boxes: boxes[:, [1, 0, 3, 2]],
}
_UNITS: Final = {
    "": 0.0,
    "fractions of the image": 1.0,
    "percent of the image": 100.0,
    "thousandths of the image": 1000.0,
}
_FITS = 0.5  # of an object's span, or of all that it and its box cover
_IN_PIXELS = "COCO has them in pixels of the image, x first"
_WANTED = "COCO boxes are x, y of the top-left corner, width and height in pixels"


def check_annotations(dataset: CocoDataset) -> list[str]:
    """Check what needs no image.

    Returns:
        Warnings about what may be intended, in sentences.

    Raises:
        UsageProblem: a score would be meaningless: no object is annotated, or boxes are of another form.
    """
    truth, path, notes = dataset.truth, dataset.annotations, list(dataset.notes)
    if not len(truth) and dataset.unlisted:
        raise UsageProblem(
            f"None of the annotations ({dataset.unlisted}) belongs to an image that the file lists, so there is "
            f"nothing to score; do image_id and the ids of the images match? {path}"
        )
    if not len(truth) and dataset.annotated:
        raise UsageProblem(f"No annotations on {counted(len(dataset.images), 'image')}; evaluate more images: {path}")
    if not len(truth):
        raise UsageProblem(
            f"The file has no annotations, so there is nothing to score; predict shows what a model finds: {path}"
        )
    if truth.crowd.all():
        raise UsageProblem(
            f"All annotations ({len(truth)}) are crowds (iscrowd 1), which are not scored; set iscrowd to 0: {path}"
        )
    wanted = truth.select(~truth.crowd)
    if not (wanted.boxes[:, 2:] > 0).all(axis=1).any():
        raise UsageProblem(f"No annotated box has a width and a height, so there is nothing to find: {path}")
    if wanted.areas.min() > _LARGEST_AREA:
        raise UsageProblem(
            f"Every annotation has an area above {_LARGEST_AREA:.0e} square pixels, which COCO's metrics exclude, "
            f"so there is nothing to score: {path}"
        )
    if dataset.unlisted:
        notes.append(f"Ignored {counted(dataset.unlisted, 'annotation')} of images that the file does not list.")
    notes += _odd_boxes(truth)
    listed = {image.id: (image.height or 0, image.width or 0) for image in dataset.images}
    known = {key: size for key, size in listed.items() if min(size) > 0}
    return notes + _check_boxes(dataset, known) + _check_extra(dataset, known)


def check_found(
    dataset: CocoDataset,
    sizes: Sizes,
    detections: DetectionTable,
    confusion: Confusion,
    figures: Mapping[Measure, float | None],
    *,
    turned: bool,
) -> list[str]:
    """Check the annotations against the image files and what was found on them.

    Args:
        dataset: of the images that were evaluated.
        sizes: of the decoded images.
        detections: of these images.
        confusion: of these detections.
        figures: their AP at IoU 0.5 by each measure that has one; None where there is nothing to score.
        turned: whether images carry an EXIF rotation that is ignored: boxes may be of the turned ones.

    Returns:
        Warnings about what may be intended, in sentences.

    Raises:
        UsageProblem: the boxes are of another form: read so, most objects are found.
    """
    unlike = [
        image
        for image in dataset.images
        if (image.height or sizes[image.id][0], image.width or sizes[image.id][1]) != sizes[image.id]
    ]
    notes = (
        [_other_sizes([(one.file_name, (one.height, one.width), sizes[one.id]) for one in unlike])] if unlike else []
    )
    if not turned and len(dataset.truth):
        without = {
            image.id: sizes[image.id] for image in dataset.images if min(image.height or 0, image.width or 0) <= 0
        }
        notes += _check_boxes(dataset, without)
        listed = {image.id: (image.height or 0, image.width or 0) for image in unlike}
        _check_readings(dataset, sizes, listed, detections)
    said = _check_classes(confusion, dataset) or _check_score(dataset.truth, detections, figures)
    return notes + (said or _check_angles(_wanted(dataset.truth), detections))


def _odd_boxes(truth: GroundTruth) -> list[str]:
    notes = []
    odd = {fault: int(mask.sum()) for fault, mask in odd_boxes(truth).items()}
    if empty := odd[EMPTY]:
        notes.append(
            f"No detection can match {counted(empty, 'annotated box', 'annotated boxes')} without width or height."
        )
    if count := odd[AREA]:
        scaled = truth.extra is not None and not truth.extra.fills
        used = "all metrics of keypoints, and AP_small to AP_large," if scaled else "AP_small to AP_large"
        notes.append(f"Areas of annotations that do not fit the box: {count} of {len(truth)}; {used} use the area.")
    if repeated := odd[DUPLICATE]:
        notes.append(
            f"Duplicates: {counted(repeated, 'annotation')} with the image, class and box of another; each must be "
            "found."
        )
    return notes


def _other_sizes(unlike: list[tuple[str, tuple[int | None, int | None], tuple[int, int]]]) -> str:
    shown = ", ".join(name for name, _, _ in unlike[:NAMES_SHOWN])
    _, listed, found = unlike[0]
    swapped = all(said == is_[::-1] for _, said, is_ in unlike)
    why = "height and width are swapped, as by an EXIF rotation" if swapped else "are these the right images?"
    return (
        f"The size of {counted(len(unlike), 'image')} differs from the annotations ({shown}): {why} "
        f"(height x width, listed {listed[0]}x{listed[1]}, file {found[0]}x{found[1]})"
    )


@np.errstate(over="ignore", invalid="ignore")  # a box may have any finite number
def _check_boxes(dataset: CocoDataset, sizes: Sizes) -> list[str]:
    """Check positions of boxes in images whose sizes are known."""
    truth = dataset.truth.select(np.isin(dataset.truth.image_ids, list(sizes)))
    if not len(truth):
        return []
    size = by_box(truth, sizes)
    if size.min() > 8 and (truth.boxes.max(axis=1) <= _LARGEST_SHARE).mean() >= _NEARLY_ALL:
        largest = truth.boxes.max()
        raise UsageProblem(
            f"No annotated box extends beyond {largest:.3g} pixels: they look like fractions of the image (0 to 1). "
            f"{_WANTED}: {dataset.annotations}"
        )
    outside = {name: float(are_outside(form(truth.boxes), size).mean()) for name, form in _FORMS.items()}
    plain = outside.pop("")
    count = round(plain * len(truth))
    if plain <= _MANY_OUTSIDE or count < _LEAST_OUTSIDE:
        return [f"Annotated boxes that extend outside their image: {count} of {len(truth)}."] if count else []
    best = min(outside, key=lambda name: outside[name])
    seen = f"{share(plain)} of {len(truth)} annotated boxes extend outside their image"
    if outside[best] < _MUCH_FEWER * plain:
        raise UsageProblem(
            f"{seen}; read as {best}, {share(outside[best])} would. {_WANTED}; convert them: {dataset.annotations}"
        )
    if plain > _MOST:
        raise UsageProblem(
            f"{seen}: they belong to other images or to another image size. {_WANTED}: {dataset.annotations}"
        )
    return [f"{seen}."]


@np.errstate(over="ignore", invalid="ignore")
def _check_extra(dataset: CocoDataset, sizes: Sizes) -> list[str]:
    """Check what is annotated in addition to boxes against the annotations' own boxes."""
    truth = _wanted(dataset.truth)
    truth = truth.select(np.asarray((truth.boxes[:, 2:] > 0).all(axis=1)))
    if truth.extra is None:
        return []
    what, spans, notes = truth.extra.words, truth.extra.spans(), []
    absent = np.asarray(np.isnan(spans).any(axis=1))
    names = {image.id: image.file_name for image in dataset.images}

    def where(rows: NDArray[np.bool_]) -> str:
        return (
            f"{int(rows.sum())} of {len(truth)} annotated {what} (the first in {names[int(truth.image_ids[rows][0])]})"
        )

    if truth.extra.fills and absent.any():
        notes = [f"No detection can match {where(absent)}: they have no pixel, although their box has a size."]
    truth = truth.select(~absent)
    fit = _fits(truth, spans[~absent])
    if fit.all():
        return notes
    seen = f"{where(~fit)} do not lie in the box of their annotation"
    few = truth.select(np.isin(truth.image_ids, np.unique(truth.image_ids[~fit])[:_LOOKED_AT]))
    readings = _other_spans(few, sizes)
    wrong = ~_fits(few, readings.pop(""))
    shares = {name: float(_fits(few, spans)[wrong].mean()) for name, spans in readings.items()}
    if (best := max(shares.values())) < 1 - _MUCH_FEWER:
        return [*notes, f"{seen}: are they of another form, or of other objects? {_IN_PIXELS}."]
    how = " or ".join(name for name, one in shares.items() if one == best)
    seen = f"{seen}, but {share(best)} of these do if they are read as {how}. {_IN_PIXELS}"
    if fit.mean() < _MOST:
        raise UsageProblem(f"{seen}: convert the annotations: {dataset.annotations}")
    return [*notes, f"{seen}."]


def _other_spans(truth: GroundTruth, sizes: Sizes) -> dict[str, Boxes]:
    """Return the spans of what is annotated in addition to boxes, as they are ("") and by how they may be meant."""
    assert truth.extra is not None
    spans, others = truth.extra.spans(), np.full((len(truth), 4), np.nan)
    size = np.array([sizes.get(key, (np.nan, np.nan))[::-1] for key in truth.image_ids.tolist()], np.float64)
    for image in np.unique(truth.image_ids):
        mine = np.flatnonzero(truth.image_ids == image)
        for turn in range(1, len(mine)):
            fit = mine[_fits(truth.select(np.roll(mine, turn)), spans[mine])]
            others[fit] = truth.boxes[fit]
    return {
        "": spans,
        "fractions of the image": spans * np.tile(size.reshape(-1, 2), 2),
        "y before x": spans[:, [1, 0, 3, 2]],
        "measured from the corner of the box": spans + truth.boxes * (1, 1, 0, 0),
        "those of other objects of the image": others,
        **truth.extra.misread_spans(),
    }


def _fits(truth: GroundTruth, spans: Boxes) -> NDArray[np.bool_]:
    """Return which spans [K, 4] lie in the boxes of their rows, and fill them where that is what boxes are drawn by."""
    assert truth.extra is not None
    own, theirs = (
        np.concatenate([one[:, :2] - 1, one[:, :2] + one[:, 2:] + 1], axis=1) for one in (truth.boxes, spans)
    )
    shared = (np.minimum(own[:, 2:], theirs[:, 2:]) - np.maximum(own[:, :2], theirs[:, :2])).clip(0).prod(axis=1)
    areas = [(one[:, 2:] - one[:, :2]).prod(axis=1) for one in (theirs, own)]
    whole = areas[0] + (areas[1] - shared if truth.extra.fills else 0)
    return np.asarray(shared >= _FITS * whole)


@np.errstate(over="ignore", invalid="ignore")
def _check_readings(dataset: CocoDataset, sizes: Sizes, listed: Sizes, detections: DetectionTable) -> None:
    """Raise UsageProblem if the boxes, read in another form or unit, are found by far more often than as they are."""
    truth = _wanted(dataset.truth)
    truth = truth.select(np.isin(truth.image_ids, np.unique(truth.image_ids)[:_LOOKED_AT]))
    if len(truth) < _LEAST_OBJECTS:
        return
    found = at_least(detections.scores, SCORE_THRESHOLD)
    boxes, owners = detections.boxes[found].astype(np.float64), detections.image_ids[found]
    plain = _found(truth, truth.boxes, boxes, owners)
    if plain >= _FEW_FOUND or not len(boxes):
        return
    size = by_box(truth, sizes)
    readings = {
        " and ".join(filter(None, (form, unit))): make(truth.boxes * np.tile(size / whole, 2) if whole else truth.boxes)
        for (form, make), (unit, whole) in product(_FORMS.items(), _UNITS.items())
        if form or unit
    }
    if listed:
        scale = size / by_box(truth, {**sizes, **{key: one for key, one in listed.items() if min(one) > 0}})
        readings["pixels of the listed image sizes instead of the files'"] = truth.boxes * np.tile(scale, 2)
    for side in _RESIZED:
        readings[f"pixels of images resized to {side}"] = truth.boxes * np.tile(size.max(axis=1), (4, 1)).T / side
        readings[f"pixels of images stretched to {side}x{side}"] = truth.boxes * np.tile(size / side, 2)
    for factor, words in ((0.5, "twice"), (2.0, "half")):
        readings[f"pixels of images of {words} the size"] = truth.boxes * factor
    shares = {name: _found(truth, read, boxes, owners) for name, read in readings.items()}
    best = max(shares, key=lambda name: shares[name])
    least = max(_SOME_FOUND, _SOME_OBJECTS / len(truth), _MANY_TIMES * plain)
    if shares[best] >= min(least, max(_WELL_FOUND, _TIMES * plain)):
        raise UsageProblem(
            f"{share(plain)} of {len(truth)} annotated objects are found, but {share(shares[best])} if the boxes "
            f"are read as {best}. {_WANTED}: convert the annotations, or check the format of the model's boxes: "
            f"{dataset.annotations}"
        )


def _wanted(truth: GroundTruth) -> GroundTruth:
    """Return what is to be found, ascending by image."""
    truth = truth.select(~truth.crowd)
    return truth.select(np.argsort(truth.image_ids, kind="stable"))


def _found(truth: GroundTruth, boxes: Boxes, found: Boxes, owners: NDArray[np.int64]) -> float:
    """Return the share of objects that a box of any class covers; `truth` and `owners` are ascending by image."""
    images, hits = np.unique(truth.image_ids), 0
    spans = [np.searchsorted(ids, images, side) for ids in (truth.image_ids, owners) for side in ("left", "right")]
    for start, end, first, last in np.stack(spans, axis=1).tolist():
        mine = boxes[start:end]
        mine = mine[(mine[:, 2:] > 0).all(axis=1)]
        if first < last and len(mine):
            overlaps = np.asarray(bbox_iou(found[first:last], mine, np.zeros(len(mine), np.bool_)))
            hits += int((overlaps.max(axis=0) >= IOU_THRESHOLD).sum())
    return hits / len(truth)


def _check_classes(confusion: Confusion, dataset: CocoDataset) -> list[str]:
    """Say if boxes match and their classes do not, as where classes are counted from another number."""
    pairs = confusion.matrix[:-1, :-1]
    matched, right = int(pairs.sum()), int(np.trace(pairs))
    objects = confusion.matrix[:-1].sum()
    if matched < max(_LEAST_OBJECTS, _FEW_FOUND * objects) or right >= matched / 2:
        return []
    wrong = matched - right
    begin = f"{matched} of {counted(int(objects), 'object')} match a box, {wrong} of them one of another class"
    if dataset.of_images:
        begin = f"{wrong} of {counted(matched, 'image')} have another best class"
    for shift, how in ((1, "counts classes from 1"), (-1, "has no first class")):
        if np.trace(pairs, shift) >= _NEARLY_EVERY * matched:
            file = "a first line -" if shift > 0 else "one line fewer"
            return [f"{begin}: every class is off by one, as if the model {how} (--classes FILE with {file})."]
    names = confusion.labels
    rows = [(names[row], names[int(counts.argmax())]) for row, counts in enumerate(pairs) if counts.sum()]
    mixed = ", ".join(f"{one} as {other}" for one, other in rows[:NAMES_SHOWN] if one != other)
    if pairs.max(axis=1).sum() < _NEARLY_EVERY * matched or not mixed:
        return []
    return [f"{begin}: {mixed}. Are the classes in another order (--classes FILE)?"]


@np.errstate(over="ignore", invalid="ignore")
def _check_score(truth: GroundTruth, detections: DetectionTable, figures: Mapping[Measure, float | None]) -> list[str]:
    """Say if a score is nearly 0 although there are objects and detections of any score."""
    truth = _wanted(truth)
    for measure, ap50 in figures.items():
        if ap50 is None or ap50 >= _NEARLY_ZERO or not len(truth) or not len(detections):
            continue
        covered = _covered(measure, truth, detections)
        if covered >= _FEW_FOUND:
            why = f"The {measure.words} fit; check the classes (--classes), the scores, and the family (--family)."
        elif measure.prefix:
            why = (
                f"The boxes fit, their {measure.words} do not: are those of the annotations of the same objects, in "
                "the model's order, in pixels of the image, with areas in square pixels?"
            )
        else:
            why = (
                "Check the family (--family), the image size, the classes, and whether the boxes belong to these "
                "images."
            )
        return [
            f"{measure.prefix}AP50 is {ap50:.4f} with {counted(len(detections), 'detection')}: "
            f"{round(covered * len(truth)) or 'none'} of {len(truth)} annotated objects overlap a detection of any "
            f"class with {'OKS' if measure.words == 'keypoints' else 'IoU'} {IOU_THRESHOLD} or more. {why}"
        ]
    return []


def _check_angles(truth: GroundTruth, detections: DetectionTable) -> list[str]:
    """Say if rotated boxes fit far more objects with their angles counted the other way: their score is not near 0."""
    found = detections.extra
    if not isinstance(found, RotatedBoxes) or len(truth) < _LEAST_OBJECTS:
        return []
    mirrored = replace(detections, extra=RotatedBoxes(found.boxes * np.array([1, 1, 1, 1, -1], found.boxes.dtype)))
    own, other = (_covered(ROTATED, truth, one) for one in (detections, mirrored))
    if other < _NEARLY_EVERY or own > _NEARLY_EVERY * other:
        return []
    return [
        f"{round(own * len(truth))} of {len(truth)} annotated objects overlap a rotated box with IoU {IOU_THRESHOLD} "
        f"or more, and {round(other * len(truth))} with every angle counted the other way: the model's angles should "
        "grow clockwise as seen in the image."
    ]


def _covered(measure: Measure, truth: GroundTruth, detections: DetectionTable) -> float:
    """Return the share of objects that a detection of any class covers, by a measure."""
    hits = 0
    for image in np.unique(truth.image_ids):
        rows, objects = (np.flatnonzero(one.image_ids == image) for one in (detections, truth))
        if len(rows):
            hits += int((measure.overlaps(detections, rows, truth, objects).max(axis=0) >= IOU_THRESHOLD).sum())
    return hits / len(truth)
