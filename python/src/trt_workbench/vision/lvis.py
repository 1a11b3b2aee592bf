"""LVIS's figures, to the last bit those of lvis-api: AP by frequency of the categories, 300 detections an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import Category, CocoDataset, GroundTruth
from trt_workbench.vision.detections import DetectionTable, best_of
from trt_workbench.vision.document import FIGURES, OPERATING
from trt_workbench.vision.federation import FREQUENCIES, Federation, among
from trt_workbench.vision.figures import Measure
from trt_workbench.vision.measure import BOXES, MASKS, BoxMeasure, CocoMeasure, MaskMeasure
from trt_workbench.vision.tasks.base import VisionTask
from trt_workbench.vision.tasks.registry import tasks

_MOST = 300
_SHARED = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")
_FIGURES: Final = {
    **{name: FIGURES[name] for name in _SHARED},
    **{f"AP_{name}": f"AP of {name} categories" for name in FREQUENCIES},
    f"AR_{_MOST}": f"average recall with {_MOST} detections an image",
    **{f"AR_{size}": FIGURES[f"AR_{size}"].replace("AR_100", f"AR_{_MOST}") for size in ("small", "medium", "large")},
}


class _Federated(CocoMeasure):
    """Scores by LVIS's rules what another measure scores by COCO's."""

    figures: ClassVar[Mapping[str, str]] = _FIGURES
    most: ClassVar[int] = _MOST
    lvis: ClassVar[bool] = True

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def scored(self, truth: GroundTruth, found: DetectionTable) -> DetectionTable:
        """Return the best of each image whose category was looked for in it."""
        best = best_of(found.scores, _MOST, found.image_ids)
        known = frozenset(zip(truth.image_ids.tolist(), truth.category_ids.tolist(), strict=True))
        asked = among(known | self._federation.absent, found.image_ids[best], found.category_ids[best])
        return found.select(best[asked])

    def _punished(self, areas: NDArray[np.float64], found: DetectionTable) -> NDArray[np.float64]:
        """Return areas, with NaN, which is in no range, for what is not wrong where it finds nothing."""
        return np.where(among(self._federation.partial, found.image_ids, found.category_ids), np.nan, areas)

    def named(
        self, image_ids: NDArray[np.int64], categories: Sequence[Category]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return images and categories with what LVIS adds to them."""
        images, classes = super().named(image_ids, categories)
        places = {one.id: place for place, one in enumerate(categories, 1)}
        by_id = dict(zip(image_ids.tolist(), images, strict=True))
        for image in images:
            image |= {"neg_category_ids": [], "not_exhaustive_category_ids": []}
        for key, pairs in (
            ("neg_category_ids", self._federation.absent),
            ("not_exhaustive_category_ids", self._federation.partial),
        ):
            for image_id, category in pairs:
                if image_id in by_id and category in places:
                    by_id[image_id][key].append(places[category])
        for row, category_of in zip(classes, categories, strict=True):
            row["frequency"] = category_of.frequency
        return images, classes


class _LvisBoxes(_Federated, BoxMeasure):
    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        return self._punished(super().areas(found), found)


class _LvisMasks(_Federated, MaskMeasure):
    figures: ClassVar[Mapping[str, str]] = {name: f"{text}, of masks" for name, text in _FIGURES.items()}

    def areas(self, found: DetectionTable) -> NDArray[np.float64]:
        return self._punished(super().areas(found), found)


_BY_LVIS: Final[dict[Measure, type[_Federated]]] = {BOXES: _LvisBoxes, MASKS: _LvisMasks}


def measures_of(task: VisionTask, dataset: CocoDataset) -> tuple[Measure, ...]:
    """Return how models of a task are scored on a data set: by LVIS's rules on LVIS, by COCO's elsewhere.

    Raises:
        UsageProblem: LVIS has no rules for the task.
    """
    if dataset.federation is None:
        return task.measures
    if any(one not in _BY_LVIS for one in task.measures):
        raise UsageProblem(f"LVIS has boxes and masks, and the model is for {task.words}: {dataset.annotations}")
    return tuple(_BY_LVIS[one](dataset.federation) for one in task.measures)


def figure_names(*of: VisionTask) -> list[str]:
    """Return every figure that a metrics.json can have, by COCO's rules or LVIS's, of some tasks or of all."""
    measures = [one for task in of or tasks() for one in task.measures]
    names = [
        f"{one.prefix}{name}"
        for one in measures
        for name in (*one.figures, *(_BY_LVIS[one].figures if one in _BY_LVIS else ()))
    ]
    at_threshold = OPERATING if any(one.by_score for one in measures) else ()
    return list(dict.fromkeys([*names, *at_threshold, "images_per_s"]))


def figures_of(task: VisionTask, metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures of a metrics.json by their names, with what each one means."""
    return {
        f"{one.prefix}{name}": text
        for one in task.measures
        for name, text in (_BY_LVIS[one] if f"{one.prefix}AP_rare" in metrics else one).figures.items()
    }
