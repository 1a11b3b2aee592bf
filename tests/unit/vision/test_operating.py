"""Figures at a threshold against a plain loop over detections and objects, and by hand."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pycocotools import mask
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth, no_detections

from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.document import OPERATING
from trt_workbench.vision.matches import CocoMatches, Verdicts
from trt_workbench.vision.operating import curves, in_words, operate, resampled

Judged = list[tuple[float, bool]]  # score, right


def plain_matches(
    images: int, truth: GroundTruth, found: DetectionTable, category: int
) -> tuple[list[Judged], list[int]]:
    """By image: the detections that count, and the number of objects."""
    judged: list[Judged] = []
    objects = []
    for image in range(1, images + 1):
        mine = [
            place
            for place in range(len(truth))
            if (truth.image_ids[place], truth.category_ids[place]) == (image, category)
        ]
        own = [
            place
            for place in range(len(found))
            if (found.image_ids[place], found.category_ids[place]) == (image, category)
        ]
        own.sort(key=lambda place: -float(found.scores[place]))
        taken: set[int] = set()
        rows: Judged = []
        for place in own[:100]:
            best, chosen = 0.5, None
            for other in mine:
                if truth.crowd[other] or other in taken:
                    continue
                overlap = float(mask.iou([found.boxes[place].astype(float)], [truth.boxes[other]], [0])[0, 0])
                if overlap >= best:
                    best, chosen = overlap, other
            if chosen is not None:
                taken.add(chosen)
            elif any(
                mask.iou([found.boxes[place].astype(float)], [truth.boxes[other]], [1])[0, 0] >= 0.5
                for other in mine
                if truth.crowd[other]
            ):
                continue
            rows.append((float(found.scores[place]), chosen is not None))
        judged.append(rows)
        objects.append(sum(not truth.crowd[place] for place in mine))
    return judged, objects


def plain_f1(rows: Judged, objects: int, threshold: float) -> float:
    shown = [right for score, right in rows if score >= threshold]
    return 2 * sum(shown) / (len(shown) + objects)


def plain(rows: Judged, objects: int, threshold: float) -> dict[str, float | None]:
    shown = [(score, right) for score, right in rows if score >= threshold]
    right = sum(one for _, one in shown)
    best, at = (0.0, None) if objects else (None, None)
    for score in sorted({score for score, _ in rows}, reverse=True) if objects else ():
        if plain_f1(rows, objects, score) > (best or 0.0):
            best, at = plain_f1(rows, objects, score), score
    error = 0.0
    for place in range(10):
        low, high = threshold + place * (1 - threshold) / 10, threshold + (place + 1) * (1 - threshold) / 10
        own = [one for one in shown if low <= one[0] < high or (place == 9 and one[0] >= high)]
        if own:
            apart = sum(score for score, _ in own) / len(own) - sum(hit for _, hit in own) / len(own)
            error += len(own) / len(shown) * abs(apart)
    return {
        "f1": plain_f1(rows, objects, threshold) if objects else None,
        "precision": right / len(shown) if shown else None,
        "recall": right / objects if objects else None,
        "best_f1": best,
        "best_f1_threshold": at,
        "ece": error if shown else None,
    }


def verdicts_of(images: int, truth: GroundTruth, found: DetectionTable) -> list[Verdicts]:
    return CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, found).verdicts()


def same(found: float | None, expected: float | None) -> bool:
    return found is expected if expected is None or found is None else found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), count=st.integers(0, 25), extra=st.integers(0, 40), images=st.integers(1, 5),
    threshold=st.sampled_from([0.0, 0.2, 0.45, 0.89]),
)  # fmt: skip
@example(seed=0, count=0, extra=0, images=1, threshold=0.2)
def test_what_a_plain_loop_gives(seed: int, count: int, extra: int, images: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, count, images)
    found = detections_near(rng, truth, extra, images)
    verdicts = verdicts_of(images, truth, found)
    counts = draw_counts(images, seed, 3)
    pairs = [plain_matches(images, truth, found, one.id) for one in CATEGORIES]
    joined = [[row for rows, _ in pairs for row in rows[image]] for image in range(images)]
    objects = [sum(number[image] for _, number in pairs) for image in range(images)]
    for one, (rows, number) in zip([*verdicts, Verdicts.joined(verdicts)], [*pairs, (joined, objects)], strict=True):
        made = operate(one, threshold, counts)
        every = [np.ones(images, int), *counts]
        columns = [made.figures, *({name: value[row] for name, value in made.resampled.items()} for row in range(3))]
        for drawn, figures in zip(every, columns, strict=True):
            again = [pair for image, times in enumerate(drawn) for pair in rows[image] * int(times)]
            expected = plain(again, int(np.dot(number, drawn)), threshold)
            known = {
                name: None if value is None or np.isnan(value) else float(value) for name, value in figures.items()
            }
            assert {name: same(known[name], expected[name]) for name in OPERATING} == dict.fromkeys(OPERATING, True)


def verdicts(scores: Sequence[float], right: Sequence[bool], objects: int) -> Verdicts:
    return Verdicts(
        np.zeros(len(scores), np.intp),
        np.array(scores, np.float32),
        np.array(right, np.bool_),
        np.zeros(objects, np.intp),
    )


ONCE: NDArray[np.int32] = np.ones((1, 1), np.int32)


def test_by_hand() -> None:
    made = operate(verdicts([0.9, 0.8, 0.5, 0.2], [True, False, True, True], 4), 0.5, ONCE).figures
    assert (made["f1"], made["precision"], made["recall"]) == (4 / 7, 2 / 3, 0.5)
    assert (made["best_f1"], made["best_f1_threshold"]) == (6 / 8, pytest.approx(0.2))
    assert made["ece"] == pytest.approx((0.1 + 0.8 + 0.5) / 3)


def test_a_threshold_that_float32_rounds_is_met_by_the_same_score() -> None:
    assert [operate(verdicts([at], [True], 1), at, ONCE).figures["recall"] for at in (0.1, 0.3, 0.7, 1.0)] == [1] * 4


def test_scores_that_are_halved_change_the_figures_and_not_the_best_one() -> None:
    sure = verdicts([0.95, 0.9, 0.48, 0.3], [True, True, True, False], 4)
    half = verdicts([one / 2 for one in sure.scores.tolist()], sure.right.tolist(), 4)
    before, after = (operate(one, 0.25, ONCE).figures for one in (sure, half))
    assert before["best_f1"] == after["best_f1"]
    assert (before["f1"], after["f1"]) == (6 / 8, 4 / 6)
    assert (after["ece"] or 0) > (before["ece"] or 0)


@pytest.mark.parametrize(
    ("truth", "found", "known"),
    [
        (0, 0, {}),
        (0, 5, {"precision": 0.0}),
        (5, 0, {"f1": 0.0, "recall": 0.0, "best_f1": 0.0}),
    ],
)
def test_nothing_found_and_nothing_to_find(truth: int, found: int, known: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    objects = ground_truth(rng, truth, 2)
    objects = GroundTruth(
        objects.image_ids, objects.category_ids, objects.boxes, objects.areas, np.zeros(truth, np.bool_)
    )
    table = detections_near(rng, ground_truth(rng, 0, 2), found, 2) if found else no_detections()
    one = Verdicts.joined(verdicts_of(2, objects, table))
    document = operate(one, 0.0, draw_counts(2, 0, 9)).document()
    given = {name: document[name] for name in OPERATING if document[name] is not None and name != "ece"}
    assert given == known
    json.dumps([document, curves(one, 0.25)], allow_nan=False)


def test_crowds_alone_are_neither_found_nor_missed() -> None:
    truth = ground_truth(np.random.default_rng(1), 6, 1)
    crowds = GroundTruth(truth.image_ids, truth.category_ids, truth.boxes, truth.areas, np.ones(6, np.bool_))
    inside = DetectionTable(truth.image_ids, truth.category_ids, truth.boxes.astype(np.float32), np.ones(6, np.float32))
    assert set(operate(Verdicts.joined(verdicts_of(1, crowds, inside)), 0.25, ONCE).figures.values()) == {None}


def test_many_resamples_of_many_detections_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    truth = ground_truth(rng, 30, 4)
    one = Verdicts.joined(verdicts_of(4, truth, detections_near(rng, truth, 50, 4)))
    counts = draw_counts(4, 0, 20)
    whole = resampled(one, 0.25, counts)
    monkeypatch.setattr("trt_workbench.vision.operating._AT_ONCE", 200)
    assert all(
        np.array_equal(values, whole[name], equal_nan=True) for name, values in resampled(one, 0.25, counts).items()
    )


def test_the_curves_meet_the_figures() -> None:
    rng = np.random.default_rng(6)
    truth = ground_truth(rng, 30, 4)
    one = Verdicts.joined(verdicts_of(4, truth, detections_near(rng, truth, 50, 4)))
    drawn, figures = curves(one, 0.3), operate(one, 0.3, np.ones((1, 4), np.int32)).figures
    assert {name: drawn["by_threshold"][name][30] for name in ("f1", "precision", "recall")} == {
        name: figures[name] for name in ("f1", "precision", "recall")
    }
    bins = drawn["reliability"]
    apart = [n * abs(s - p) for n, s, p in zip(bins["detections"], bins["score"], bins["precision"], strict=True) if n]
    assert sum(apart) / sum(bins["detections"]) == pytest.approx(figures["ece"])


def test_every_figure_is_said_with_its_interval() -> None:
    names = ("f1", "precision", "recall", "ece", "best_f1", "best_f1_threshold")
    metrics = dict.fromkeys(names, 0.5) | {f"{name}_ci95": (0.4, 0.6) for name in names}
    said = in_words({**metrics, "settings": {"threshold": 0.25}, "precision_ci95": None})
    assert said == (
        "At score 0.25: F1 0.5000 (0.4000 to 0.6000), precision 0.5000, recall 0.5000 (0.4000 to 0.6000), calibration "
        "error (ECE) 0.5000 (0.4000 to 0.6000), best F1 0.5000 (0.4000 to 0.6000) at 0.500."
    )
    assert in_words({"f1": None}) == ""
