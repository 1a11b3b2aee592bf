"""Errors by kind: by hand, and against a plain loop in the words of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth

from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.error_kinds import KINDS, Paired, count_errors
from trt_workbench.vision.matches import CocoMatches, Verdicts
from trt_workbench.vision.measure import BOXES
from trt_workbench.vision.operating import figures_at
from trt_workbench.vision.pairs import Spans, pairs_of


def errors(
    rows: list[list[float]], found: list[int], truth: list[int], crowd: list[bool] | None = None
) -> dict[str, int]:
    """Detections by falling score with their overlaps of the objects; classes of both."""
    overlaps = np.array(rows, np.float64).reshape(len(found), len(truth))
    scores = np.linspace(0.9, 0.5, len(found)).astype(np.float32)
    counts = counted(overlaps, np.array(found), np.array(truth), np.array(crowd or [False] * len(truth)), scores)
    return {kind: count for kind, count in counts.items() if count}


def counted(
    overlaps: NDArray[np.float64],
    found: NDArray[np.int64],
    truth: NDArray[np.int64],
    crowd: NDArray[np.bool_],
    scores: NDArray[np.float32],
) -> dict[str, int]:
    """The errors of one image."""
    one = [np.array([0, len(each)]) for each in (found, truth)]
    rows, objects = pairs_of(*(Spans(ends[:1], ends[1:]) for ends in one))
    owners = (np.zeros(len(found), np.intp), np.zeros(len(truth), np.intp))
    paired = Paired(
        rows, objects, overlaps.ravel(), *owners, found.astype(np.intp), truth.astype(np.intp), crowd.astype(np.bool_)
    )
    (counts,) = count_errors(paired, scores, 1)
    return dict(zip(KINDS, counts.tolist(), strict=True))


def test_in_a_crowd_nothing_is_wrong_or_missed() -> None:
    assert errors([[0.9]], [1], [1], [True]) == {}
    assert errors([[0.9]], [2], [1], [True]) == {"background": 1}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 25), extra=st.integers(0, 40))
def test_as_the_paper_says(seed: int, count: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, count, 1)
    truth = truth.select(np.flatnonzero(~truth.crowd))
    found = detections_near(rng, truth, extra, 1)
    overlaps = (
        BOXES.overlaps(found, np.arange(len(found)), truth, np.arange(len(truth)))
        if len(truth)
        else np.zeros((len(found), 0))
    )
    right: dict[int, int] = {}
    for place in sorted(range(len(found)), key=lambda one: -found.scores[one]):
        fitting = [
            other
            for other in range(len(truth))
            if truth.category_ids[other] == found.category_ids[place]
            and overlaps[place, other] >= 0.5
            and other not in right.values()
        ]
        if fitting:
            right[place] = max(fitting, key=lambda other: (overlaps[place, other], other))
    expected, explained = dict.fromkeys(KINDS, 0), set(right.values())
    for place in set(range(len(found))) - right.keys():
        own = {
            one: overlaps[place, one]
            for one in range(len(truth))
            if truth.category_ids[one] == found.category_ids[place]
        }
        other = {one: overlaps[place, one] for one in range(len(truth)) if one not in own}
        near, far = max(own.values(), default=0.0), max(other.values(), default=0.0)
        if 0.1 <= near < 0.5:
            kind = "localisation"
            explained.add(max(own, key=lambda one: own[one]))
        elif far >= 0.5:
            kind = "class"
            explained.add(max(other, key=lambda one: other[one]))
        else:
            kind = "duplicate" if near >= 0.5 else "both" if far > 0.1 else "background"
        expected[kind] += 1
    expected["missed"] = len(truth) - len(explained)
    assert counted(overlaps, found.category_ids, truth.category_ids, truth.crowd, found.scores) == expected


def test_wrong_detections_are_those_of_the_precision() -> None:
    rng = np.random.default_rng(4)
    truth = ground_truth(rng, 40, 3)
    found = detections_near(rng, truth, 60, 3)
    images = np.arange(1, 4)
    shown = Verdicts.joined(CocoMatches(images, truth, CATEGORIES, found).verdicts()).at(0.25)
    made = confuse(images, CATEGORIES, truth, found, threshold=0.25)
    document = made.document()["errors"]
    assert sum(document.values()) - document["missed"] == (~shown.right).sum() > 0
    assert figures_at(shown, 0.25, 3)["precision"] == pytest.approx(shown.right.mean())
    assert made.errors.sum() == sum(document.values())
