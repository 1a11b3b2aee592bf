"""What every way to score gives: figures of the images as they are, and of resamples of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trt_workbench.vision.dataset import Category
from trt_workbench.vision.matches import ResampledFigures, Verdicts


class Scores(Protocol):
    """Figures of the images as they are."""

    @property
    def figures(self) -> dict[str, float | None]:
        """By our names; None where there is nothing to score."""

    @property
    def categories(self) -> Sequence[Category]:
        """Of the data set."""

    def per_class(self) -> list[dict[str, Any]]:
        """Return one JSON object for every category: what it is, and its figures."""

    def curves(self) -> dict[str, Any]:
        """Return the content of curves.json."""


class Matches(Protocol):
    """Which detections are right, kept so that the figures of any resample of the images cost little."""

    def figures(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return the figures of resamples; `counts` is int32 [resamples, images], how often each was drawn."""

    def main(self, counts: NDArray[np.int32]) -> ResampledFigures:
        """Return only the main figure of resamples."""

    def require_agreement(self, figures: Mapping[str, float | None]) -> None:
        """Raise RuntimeError, a defect, unless `figures` are those of every image once, which intervals are of."""

    def verdicts(self) -> list[Verdicts] | None:
        """Return what was found of each category; None where no threshold of scores decides that."""
