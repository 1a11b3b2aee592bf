import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vision.test_coco_scores import CATEGORIES, detections_near, ground_truth

from trt_workbench.core.statistics.bootstrap import draw_counts
from trt_workbench.vision import accumulate
from trt_workbench.vision.dataset import GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.scores import score_detections


def same(value: float | None, resampled: float) -> bool:
    return np.isnan(resampled) if value is None else resampled == pytest.approx(value, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 60), extra=st.integers(0, 400), images=st.integers(1, 12))
def test_every_image_once_gives_hotcocos_figures(seed: int, count: int, extra: int, images: int) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, count, images)
    found = detections_near(rng, truth, extra, images)
    matches = CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, found)
    resampled = matches.figures(np.ones((1, images), np.int32))
    scores = score_detections(truth, CATEGORIES, found)
    wrong = {
        name: (value, float(resampled.figures[name][0]))
        for name, value in scores.figures.items()
        if not same(value, resampled.figures[name][0])
    }
    assert not wrong
    assert all(same(row["AP"], ap) for row, ap in zip(scores.per_class(), resampled.by_class[0], strict=True))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_resample_is_the_data_set_with_its_images_repeated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = 6
    truth = ground_truth(rng, 30, images)
    found = detections_near(rng, truth, 100, images)
    # copies of one image tie among themselves alone
    found = DetectionTable(
        found.image_ids, found.category_ids, found.boxes, rng.permutation(len(found)).astype(np.float32)
    )
    counts = draw_counts(images, seed, 3)
    resampled = CocoMatches(np.arange(1, images + 1), truth, CATEGORIES, found).figures(counts)
    for row, drawn in enumerate(counts):
        copies = np.repeat(np.arange(1, images + 1), drawn)
        truths = [np.flatnonzero(truth.image_ids == image) for image in copies]
        founds = [np.flatnonzero(found.image_ids == image) for image in copies]
        gt, dt = np.concatenate(truths), np.concatenate(founds)
        gt_ids, dt_ids = (np.repeat(np.arange(1, images + 1), [len(one) for one in each]) for each in (truths, founds))
        expanded = GroundTruth(gt_ids, *(getattr(truth, n)[gt] for n in ("category_ids", "boxes", "areas", "crowd")))
        table = DetectionTable(dt_ids, found.category_ids[dt], found.boxes[dt], found.scores[dt])
        figures = score_detections(expanded, CATEGORIES, table).figures
        assert all(same(value, resampled.figures[name][row]) for name, value in figures.items())


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1), at_once=st.integers(1, 300), together=st.integers(1, 60), rows=st.integers(1, 40)
)
def test_how_much_is_accumulated_at_once_changes_nothing(seed: int, at_once: int, together: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, 60, 9)
    matches = CocoMatches(np.arange(1, 10), truth, CATEGORIES, detections_near(rng, truth, 200, 9))
    counts = draw_counts(9, seed, 12)
    whole = matches.figures(counts)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_AT_ONCE", at_once), ("_TOGETHER", together), ("_ROWS", rows)):
            patch.setattr(accumulate, name, value)
        parts = matches.figures(counts)
    assert all(np.allclose(values, parts.figures[name], 0, 1e-12, True) for name, values in whole.figures.items())
    assert np.allclose(whole.by_class, parts.by_class, 0, 1e-12, True)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), processors=st.integers(2, 40), operation=st.integers(1, 5_000))
def test_threads_give_the_figures_of_one_to_the_last_bit(seed: int, processors: int, operation: int) -> None:
    rng = np.random.default_rng(seed)
    truth = ground_truth(rng, 60, 9)
    matches = CocoMatches(np.arange(1, 10), truth, CATEGORIES, detections_near(rng, truth, 200, 9))
    counts, found = draw_counts(9, seed, 60), []
    for number in (1, processors):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accumulate, "available_processors", lambda number=number: number)
            patch.setattr(accumulate, "_OPERATION", operation)
            found.append(matches.figures(counts))
    alone, shared = found
    assert {name: values.tobytes() for name, values in alone.figures.items()} == {
        name: values.tobytes() for name, values in shared.figures.items()
    }
    assert alone.by_class.tobytes() == shared.by_class.tobytes()
