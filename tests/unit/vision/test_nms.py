import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trt_workbench.vision.families.nms import class_aware_nms


def overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one xyxy box with others, in double precision."""
    box, others = box.astype(np.float64), others.astype(np.float64)
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    return common / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - common)


def reference(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, iou: float, limit: int) -> list[int]:
    """Greedy suppression as its definition reads: best first, against every better box of the class that was kept."""
    kept: list[int] = []
    for index in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        rivals = [other for other in kept if labels[other] == labels[index]]
        if not rivals or overlaps(boxes[index], boxes[rivals]).max() <= iou:
            kept.append(index)
    return kept[:limit]


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, int]:
    count = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    corner = rng.integers(0, draw(st.sampled_from([4, 30, 300])), (count, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 40, (count, 2))], axis=1).astype(np.float32)
    # Few levels, so that equal scores occur.
    scores = rng.integers(1, draw(st.sampled_from([4, 1000])), count).astype(np.float32) / 1000
    labels = rng.integers(0, draw(st.sampled_from([1, 3, 80])), count)
    iou = draw(st.floats(0.05, 0.95))
    # The definition and OpenCV round differently: no pair may lie on the threshold.
    assume(all((np.abs(overlaps(box, boxes) - iou) > 1e-9).all() for box in boxes))
    return boxes, scores, labels.astype(np.int64), iou, draw(st.integers(1, 45))


@given(problem=problems())
def test_it_is_greedy_suppression_per_class(problem: tuple[np.ndarray, np.ndarray, np.ndarray, float, int]) -> None:
    assert class_aware_nms(*problem).tolist() == reference(*problem)


@pytest.mark.long
def test_more_candidates_than_a_block_and_an_early_end() -> None:
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 400, (2600, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 80, (2600, 2))], axis=1).astype(np.float32)
    scores = rng.permutation(2600).astype(np.float32) / 2600 + 1e-3
    labels = (rng.uniform(size=2600) < 0.1).astype(np.int64)
    for limit in (10, 300, 5000):
        expected = reference(boxes, scores, labels, 0.4, limit)
        assert class_aware_nms(boxes, scores, labels, 0.4, limit).tolist() == expected


def test_no_boxes() -> None:
    empty = np.empty(0, np.float32)
    assert class_aware_nms(np.empty((0, 4), np.float32), empty, np.empty(0, np.int64), 0.5, 10).tolist() == []


def test_the_input_is_left_alone() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11]], np.float32)
    before = boxes.copy()
    class_aware_nms(boxes, np.array([0.5, 0.6], np.float32), np.array([0, 0]), 0.5, 10)
    np.testing.assert_array_equal(boxes, before)
