import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vision.coco_reference import pycocotools

from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.document import FIGURES
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.scores import score_detections

CATEGORIES = (Category(1, "a"), Category(5, "b"), Category(90, "c"), Category(91, "never"))


def ground_truth(rng: np.random.Generator, count: int, images: int) -> GroundTruth:
    boxes = np.concatenate([rng.uniform(0, 300, (count, 2)), rng.uniform(1, 200, (count, 2))], axis=1)
    return GroundTruth(
        rng.integers(1, images + 1, count),
        rng.choice([1, 5, 90], count),
        boxes,
        boxes[:, 2] * boxes[:, 3] * rng.uniform(0.4, 1, count),
        rng.random(count) < 0.15,
    )


def detections_near(rng: np.random.Generator, truth: GroundTruth, extra: int, images: int) -> DetectionTable:
    """Every object found twice, a little off and sometimes as another class, among boxes of nothing."""
    near = np.repeat(truth.boxes, 2, axis=0) + rng.normal(0, 4, (2 * len(truth), 4))
    ids = np.concatenate([np.repeat(truth.image_ids, 2), rng.integers(1, images + 1, extra)])
    classes = np.concatenate([np.repeat(truth.category_ids, 2), rng.choice([1, 5, 90], extra)])
    boxes = np.concatenate([near, rng.uniform(1, 200, (extra, 4))])
    boxes[:, 2:] = np.abs(boxes[:, 2:])
    order = np.argsort(ids, kind="stable")
    # Few different scores, so that ties matter.
    scores = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], len(ids))
    return DetectionTable(ids[order], classes[order], boxes[order].astype(np.float32), scores.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 40), extra=st.integers(1, 60), images=st.integers(1, 8))
def test_exactly_what_one_whole_evaluation_gives(seed: int, count: int, extra: int, images: int) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, count, images)
    detections = detections_near(rng, truth, extra, images)
    scores = score_detections(truth, CATEGORIES, detections)
    stats, precision = pycocotools("bbox", truth, detections, CATEGORIES)
    assert [-1 if value is None else value for value in scores.figures.values()] == stats.tolist()
    assert np.array_equal(scores.precision, precision[:, :, :, 0, 2])


@pytest.mark.parametrize("base", [2**53 + 1, 1_700_000_000_123_456_789, 2**63 - 1000, -(2**63), -7])
def test_ids_of_any_size_and_sign_give_the_same_figures(base: int) -> None:
    rng = np.random.default_rng(7)
    truth = ground_truth(rng, 40, 6)
    found = detections_near(rng, truth, 30, 6)
    categories = [Category(one.id + base, one.name) for one in CATEGORIES]
    moved = GroundTruth(truth.image_ids + base, truth.category_ids + base, truth.boxes, truth.areas, truth.crowd)
    table = DetectionTable(found.image_ids + base, found.category_ids + base, found.boxes, found.scores)
    expected, scores = score_detections(truth, CATEGORIES, found), score_detections(moved, categories, table)
    assert scores.figures == expected.figures
    assert (scores.precision == expected.precision).all()
    assert [row["AP"] for row in scores.per_class()] == [row["AP"] for row in expected.per_class()]
    assert [row["category_id"] for row in scores.per_class()] == [one.id for one in categories]
    images = np.arange(1, 7) + base
    CocoMatches(images, moved, categories, table).require_agreement(scores.figures)
    assert (confuse(images, tuple(categories), moved, table).matrix.sum(axis=1)[:-1] == scores.ground_truths).all()


def test_figures_of_other_matches_are_a_defect() -> None:
    rng = np.random.default_rng(7)
    truth = ground_truth(rng, 40, 6)
    figures = score_detections(truth, CATEGORIES, detections_near(rng, truth, 30, 6)).figures
    matches = CocoMatches(np.arange(1, 7), truth, CATEGORIES, no_detections())
    with pytest.raises(RuntimeError, match=r"AP is 0\.[0-9]+ in COCOeval and 0\.0 in"):
        matches.require_agreement(figures)


def no_detections() -> DetectionTable:
    empty = np.empty(0, np.int64)
    return DetectionTable(empty, empty, np.empty((0, 4), np.float32), np.empty(0, np.float32))


def test_figures_without_ground_truth_are_none() -> None:
    rng = np.random.default_rng(1)
    truth = ground_truth(rng, 0, 5)
    scores = score_detections(truth, CATEGORIES, detections_near(rng, truth, 9, 5))
    assert scores.figures == dict.fromkeys(FIGURES)
    assert scores.curves()["mean"] == {}
    assert [row["AP"] for row in scores.per_class()] == [None] * 4


def test_per_class_rows_and_curves_agree_with_the_figures() -> None:
    rng = np.random.default_rng(5)
    truth = ground_truth(rng, 60, 5)
    detections = detections_near(rng, truth, 20, 5)
    scores = score_detections(truth, CATEGORIES, detections)
    rows = scores.per_class()
    assert np.mean([row["AP"] for row in rows[:3]]) == pytest.approx(scores.figures["AP"])
    assert np.mean([row["AP50"] for row in rows[:3]]) == pytest.approx(scores.figures["AP50"])
    assert rows[3] == {
        "category_id": 91,
        "name": "never",
        "AP": None,
        "AP50": None,
        "ground_truths": 0,
        "detections": 0,
    }
    assert sum(row["detections"] for row in rows) == len(detections)
    assert sum(row["ground_truths"] for row in rows) == np.count_nonzero(~truth.crowd)
    curves = scores.curves()
    assert np.mean(curves["mean"]["0.50:0.95"]) == pytest.approx(scores.figures["AP"])
    assert np.mean(curves["mean"]["0.75"]) == pytest.approx(scores.figures["AP75"])
    assert len(curves["recall"]) == len(curves["classes"][0]["precision_50"]) == 101
    assert curves["classes"][3]["precision_50"] is None


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    score_detections(ground_truth(np.random.default_rng(1), 5, 2), CATEGORIES, no_detections())
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_categories_of_which_there_is_nothing_have_no_score_and_cost_none() -> None:
    rng = np.random.default_rng(5)
    truth = ground_truth(rng, 40, 6)
    found = detections_near(rng, truth, 30, 6)
    more = (Category(-3, "first"), *CATEGORIES, *(Category(1000 + number, "last") for number in range(3000)))
    few, many = (score_detections(truth, categories, found) for categories in (CATEGORIES, more))
    assert many.figures == few.figures
    assert np.array_equal(many.precision[:, :, 1 : len(CATEGORIES) + 1], few.precision)
    assert (np.delete(many.precision, range(1, len(CATEGORIES) + 1), axis=2) == -1).all()
    matches = CocoMatches(np.arange(1, 7), truth, more, found)
    matches.require_agreement(many.figures)
    assert np.isnan(matches.figures(np.ones((1, 6), np.int32)).by_class[0, len(CATEGORIES) + 1 :]).all()
