import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable

CATEGORIES = (Category(1, "cat"), Category(7, "dog"))
CAT, DOG, BACKGROUND = 0, 1, 2
BOX = [10.0, 10.0, 20.0, 20.0]
SHIFTED = [12.0, 10.0, 20.0, 20.0]  # IoU 0.82 with BOX
FAR = [100.0, 100.0, 20.0, 20.0]

Row = tuple[int, int, list[float]]


def truth(*rows: Row, crowd: tuple[bool, ...] | None = None) -> GroundTruth:
    boxes = np.array([box for _, _, box in rows], np.float64).reshape(-1, 4)
    return GroundTruth(
        np.array([image for image, _, _ in rows], np.int64),
        np.array([CATEGORIES[label].id for _, label, _ in rows], np.int64),
        boxes,
        boxes[:, 2] * boxes[:, 3],
        np.array(crowd or [False] * len(rows), np.bool_),
    )


def found(*rows: Row, scores: list[float] | None = None) -> DetectionTable:
    return DetectionTable(
        np.array([image for image, _, _ in rows], np.int64),
        np.array([CATEGORIES[label].id for _, label, _ in rows], np.int64),
        np.array([box for _, _, box in rows], np.float32).reshape(-1, 4),
        np.array(scores or [0.9] * len(rows), np.float32),
    )


def cells(matrix: np.ndarray) -> dict[tuple[int, int], int]:
    return {(int(row), int(column)): int(matrix[row, column]) for row, column in np.argwhere(matrix)}


ONE = np.array([1], np.int64)


def test_a_hit_a_miss_and_a_phantom() -> None:
    result = confuse(
        ONE, CATEGORIES, truth((1, CAT, BOX), (1, DOG, FAR)), found((1, CAT, SHIFTED), (1, CAT, [0, 0, 5, 5]))
    )
    assert cells(result.matrix) == {(CAT, CAT): 1, (DOG, BACKGROUND): 1, (BACKGROUND, CAT): 1}
    assert result.counts.tolist() == [[2, 2, 1, 1, 1]]
    assert (result.wrong, result.missed) == (([1],), ([1],))
    assert result.document()["labels"] == ["cat", "dog", "background"]


@pytest.mark.parametrize(
    ("guesses", "scores", "expected", "counts"),
    [
        ([(1, DOG, BOX)], [0.9], {(CAT, DOG): 1}, [1, 1, 0, 1, 1]),
        ([(1, DOG, BOX), (1, CAT, SHIFTED)], [0.9, 0.9], {(CAT, CAT): 1, (BACKGROUND, DOG): 1}, [2, 1, 1, 1, 0]),
        ([(1, CAT, SHIFTED), (1, CAT, BOX)], [0.9, 0.9], {(CAT, CAT): 1, (BACKGROUND, CAT): 1}, [2, 1, 1, 1, 0]),
        ([(1, CAT, BOX)], [0.24], {(CAT, BACKGROUND): 1}, [1, 1, 0, 0, 1]),
    ],
    ids=["the wrong class", "the right class before the better box", "found once", "a low score is a detection alone"],
)
def test_one_object(
    guesses: list[Row], scores: list[float], expected: dict[tuple[int, int], int], counts: list[int]
) -> None:
    result = confuse(ONE, CATEGORIES, truth((1, CAT, BOX)), found(*guesses, scores=scores))
    assert cells(result.matrix) == expected
    assert result.counts.tolist() == [counts]


def test_images_do_not_mix() -> None:
    ids = np.array([1, 2, 3], np.int64)
    result = confuse(ids, CATEGORIES, truth((3, CAT, BOX), (1, CAT, BOX)), found((1, DOG, FAR), (2, CAT, BOX)))
    assert result.counts.tolist() == [[1, 1, 0, 1, 1], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]
    assert cells(result.matrix) == {(CAT, BACKGROUND): 2, (BACKGROUND, CAT): 1, (BACKGROUND, DOG): 1}


boxes = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 30), st.integers(1, 30)).map(list)
rows = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), boxes), max_size=12)


@given(objects=rows, guesses=rows, data=st.data())
def test_every_object_and_detection_is_counted_once(
    objects: list[Row], guesses: list[Row], data: st.DataObject
) -> None:
    ids = np.array([1, 2, 3], np.int64)
    guesses = sorted(guesses, key=lambda row: row[0])
    scores = data.draw(st.lists(st.sampled_from([0.5, 0.9]), min_size=len(guesses), max_size=len(guesses)))
    result = confuse(ids, CATEGORIES, truth(*objects), found(*guesses, scores=scores))
    assert [len(one) for one in result.wrong] == result.counts[:, 3].tolist()
    assert [len(one) for one in result.missed] == result.counts[:, 4].tolist()
    for image, wrong, missed in zip(ids, result.wrong, result.missed, strict=True):
        own = [(score, row) for score, row in zip(scores, guesses, strict=True) if row[0] == image]
        best_first = [row for _, row in sorted(own, key=lambda one: -one[0])]
        there = [row for row in objects if row[0] == image]
        # an object and a detection of the same class and box would have been matched
        assert not {str(there[one]) for one in missed} & {str(best_first[one]) for one in wrong}
    detections, truths, right, wrong, missed = result.counts.sum(axis=0)
    assert result.matrix[:BACKGROUND].sum() == truths == len(objects)
    assert result.matrix[:, :BACKGROUND].sum() == detections == len(guesses)
    assert np.trace(result.matrix) == right
    assert right + wrong == len(guesses)
    assert right + missed == len(objects)


def test_of_many_categories_the_matrix_has_those_that_occur() -> None:
    many = (*CATEGORIES, *(Category(number, f"c{number}") for number in range(100, 2600)))
    seen = found((1, DOG, FAR), scores=[0.15])
    few = confuse(np.array([1]), CATEGORIES, truth((1, CAT, BOX)), seen, threshold=0.1)
    all_ = confuse(np.array([1]), many, truth((1, CAT, BOX)), seen, threshold=0.1)
    assert all_.labels == few.labels
    assert cells(all_.matrix) == cells(few.matrix)
