"""Scores of a detector as it is used, at one threshold: F1, precision, recall, and how far its confidences are true.

A detection of the matches at IoU 0.5 is right, wrong or, in a crowd, ignored. COCO's matching takes the best score
first, so that what a threshold leaves out changes no other match.

The calibration error is that of Guo et al., On Calibration of Modern Neural Networks (2017), for detectors as Küppers
et al., Multivariate Confidence Calibration for Object Detection (2020), have it: detections at or above the threshold
are put into ten bins of equal width from it to 1, and the differences between the mean score and the share that is
right are averaged, weighted by the detections of each bin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics.summary import interval
from trt_workbench.vision.document import OPERATING
from trt_workbench.vision.matches import Verdicts

_BINS: Final = 10
_GRID: Final = np.linspace(0.0, 1.0, 101)
_AT_ONCE: Final = 4_000_000  # numbers of an intermediate array
_Values = NDArray[np.float64]


@dataclass(frozen=True)
class Operating:
    """The figures of one or more categories, by the names of `OPERATING`.

    Attributes:
        figures: None where there is nothing to find, or for precision and the calibration error nothing found.
        resampled: float64 [resamples] of each; NaN for None.
    """

    figures: dict[str, float | None]
    resampled: dict[str, _Values]

    def document(self) -> dict[str, Any]:
        """Return the figures and their 95 % intervals as metrics.json names them."""
        ends = {f"{name}_ci95": interval(self.resampled[name], value) for name, value in self.figures.items()}
        return {**self.figures, **ends}


def operate(verdicts: Verdicts, threshold: float, counts: NDArray[np.int32]) -> Operating:
    """Work out the figures.

    Args:
        verdicts: which detections are right.
        threshold: least score of a detection that counts.
        counts: int32 [resamples, images], how often each image was drawn.
    """
    return Operating(figures_at(verdicts, threshold, counts.shape[1]), resampled(verdicts, threshold, counts))


def figures_at(verdicts: Verdicts, threshold: float, images: int) -> dict[str, float | None]:
    """Return the figures of a number of images themselves."""
    once = resampled(verdicts, threshold, np.ones((1, images), np.int32))
    return {name: None if np.isnan(values[0]) else float(values[0]) for name, values in once.items()}


def resampled(verdicts: Verdicts, threshold: float, counts: NDArray[np.int32]) -> dict[str, _Values]:
    """Return the figures of resamples, float64 [resamples] by the names of `OPERATING`; NaN where there is none."""
    drawn = counts.astype(np.float64)  # whole numbers, which stay exact in sums and products
    shown = verdicts.at(threshold)
    objects = _summed(drawn, verdicts.objects)
    found, right = _summed(drawn, shown.images), _summed(drawn, shown.images, shown.right)
    best, at = _best(verdicts, counts, objects)
    values = (_f1(right, found, objects), _share(right, found), _share(right, objects), best, at)
    return dict(zip(OPERATING, (*values, _calibration_error(shown, threshold, drawn, found)), strict=True))


def curves(verdicts: Verdicts, threshold: float) -> dict[str, Any]:
    """Return what the pictures are drawn of: figures by threshold, and the bins of the calibration error."""
    ends = np.searchsorted(-verdicts.scores, -_GRID.astype(np.float32), side="right")
    right = np.concatenate([[0], np.cumsum(verdicts.right)])[ends].astype(np.float64)
    found, objects = ends.astype(np.float64), np.full(len(_GRID), float(len(verdicts.objects)))
    shown = verdicts.at(threshold)
    bins = _bins(shown.scores, threshold)
    number, hits, scores = (np.bincount(bins, one, _BINS) for one in (None, shown.right, shown.scores))
    return {
        "by_threshold": {
            "threshold": _GRID.tolist(),
            "f1": _listed(_f1(right, found, objects)),
            "precision": _listed(_share(right, found)),
            "recall": _listed(_share(right, objects)),
        },
        "reliability": {
            "edges": np.linspace(threshold, 1, _BINS + 1).tolist(),
            "detections": number.astype(int).tolist(),
            "score": _listed(_share(scores, number)),
            "precision": _listed(_share(hits, number)),
        },
    }


def _f1(right: NDArray[Any], found: NDArray[Any], objects: NDArray[Any]) -> _Values:
    return np.where(objects > 0, _share(2 * right, found + objects), np.nan)


def _best(verdicts: Verdicts, counts: NDArray[np.int32], objects: _Values) -> tuple[_Values, _Values]:
    """Return the largest F1 of any threshold, and the highest threshold with it; NaN where no detection is right.

    Detections of one score are above a threshold together. Only where one of them is right can F1 be largest.
    """
    places = np.flatnonzero(verdicts.right)
    ends = np.unique(np.searchsorted(-verdicts.scores, -verdicts.scores[places], side="right"))
    best: _Values = np.where(objects > 0, 0.0, np.nan)
    at = np.full(len(counts), np.nan)
    if not len(ends):
        return best, at
    before = np.searchsorted(places, ends)  # how many right ones are above
    images = verdicts.images[: ends[-1]]
    step = max(1, _AT_ONCE // len(images))
    for start in range(0, len(counts), step):
        part = slice(start, start + step)
        drawn = np.take(counts[part], images, axis=1)
        found = np.cumsum(drawn, axis=1, dtype=np.int32)[:, ends - 1]
        right = np.cumsum(drawn[:, places], axis=1, dtype=np.int32)[:, before - 1]
        values = _f1(right, found, objects[part, None])
        chosen = np.nan_to_num(values).argmax(axis=1)
        best[part] = np.take_along_axis(values, chosen[:, None], axis=1)[:, 0]
        at[part] = np.where(best[part] > 0, verdicts.scores[ends[chosen] - 1], np.nan)
    return best, at


def _calibration_error(shown: Verdicts, threshold: float, drawn: _Values, found: _Values) -> _Values:
    bins, images = _bins(shown.scores, threshold), drawn.shape[1]
    apart = shown.scores.astype(np.float64) - shown.right
    by_bin = np.bincount(bins * images + shown.images, apart, _BINS * images).reshape(_BINS, images)
    return _share(np.abs(drawn @ by_bin.T).sum(axis=1), found)


def _bins(scores: NDArray[np.float32], threshold: float) -> NDArray[np.intp]:
    """Return the bin of each score, which is at least the threshold."""
    width = (1 - threshold) / _BINS
    places = (scores.astype(np.float64) - threshold) / width if width > 0 else np.full(len(scores), _BINS)
    return np.clip(places, 0, _BINS - 1).astype(np.intp)


def _summed(drawn: _Values, images: NDArray[np.intp], weights: NDArray[np.bool_] | None = None) -> _Values:
    """Return how many of those that lie in images each resample has."""
    return np.asarray(drawn @ np.bincount(images, weights, drawn.shape[1]).astype(np.float64))


def _share(part: NDArray[Any], whole: NDArray[Any]) -> _Values:
    """Return the quotient, NaN where the whole is 0."""
    quotient: _Values = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)
    return quotient


def _listed(values: _Values) -> list[float | None]:
    return [None if np.isnan(one) else one for one in values.tolist()]


_IN_WORDS = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "ece": "calibration error (ECE)",
    "best_f1": "best F1",
}


def in_words(metrics: Mapping[str, Any]) -> str:
    """Return the figures of metrics.json in a sentence; "" of runs of earlier releases."""
    if metrics.get("f1") is None:
        return ""
    figures = [
        f"{words} {value:.4f}" + (f" ({ends[0]:.4f} to {ends[1]:.4f})" if ends else "")
        for name, words in _IN_WORDS.items()
        if (value := metrics[name]) is not None
        for ends in [metrics[f"{name}_ci95"]]
    ]
    at = metrics["best_f1_threshold"]
    best = "" if at is None else f" at {at:.3f}"
    return f"At score {metrics['settings']['threshold']:g}: {', '.join(figures)}{best}."
