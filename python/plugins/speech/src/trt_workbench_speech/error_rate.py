"""Errors between two texts, by Levenshtein's distance, and error rates of many of them with their intervals."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from trt_workbench.core.documents import Strict
from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.core.statistics.summary import interval

# Quotation marks, modifier letters, prime, fullwidth: what stands for an apostrophe. And what nobody sees: soft hyphen,
# blank and joiner without width, marks of direction and of the order of bytes.
_ONE_FORM = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u02b9\u2032\uff07\u00b4"), "'"),
    **dict.fromkeys(map(ord, "\u00ad\u200b\u2060\u200e\u200f\ufeff")),
}


class Score(Strict):
    """An error rate or a difference of two, with its 95 % interval over utterances; None where too few hold it all."""

    value: FiniteFloat
    ci95: tuple[FiniteFloat, FiniteFloat] | None


class Errors(NamedTuple):
    """How a text differs from the right one, in words or other parts: the fewest edits."""

    substitutions: int
    deletions: int
    insertions: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def errors_between(right: Sequence[str], found: Sequence[str]) -> Errors:
    """Return the fewest edits between both; where several ways are as short, one of them."""
    numbers = {part: number for number, part in enumerate(dict.fromkeys([*right, *found]))}
    others = np.array([numbers[part] for part in found], np.int64)
    # An edit costs more than all deletions add: of the ways with the fewest edits, that with the fewest deletions.
    edit = len(right) + 1
    inserted = edit * np.arange(len(found) + 1, dtype=np.int64)
    row = inserted  # for each prefix of `found`
    for part in right:
        best = row + edit + 1
        np.minimum(best[1:], row[:-1] + edit * (others != numbers[part]), out=best[1:])
        row = np.minimum.accumulate(best - inserted) + inserted
    edits, deletions = divmod(int(row[-1]), edit)
    insertions = deletions + len(found) - len(right)
    return Errors(edits - deletions - insertions, deletions, insertions)


def one_form(text: str) -> str:
    """Return a text in one of the forms that look the same: composed, apostrophes straight, nothing invisible."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_ONE_FORM).split())


def normalized(text: str) -> str:
    """Return a text in one form, without case and punctuation; apostrophes within words stay."""
    plain = one_form(one_form(text).casefold())  # whose case may be decomposed again
    kept = (one if one == "'" or not unicodedata.category(one).startswith("P") else " " for one in plain)
    return " ".join(filter(None, (word.strip("'") for word in "".join(kept).split())))


class Rates:
    """Error rates of utterances that are drawn together, so that two models' are paired."""

    def __init__(self, lengths: Sequence[int], seed: int) -> None:
        """Take how many words, or other parts, the right text of each utterance has; not all may be 0."""
        self._lengths = np.asarray(lengths, np.float64)
        self._drawn = draw_counts(len(lengths), seed).astype(np.float64)
        drawn = self._drawn @ self._lengths
        self._sums = np.where(drawn > 0, drawn, np.nan)

    def rate(self, errors: Sequence[int]) -> Score:
        """Return the rate of errors of each utterance."""
        return self._of(np.asarray(errors, np.float64))

    def difference(self, errors: Sequence[int], others: Sequence[int]) -> Score:
        """Return by how much the first rate is higher than the second."""
        return self._of(np.asarray(errors, np.float64) - np.asarray(others, np.float64))

    def resampled(self, errors: Sequence[int] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rate of errors of each utterance in every draw, [draws]."""
        return self._drawn @ np.asarray(errors, np.float64) / self._sums

    def _of(self, errors: NDArray[np.float64]) -> Score:
        value = float(errors.sum() / self._lengths.sum())
        return Score(value=value, ci95=interval(self.resampled(errors), value))
