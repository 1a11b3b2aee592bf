import json
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.detections import DetectionStore, at_least, best_of, write_predictions
from trt_workbench.vision.families import Detections

IDS = np.array([10, 20, 30], np.int64)
CATEGORIES = np.array([1, 90], np.int64)


def filled() -> DetectionStore:
    store = DetectionStore(IDS, CATEGORIES)
    boxes = np.array([[1, 2, 4, 8], [0.1, 0.2, 0.7, 0.9]], np.float32)
    store.put(2, Detections(boxes, np.array([0.9, 0.3], np.float32), np.array([1, 0])))
    store.put(0, Detections(boxes[:1], np.array([0.5], np.float32), np.array([0])))
    return store


def test_what_is_stored_does_not_keep_the_batch_alive() -> None:
    store = DetectionStore(IDS, CATEGORIES)
    outputs = np.ones((1000, 6), np.float32)
    store.put(0, Detections(outputs[:1, :4], outputs[:1, 4], np.zeros(1, np.int64)))
    outputs[:] = 7
    found = store.collect()
    assert found.boxes.tolist() == [[1, 1, 0, 0]]
    assert found.scores.tolist() == [1]


def test_boxes_of_classes_without_a_category_are_left_out() -> None:
    store = DetectionStore(IDS, CATEGORIES, np.array([False, True]))
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    store.put(1, Detections(np.eye(3, 4, dtype=np.float32), scores, np.array([1, 0, 1])))
    found = store.collect()
    assert found.category_ids.tolist() == [90, 90]
    assert found.scores.tolist() == np.array([0.9, 0.7], np.float32).tolist()


def test_nothing_found() -> None:
    found = DetectionStore(IDS, CATEGORIES).collect()
    assert len(found) == 0
    assert found.boxes.shape == (0, 4)


def test_a_class_that_the_dataset_does_not_have() -> None:
    store = DetectionStore(IDS, CATEGORIES)
    with refused(UsageProblem):
        store.put(0, Detections(np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.array([2])))


def test_predictions_hold_the_exact_values(tmp_path: Path) -> None:
    found = filled().collect()
    write_predictions(tmp_path / "predictions.json", found)
    rows = json.loads((tmp_path / "predictions.json").read_text())
    assert [row["image_id"] for row in rows] == found.image_ids.tolist()
    assert [row["category_id"] for row in rows] == found.category_ids.tolist()
    assert [row["bbox"] for row in rows] == found.boxes.tolist()
    assert [row["score"] for row in rows] == found.scores.tolist()


def test_no_predictions_are_an_empty_list(tmp_path: Path) -> None:
    write_predictions(tmp_path / "predictions.json", DetectionStore(IDS, CATEGORIES).collect())
    assert json.loads((tmp_path / "predictions.json").read_text()) == []


def test_more_predictions_than_one_block(tmp_path: Path) -> None:
    store = DetectionStore(IDS, CATEGORIES)
    found = Detections(np.ones((3000, 4), np.float32), np.ones(3000, np.float32), np.zeros(3000, np.int64))
    for index in range(3):
        store.put(index, found)
    write_predictions(tmp_path / "predictions.json", store.collect())
    assert len(json.loads((tmp_path / "predictions.json").read_text())) == 9000


def test_a_score_reaches_a_threshold_in_its_own_precision() -> None:
    scores = np.array([0.9, 0.7, np.nextafter(np.float32(0.7), np.float32(0))], np.float32)
    assert at_least(scores, 0.7).tolist() == [True, True, False]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.5, 0.9])), max_size=30), most=st.integers(1, 4)
)
@settings(deadline=None)
def test_the_best_of_each_group_are_those_of_a_loop(rows: list[tuple[int, float]], most: int) -> None:
    wanted: list[int] = []
    for group in {one for one, _ in rows}:
        own = [place for place, (one, _) in enumerate(rows) if one == group]
        wanted += sorted(own, key=lambda place: -rows[place][1])[:most]
    groups, scores = np.array([one for one, _ in rows], np.int64), np.array([one for _, one in rows], np.float32)
    assert best_of(scores, most, groups).tolist() == sorted(wanted)
