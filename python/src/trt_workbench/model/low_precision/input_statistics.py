"""Calibration data compared with evaluation data: a normalisation forgotten or done twice, channels swapped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.model.low_precision.evidence import InputStatistics

_CHANNELS = (1, 3, 4)
# Ratio of the spreads of two sets of images that were prepared alike; beyond the second one they cannot have been.
_SPREADS, _NO_IMAGES = 2.0, 3.0
# Distance of the means, in units of the smaller spread: sets of a few photographs reach 0.3.
_MEANS = 1.0
# A tilt counts above so many standard errors, and above so much of the spread.
_ERRORS, _LEAST_TILT = 3.0, 0.05


class InputMismatch(NamedTuple):
    """That two sets of inputs differ, in a sentence, and whether they cannot have been prepared alike."""

    words: str
    certain: bool


class Gatherer:
    """Statistics of one input, sample by sample."""

    def __init__(self) -> None:
        self._means: list[NDArray[np.float64]] = []
        self._squares: list[NDArray[np.float64]] = []
        self._image = False

    def add(self, sample: NDArray[Any]) -> None:
        """Take a sample without the batch dimension: by channel if its first or last axis is that of an image."""
        self._image = sample.ndim == 3 and (sample.shape[0] in _CHANNELS or sample.shape[-1] in _CHANNELS)
        last = self._image and sample.shape[0] not in _CHANNELS
        rows = np.moveaxis(sample, -1, 0) if last else sample
        flat = rows.reshape(len(rows) if self._image else 1, -1).astype(np.float64)
        self._means.append(flat.mean(axis=1))
        self._squares.append(np.square(flat).mean(axis=1))

    def statistics(self) -> InputStatistics:
        """Return what was gathered of one sample at least."""
        means, squares = np.array(self._means), np.array(self._squares)
        mean = means.mean(axis=0)
        tilts = means[:, 0] - means[:, -1] if means.shape[1] == 3 else np.zeros(0)
        error = float(tilts.std(ddof=1) / math.sqrt(len(tilts))) if len(tilts) > 1 else 0.0
        return InputStatistics(
            mean=tuple(mean.tolist()),
            spread=tuple(np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, 0)).tolist()),
            image=self._image,
            tilt=(float(tilts.mean()), error) if error else None,
        )


def gather(found: dict[str, Gatherer], samples: Iterable[Mapping[str, NDArray[Any]]]) -> None:
    """Add the inputs of floats of samples to what is there of each."""
    for sample in samples:
        for name, array in sample.items():
            if np.issubdtype(array.dtype, np.floating) and array.size:
                found.setdefault(name, Gatherer()).add(array)


def input_statistics(samples: Iterable[Mapping[str, NDArray[Any]]]) -> dict[str, InputStatistics]:
    """Return the statistics of every input of floats."""
    found: dict[str, Gatherer] = {}
    gather(found, samples)
    return {name: gatherer.statistics() for name, gatherer in found.items()}


def difference(
    calibration: Mapping[str, InputStatistics], evaluated: Mapping[str, InputStatistics]
) -> InputMismatch | None:
    """Say how what calibration fed differs from what is evaluated; None where it does not clearly.

    Args:
        calibration: by input.
        evaluated: the same.
    """
    found = [
        one
        for name, mine in calibration.items()
        if name in evaluated and (one := _differs(name, mine, evaluated[name])) is not None
    ]
    return max(found, key=lambda one: one.certain, default=None)


def _differs(name: str, mine: InputStatistics, other: InputStatistics) -> InputMismatch | None:
    if len(mine.mean) != len(other.mean):
        return None
    spreads = [float(np.sqrt(np.mean(np.square(one.spread)))) for one in (mine, other)]
    if not min(spreads):
        return None
    ratio = max(spreads) / min(spreads)
    apart = max(abs(a - b) for a, b in zip(mine.mean, other.mean, strict=True)) / min(spreads)
    if ratio > _SPREADS or apart > _MEANS:
        certain = mine.image and other.image and ratio > _NO_IMAGES
        may = "were" if certain else "may have been"
        here, there = (
            f"mean {_listed(one.mean)} and standard deviation {_listed(one.spread)}" for one in (mine, other)
        )
        return InputMismatch(
            f"{name} has {here} in the calibration data, but {there} in the evaluation data: they {may} normalised "
            "differently. Prepare both as inference does.",
            certain,
        )
    if mine.tilt and other.tilt and _swapped(mine.tilt, other.tilt, min(spreads)):
        above = " and ".join(f"{one.tilt[0]:.3g}" for one in (mine, other) if one.tilt)
        return InputMismatch(
            f"The channels of {name} may be in opposite orders (RGB and BGR) in the calibration and evaluation data: "
            f"the first exceeds the last by {above}.",
            certain=False,
        )
    return None


def _swapped(mine: tuple[float, float], other: tuple[float, float], spread: float) -> bool:
    """Whether the first channel is as far above the last in one set as below it in the other, beyond chance."""
    tilts = mine[0], other[0]
    clear = all(abs(tilt) > max(_ERRORS * error, _LEAST_TILT * spread) for tilt, error in (mine, other))
    return clear and tilts[0] * tilts[1] < 0 and abs(sum(tilts)) < abs(tilts[0] - tilts[1]) / 2


def _listed(values: Iterable[float]) -> str:
    return "/".join(f"{value:.3g}" for value in values)
