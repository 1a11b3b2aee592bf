"""Finding out how images are prepared where nobody says it: what is left open is scored on images of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.core.statistics.summary import interval
from trt_workbench.vision.class_map import ClassMap, map_classes
from trt_workbench.vision.dataset import Category, CocoDataset
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import Family
from trt_workbench.vision.families.recognise import with_said
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.preparation import flag, options_of, values_of
from trt_workbench.vision.settings import BY_ID

IMAGES: Final = 32
"""Images that the ways are scored on; the final score rests on at least as many others."""


@dataclass(frozen=True)
class Way:
    """One way to prepare the images and to read the classes.

    Attributes:
        tried: the settings in which it differs from another way.
        family: that decodes so.
        classes: the categories of its classes.
    """

    tried: dict[str, str]
    family: Family
    classes: ClassMap


def open_ways(family: Family, categories: Sequence[Category], how: str | None) -> list[Way]:
    """Return every way that the user, the metadata and the family leave open and whose classes fit the categories.

    Args:
        family: as it was recognised.
        categories: of the data set.
        how: `--classes`.

    Raises:
        UsageProblem: the classes fit in none.
    """
    left, ways, problems = family.left_open(), list[Way](), list[UsageProblem]()
    if how == BY_ID:  # which fits with and without a background, and is of heads that have none
        left |= {"background": ("none",)} if "background" in left else {}
    for values in itertools.product(*left.values()):
        tried = dict(zip(left, values, strict=True))
        try:
            made = with_said(family, tried) if tried else family
            ways.append(Way(tried, made, map_classes(made.class_count, made.names, categories, how)))
        except UsageProblem as problem:
            problems.append(problem)
    if not ways:
        raise problems[0]
    # without a background is how a head is read unless its classes say otherwise
    if "normalize" not in left and ways[0].tried.get("background") == "none":
        return ways[:1]
    varied = [name for name in left if len({way.tried[name] for way in ways}) > 1]
    return [replace(way, tried={name: way.tried[name] for name in varied}) for way in ways]


def split(
    whole: CocoDataset, scored: CocoDataset, seed: int, settings: Sequence[str]
) -> tuple[CocoDataset, CocoDataset]:
    """Return the images to find out on, and those that are scored then: no image is in both.

    Args:
        whole: every image of the data set.
        scored: those of `--limit`; others of the whole serve where there are enough.
        seed: draws them.
        settings: that are to be found out.

    Raises:
        UsageProblem: there are too few images.
    """
    ids = np.array([image.id for image in scored.images], np.int64)
    others = np.setdiff1d([image.id for image in whole.images], ids)
    source = others if len(others) >= IMAGES else ids
    if len(whole.images) < 2 * IMAGES or (source is ids and len(ids) < 2 * IMAGES):
        instead = " and ".join(f"{flag(name)} ({values_of(name)})" for name in settings)
        raise UsageProblem(
            f"The model does not say how it takes images. Pass {instead} as in its training, or give more images: "
            f"{IMAGES} to find it out and at least {IMAGES} others to score; there are {len(whole.images)}, and "
            f"{len(ids)} of them are scored."
        )
    drawn = np.sort(np.random.default_rng(seed).choice(source, IMAGES, replace=False))
    return whole.subset(drawn), scored.subset(np.setdiff1d(ids, drawn))


def probe(
    ways: Sequence[Way],
    dataset: CocoDataset,
    run: Callable[[Way], DetectionTable],
    seed: int,
    measure: Measure = BOXES,
) -> list[dict[str, Any]]:
    """Return a row for every way, best first: what is tried, its AP, and by how much it is behind the best.

    What stands for AP is the main figure of `measure`.

    Args:
        ways: what is tried.
        dataset: the images.
        run: returns what the model detects on them.
        seed: of the resamples, which all ways share.
        measure: how they are scored.

    Raises:
        DeviceFailure: the device failed.
    """
    ids = np.array([image.id for image in dataset.images], np.int64)
    counts = np.vstack([np.ones((1, len(ids)), np.int32), draw_counts(len(ids), seed)])
    name = measure.main[0]
    scored, failed = list[tuple[NDArray[np.float64], Way]](), list[dict[str, Any]]()
    for way in ways:
        try:
            found = run(way)
        except (UsageProblem, CheckFailed) as problem:  # outputs of pixels in a wrong range may be none at all
            failed.append({**way.tried, name: None, "behind_ci95": None, "reason": str(problem)})
        else:
            matches = measure.matches(ids, dataset.truth, dataset.categories, found)
            scored.append((matches.figures(counts).figures[name], way))
    scored.sort(key=lambda pair: -pair[0][0])
    rows = list[dict[str, Any]]()
    for score, way in scored:
        ahead = scored[0][0] - score
        behind = interval(ahead[1:], float(ahead[0])) if rows else None
        rows.append({**way.tried, name: float(score[0]), "behind_ci95": behind, "reason": None})
    return rows + failed


def chosen(rows: Sequence[dict[str, Any]], settings: Sequence[str], measure: Measure = BOXES) -> dict[str, str]:
    """Return the settings of the first of the rows of `probe`, if it is clear of all others.

    Raises:
        UsageProblem: no way finds anything, or the best two are not distinguishable.
    """
    name, (best, *others) = measure.main[0], rows
    if not (best[name] or 0) > 0:
        why = f": {best['reason']}" if best["reason"] else "."
        raise UsageProblem(
            f"How this model takes images cannot be found out: nothing that was tried finds an object on {IMAGES} "
            f"images{why} Check --family and --classes."
        )
    alike = [one for one in others if one[name] is not None and not (one["behind_ci95"] and one["behind_ci95"][0] > 0)]
    if not alike:
        return {setting: best[setting] for setting in settings}
    other = f"{_options(alike[0], settings)} ({name} {alike[0][name]:.4f}{_behind(alike[0])})"
    deciding = [setting for setting in settings if any(one[setting] != best[setting] for one in alike)]
    more = f", nor {counted(len(alike) - 1, 'other way')}" if len(alike) > 1 else ""
    raise UsageProblem(
        f"How this model takes images is not certain: {_options(best, settings)} ({name} {best[name]:.4f}) is not "
        f"distinguishable from {other} on {IMAGES} images{more}. Pass {' and '.join(map(flag, deciding))} as in the "
        "model's training."
    )


def table(rows: Sequence[dict[str, Any]], settings: Sequence[str], measure: Measure = BOXES) -> list[str]:
    """Return the rows of `probe` as lines of text."""
    name = measure.main[0]
    scores = (
        f"no {name}: {row['reason']}" if row[name] is None else f"{name} {row[name]:.4f}{_behind(row)}" for row in rows
    )
    return [f"{_options(row, settings)}: {score}" for row, score in zip(rows, scores, strict=True)]


def _behind(row: Mapping[str, Any]) -> str:
    ends = row["behind_ci95"]
    return f", behind by {ends[0]:.4f} to {ends[1]:.4f}" if ends else ""


def _options(row: Mapping[str, Any], settings: Sequence[str]) -> str:
    return options_of({name: row[name] for name in settings})
