"""Data sets whose annotations cannot be what they say."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import CocoDataset, read_dataset
from trt_workbench.vision.dataset_check import check_annotations, check_found
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.faults import DUPLICATE, EMPTY, OUTSIDE, find_faults
from trt_workbench.vision.measure import BOXES, ROTATED
from trt_workbench.vision.rotated import RotatedBoxes
from trt_workbench.vision.scores import score_detections
from trt_workbench.vision.tasks.registry import task_of

HEIGHT, WIDTH, IMAGES, EACH = 240, 320, 6, 4
CLASSES = ("circle", "square", "star")


def objects(seed: int, largest: float = 0.4) -> np.ndarray:
    """Boxes [images * each, 4] inside of their images."""
    rng = np.random.default_rng(seed)
    size = np.array([WIDTH, HEIGHT])
    sides = rng.uniform(0.1, largest, (IMAGES * EACH, 2)) * size
    return np.column_stack([rng.uniform(0, 1, (IMAGES * EACH, 2)) * (size - sides), sides])


def document(boxes: np.ndarray, *, sizes: bool = True, **changes: Any) -> dict[str, Any]:
    size = {"width": WIDTH, "height": HEIGHT} if sizes else {}
    rows = [
        {"id": place, "image_id": 1 + place // EACH, "category_id": 1 + place % 3}
        | {"bbox": box, "area": min(abs(box[2] * box[3]), 1e9), **changes}
        for place, box in enumerate(boxes.tolist())
    ]
    return {
        "images": [{"id": number, "file_name": f"{number}.png", **size} for number in range(1, IMAGES + 1)],
        "categories": [{"id": number, "name": name} for number, name in enumerate(CLASSES, 1)],
        "annotations": rows,
    }


Make = Callable[[dict[str, Any]], CocoDataset]


@pytest.fixture
def dataset(tmp_path: Path) -> Make:
    for number in range(1, IMAGES + 1):
        (tmp_path / f"{number}.png").touch()

    def make(content: dict[str, Any], **options: Any) -> CocoDataset:
        (tmp_path / "a.json").write_text(json.dumps(content))
        return read_dataset(tmp_path, tmp_path / "a.json", **options)

    return make


def check(
    data: CocoDataset,
    boxes: np.ndarray,
    *,
    shift: int | np.ndarray = 0,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    score: float = 0.9,
) -> list[str]:
    """Check a data set on which exactly `boxes` are found, with classes `shift` further."""
    count = len(boxes)
    ids, classes = 1 + np.arange(count) // EACH, 1 + (np.arange(count) % 3 + shift) % 3
    found = DetectionTable(ids, classes, boxes.astype(np.float32), np.full(count, score, np.float32))
    images = np.arange(1, IMAGES + 1)
    confusion = confuse(images, data.categories, data.truth, found)
    ap50 = score_detections(data.truth, data.categories, found).figures["AP50"]
    return check_found(data, dict.fromkeys(images.tolist(), size), found, confusion, {BOXES: ap50}, turned=False)


FORMS = {
    "corners": lambda b: np.column_stack([b[:, :2], b[:, :2] + b[:, 2:]]),
    "centres": lambda b: np.column_stack([b[:, :2] + b[:, 2:] / 2, b[:, 2:]]),
}
SHARES = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.12, 1.0))
def test_boxes_of_coco_are_never_suspected(seed: int, largest: float) -> None:
    from tempfile import TemporaryDirectory

    boxes = objects(seed, largest)
    with TemporaryDirectory() as folder:
        for number in range(1, IMAGES + 1):
            (Path(folder) / f"{number}.png").touch()
        (Path(folder) / "a.json").write_text(json.dumps(document(boxes)))
        data = read_dataset(Path(folder), Path(folder) / "a.json")
    assert check_annotations(data) == []
    assert check(data, boxes) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_corners_and_centres_are_refused_before_an_image_is_read(dataset: Make, form: str, seed: int) -> None:
    with refused(UsageProblem):
        check_annotations(dataset(document(FORMS[form](objects(seed)))))


@pytest.mark.parametrize("form", [lambda b: b, *FORMS.values()])
def test_shares_are_refused(dataset: Make, form: Callable[[np.ndarray], np.ndarray]) -> None:
    with refused(UsageProblem):
        check_annotations(dataset(document(form(objects(0)) / SHARES)))


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_told_by_the_files_where_the_annotations_give_no_sizes(dataset: Make, form: str) -> None:
    boxes = objects(1)
    data = dataset(document(FORMS[form](boxes), sizes=False))
    assert check_annotations(data) == []
    with refused(UsageProblem):
        check(data, boxes)


@pytest.mark.parametrize(
    "change",
    [
        FORMS["centres"],
        lambda b: b[:, [1, 0, 3, 2]],
        lambda b: b / (6 * SHARES) * 100,
        lambda b: b / (6 * SHARES) * 1000,
        lambda b: FORMS["corners"](b) / (6 * SHARES) * 1000,
    ],
)
def test_forms_that_lie_inside_are_told_by_what_is_found(
    dataset: Make, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    boxes = objects(2)
    boxes[:, :2], boxes[:, 2:] = boxes[:, :2] * 3 + 120, 90  # small, in images six times as large
    data = dataset(document(change(boxes), sizes=False))
    with refused(UsageProblem):
        check(data, boxes, size=(6 * HEIGHT, 6 * WIDTH))


@pytest.mark.parametrize(
    "scale",
    [
        0.5,
        416 / 1920,
        np.array([640 / 1920, 640 / 1440] * 2),
        100 / np.array([1920, 1440] * 2),
    ],
)
def test_a_form_is_told_by_a_model_that_finds_a_third(dataset: Make, scale: Any) -> None:
    boxes = objects(2)
    boxes[:, :2] *= 2
    boxes[:, 2:] = 200
    data = dataset(document(boxes * scale, sizes=False))
    found = boxes.copy()
    found[::2] = (1900, 1400, 20, 20)
    with refused(UsageProblem):
        check(data, found, size=(1440, 1920))
    found[: IMAGES * EACH * 2 // 3] = (1900, 1400, 20, 20)
    assert "AP50 is 0.0" in check(data, found, size=(1440, 1920))[-1]  # four objects are no proof


def test_areas_of_other_boxes(dataset: Make) -> None:
    boxes = objects(4)
    for area in (0, 1, 1e6):
        (note,) = check_annotations(dataset(document(boxes, area=area)))
        held(note)
    with refused(UsageProblem):
        dataset(document(boxes, area=-1))
    with refused(UsageProblem):
        check_annotations(dataset(document(boxes, area=2e10)))


def test_boxes_of_the_listed_sizes_on_smaller_files(dataset: Make) -> None:
    boxes = objects(3)
    with refused(UsageProblem):
        check(dataset(document(boxes)), boxes / 4, size=(HEIGHT // 4, WIDTH // 4))


def test_files_of_another_size_are_noted(dataset: Make) -> None:
    boxes = objects(3)
    (note,) = check(dataset(document(boxes)), boxes, size=(HEIGHT, WIDTH + 9))
    held(note)
    (note,) = check(dataset(document(boxes)), boxes, size=(WIDTH, HEIGHT))
    held(note)


def test_annotations_of_no_listed_image(dataset: Make) -> None:
    with refused(UsageProblem):
        check_annotations(dataset(document(objects(0), image_id=77)))
    content = document(objects(0))
    content["annotations"][3]["image_id"] = 77
    held(*check_annotations(dataset(content)))


def test_nothing_to_find(dataset: Make) -> None:
    with refused(UsageProblem):
        check_annotations(dataset(document(objects(0), iscrowd=1)))
    with refused(UsageProblem):
        check_annotations(dataset(document(objects(0), image_id=6), limit=2))  # type: ignore[call-arg]
    with refused(UsageProblem):
        check_annotations(dataset({**document(objects(0)), "annotations": []}))
    with refused(UsageProblem):
        check_annotations(dataset(document(objects(0) * [1, 1, 0, 1])))


def test_boxes_far_outside(dataset: Make) -> None:
    with refused(UsageProblem):
        check_annotations(dataset(document(objects(0) + 1000)))
    boxes = objects(0)
    boxes[5, 0] = -200
    held(*check_annotations(dataset(document(boxes))))


@pytest.mark.parametrize("number", [1e308, -1e308, 1e-320])
@pytest.mark.parametrize("side", [None, 0, -3, 2**62])
def test_any_number_is_checked_without_a_warning(dataset: Make, number: float, side: int | None) -> None:
    boxes = objects(0)
    boxes[::2, :2] = number
    boxes[::2, 2:] = abs(number)
    content = document(boxes)
    for image in content["images"]:
        image |= {"width": side, "height": side}
    data = dataset(content)
    for step in (check_annotations, lambda data: check(data, objects(0))):
        with contextlib.suppress(UsageProblem):
            assert isinstance(step(data), list)


def test_boxes_that_cannot_be_found(dataset: Make) -> None:
    boxes = objects(0)
    boxes[4, 2] = 0
    boxes[3] = boxes[0]
    held(*check_annotations(dataset(document(boxes))))


def one_off(dataset: Make, shift: int, kept: tuple[int, ...]) -> list[str]:
    boxes = objects(0)
    content = document(boxes)
    content["annotations"] = [one for one in content["annotations"] if one["category_id"] in kept]
    return check(dataset(content), boxes, shift=shift)


def test_classes_that_are_one_off(dataset: Make) -> None:
    (note,) = one_off(dataset, 1, (1, 2))
    held(note)
    (note,) = one_off(dataset, -1, (2, 3))
    held(note)
    (note,) = one_off(dataset, 1, (1, 2, 3))
    held(note)


@pytest.mark.parametrize("score", [0.9, 0.01])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(
    "boxes", [objects(0) + np.array([WIDTH, 0, 0, 0]), objects(0) * [1, 1, 0.01, 0.01], objects(0) * 0]
)
def test_a_score_of_zero_is_said_where_boxes_are_elsewhere(
    dataset: Make, boxes: np.ndarray, shift: int, score: float
) -> None:
    (note,) = check(dataset(document(objects(0))), boxes, shift=shift, score=score)
    held(note)


def test_a_score_of_zero_is_said_where_classes_differ_without_order_or_below_the_threshold(dataset: Make) -> None:
    data, mixed = dataset(document(objects(0))), 1 + np.arange(24) // 3 % 2
    for note in (*check(data, objects(0), shift=mixed), *check(data, objects(0), shift=1, score=0.01)):
        held(note)


def test_a_low_score_that_is_right_and_an_empty_one_have_no_note(dataset: Make) -> None:
    boxes = objects(0) + np.array([WIDTH, 0, 0, 0])
    boxes[0] = objects(0)[0]
    assert check(dataset(document(objects(0))), boxes) == []
    assert check(dataset({**document(objects(0)), "annotations": []}), boxes) == []
    assert check(dataset(document(objects(0))), boxes[:0]) == []  # "The model detected nothing" says it


def test_faults_have_an_example_and_their_boxes(dataset: Make) -> None:
    boxes = objects(0)
    boxes[0] = [WIDTH - 10, 10, 60, 20]
    boxes[5:7] = [WIDTH - 10, 10, 60, 20], [10, 10, 0, 20]
    boxes[6 + EACH] = boxes[5 + EACH]
    content = document(boxes)
    content["annotations"][6 + EACH]["category_id"] = content["annotations"][5 + EACH]["category_id"]
    sizes = dict.fromkeys(range(1, IMAGES + 1), (HEIGHT, WIDTH))
    found = {
        one["fault"]: (one["count"], one["image_id"], one["boxes"]) for one in find_faults(dataset(content), sizes)
    }
    assert found == {
        EMPTY: (1, 2, [boxes[6].tolist()]),
        DUPLICATE: (1, 3, [boxes[6 + EACH].tolist()]),
        OUTSIDE: (2, 1, [boxes[0].tolist()]),
    }
    assert find_faults(dataset(document(objects(0))), sizes) == []
    for crowd in (
        dict(content["annotations"][3], id=10_000, iscrowd=1),
        dict(content["annotations"][3], id=10_001, iscrowd=1),
    ):
        content["annotations"].append(crowd)  # which need not be found
    assert [one["count"] for one in find_faults(dataset(content), sizes) if one["fault"] == DUPLICATE] == [1]


def outlined(rows: np.ndarray) -> dict[str, list[Any]]:
    """What annotations hold besides boxes: an outline (a mask, a rotated box), and three keypoints."""
    x, y, w, h = rows.T
    outline = np.stack([x, y, x + w, y, x + w, y + h, x, y + h], axis=1)
    two = np.full(len(rows), 2)
    points = np.stack([x + w / 4, y + h / 4, two, x + w / 2, y + h, two, x + w, y + h / 2, two], axis=1)
    return {"segmentation": [[one] for one in outline.tolist()], "keypoints": points.tolist()}


def with_extras(boxes: np.ndarray, meant: np.ndarray, change: Callable[[list[float], list[float]], list[float]]) -> Any:
    """A document whose annotations hold the extras of the boxes `meant`, changed with their own box."""
    content = document(boxes)
    made = outlined(meant)
    for place, row in enumerate(content["annotations"]):
        row["segmentation"] = [change(made["segmentation"][place][0], row["bbox"])]
        flat = made["keypoints"][place]
        moved = change([one for at, one in enumerate(flat) if at % 3 < 2], row["bbox"])
        row["keypoints"] = [v for at in range(3) for v in (*moved[2 * at : 2 * at + 2], 2)]
    return content


MISTAKES: dict[str, Callable[[list[float], list[float]], list[float]]] = {
    "fractions": lambda places, _: [one / (WIDTH, HEIGHT)[at % 2] for at, one in enumerate(places)],
    "y first": lambda places, _: [places[at ^ 1] for at in range(len(places))],
    "from the corner": lambda places, box: [one - box[at % 2] for at, one in enumerate(places)],
}
TASKS = ("masks", "keypoints", "rotated")
LYING = np.array([[30 + 70 * (at % EACH), 120, 60, 24] for at in range(IMAGES * EACH)], float)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_does_not_lie_in_its_box_is_refused_with_its_form(dataset: Make, mistake: str, task: str) -> None:
    content = with_extras(LYING, LYING, MISTAKES[mistake])
    with refused(UsageProblem):
        check_annotations(dataset(content, task=task_of(task)))


@pytest.mark.parametrize("task", TASKS)
def test_what_belongs_to_another_object_is_said(dataset: Make, task: str) -> None:
    content = with_extras(LYING, np.roll(LYING.reshape(IMAGES, EACH, 4), 1, axis=1).reshape(-1, 4), lambda one, _: one)
    with refused(UsageProblem):
        check_annotations(dataset(content, task=task_of(task)))
    some = with_extras(LYING, LYING, lambda one, _: one)
    for row, other in zip(some["annotations"][::4], content["annotations"][::4], strict=True):
        row.update({name: other[name] for name in ("segmentation", "keypoints")})
    held(*check_annotations(dataset(some, task=task_of(task))))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.12, 1.0), st.sampled_from(TASKS))
def test_what_lies_in_its_box_is_never_suspected(seed: int, largest: float, task: str) -> None:
    from tempfile import TemporaryDirectory

    boxes = objects(seed, largest)
    with TemporaryDirectory() as folder:
        for number in range(1, IMAGES + 1):
            (Path(folder) / f"{number}.png").touch()
        (Path(folder) / "a.json").write_text(json.dumps(with_extras(boxes, boxes, lambda one, _: one)))
        data = read_dataset(Path(folder), Path(folder) / "a.json", task=task_of(task))
    assert check_annotations(data) == []


def test_masks_that_are_empty_or_counted_row_by_row_are_said(dataset: Make) -> None:
    content = document(LYING)
    for place, row in enumerate(content["annotations"]):
        x, y, w, h = map(int, row["bbox"])
        plane = np.zeros((HEIGHT, WIDTH), np.uint8)
        plane[y : y + h, x : x + w] = place % 4 > 0
        places = np.flatnonzero(np.diff(plane.ravel(), prepend=0))  # row by row; COCO counts column by column
        counts = np.diff(places, prepend=0, append=plane.size).tolist()
        row["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": counts}
    with refused(UsageProblem):
        check_annotations(dataset(content, task=task_of("masks")))
    right = with_extras(LYING, LYING, lambda one, _: one)
    for row in right["annotations"][::4]:
        row["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": [HEIGHT * WIDTH]}
    held(*check_annotations(dataset(right, task=task_of("masks"))))


@pytest.mark.parametrize("task", TASKS)
def test_a_score_near_zero_asks_for_every_kind(dataset: Make, task: str) -> None:
    """The boxes are found, and what is in them lies elsewhere."""
    away = dataset(with_extras(LYING, np.add(LYING, (0, 60, 0, 0)), lambda one, _: one), task=task_of(task))
    data = dataset(with_extras(LYING, LYING, lambda one, _: one), task=task_of(task))
    truth = data.truth
    scores, boxes = np.full(len(truth), 0.9, np.float32), truth.boxes.astype(np.float32)
    found = DetectionTable(truth.image_ids, truth.category_ids, boxes, scores, extra=away.truth.extra)
    images = np.arange(1, IMAGES + 1)
    confusion, sizes = confuse(images, data.categories, truth, found), dict.fromkeys(images.tolist(), (HEIGHT, WIDTH))
    measures = task_of(task).measures
    figures = {one: one.both(images, truth, data.categories, found)[0].figures["AP50"] for one in measures}
    (note,) = check_found(data, sizes, found, confusion, figures, turned=False)
    held(note)
    right = DetectionTable(truth.image_ids, truth.category_ids, boxes, scores, extra=truth.extra)
    figures = {one: one.both(images, truth, data.categories, right)[0].figures["AP50"] for one in measures}
    assert check_found(data, sizes, right, confusion, figures, turned=False) == []


@pytest.mark.parametrize(("angle", "is_told"), [(0.6, True), (0.05, False)])
def test_angles_that_are_counted_the_other_way_are_said(dataset: Make, angle: float, is_told: bool) -> None:
    """Their boxes score all the same where they are nearly upright."""
    rows = np.column_stack([LYING[:, :2] + LYING[:, 2:] / 2, LYING[:, 2:], np.full(len(LYING), angle)])
    meant = RotatedBoxes(rows)
    content = document(meant.spans())
    for row, corners in zip(content["annotations"], meant.corners().reshape(-1, 8).tolist(), strict=True):
        row["segmentation"] = [corners]
    data = dataset(content, task=task_of("rotated"))
    truth, wrong = data.truth, RotatedBoxes(rows * [1, 1, 1, 1, -1])
    scores, boxes = np.full(len(truth), 0.9, np.float32), truth.boxes.astype(np.float32)
    images = np.arange(1, IMAGES + 1)
    for extra in (wrong, meant):
        found = DetectionTable(truth.image_ids, truth.category_ids, boxes, scores, extra=extra)
        confusion = confuse(images, data.categories, truth, found)
        sizes = dict.fromkeys(images.tolist(), (HEIGHT, WIDTH))
        notes = check_found(data, sizes, found, confusion, {ROTATED: 0.3}, turned=False)
        assert bool(notes) == (is_told and extra is wrong)
        if notes:
            held(*notes)
