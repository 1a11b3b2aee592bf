"""LVIS's rules: only what was looked for in an image counts, and only where it was annotated everywhere is it wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import held

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import CocoDataset, read_dataset
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.forms.found import find_data
from trt_workbench.vision.judged import judge
from trt_workbench.vision.lvis import figures_of, measures_of
from trt_workbench.vision.tasks.registry import task_of

BOX = [10.0, 10.0, 20.0, 20.0]


def lvis(folder: Path, images: int = 1, *, negative: list[int] | None = None, partial: list[int] | None = None) -> Path:
    """Three categories, rare to frequent; the first is in every image."""
    listed = [
        {
            "id": number,
            "coco_url": f"http://images.cocodataset.org/val2017/{number}.jpg",
            "neg_category_ids": negative or [],
            "not_exhaustive_category_ids": partial or [],
        }
        for number in range(1, images + 1)
    ]
    categories = [{"id": number, "name": f"c{number}", "frequency": one} for number, one in enumerate("rcf", 1)]
    rows = [
        {"id": number, "image_id": number, "category_id": 1, "bbox": BOX, "area": 400}
        for number in range(1, images + 1)
    ]
    (folder / "val2017").mkdir(exist_ok=True)
    for number in range(1, images + 1):
        (folder / "val2017" / f"{number}.jpg").touch()
    (folder / "annotations").mkdir(exist_ok=True)
    file = folder / "annotations" / "lvis_v1_val.json"
    file.write_text(json.dumps({"images": listed, "categories": categories, "annotations": rows}))
    return file


def read(folder: Path) -> CocoDataset:
    place = find_data(folder)
    return read_dataset(place.images, place.annotations)


def found(*rows: tuple[int, int, float, list[float]]) -> DetectionTable:
    """Detections: image, category, score, box."""
    images, categories, scores, boxes = zip(*rows, strict=True)
    table = (np.array(images, np.int64), np.array(categories, np.int64), np.array(boxes, np.float32))
    return DetectionTable(*table, np.array(scores, np.float32))


def scores(dataset: CocoDataset, detections: DetectionTable) -> dict[str, Any]:
    ids = np.array([image.id for image in dataset.images], np.int64)
    return judge(task_of("boxes"), ids, dataset, detections, 0).figures


WRONG = [60.0, 60.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("rows", "negative", "partial", "expected"),
    [
        ([(1, 1, 0.5, BOX)], [], [], 1.0),
        ([(1, 1, 0.9, WRONG), (1, 1, 0.5, BOX)], [], [], 0.5),
        ([(1, 1, 0.9, WRONG), (1, 1, 0.5, BOX)], [], [1], 1.0),
        ([(1, 1, 0.9, WRONG)] * 300 + [(1, 1, 0.5, BOX)], [], [1], 0.0),
    ],
)
def test_one_category(tmp_path: Path, rows: Any, negative: Any, partial: Any, expected: float) -> None:
    lvis(tmp_path, negative=negative, partial=partial)
    figures = scores(read(tmp_path), found(*rows))
    assert figures["AP"] == pytest.approx(expected)
    assert figures["AP_rare"] == figures["AP"]
    assert figures["AP_common"] is figures["AP_frequent"] is None


def test_what_was_not_looked_for_does_not_count(tmp_path: Path) -> None:
    lvis(tmp_path, negative=[2])
    dataset = read(tmp_path)
    (measure,) = measures_of(task_of("boxes"), dataset)
    table = found((1, 1, 0.9, BOX), (1, 2, 0.8, WRONG), (1, 3, 0.7, WRONG))
    assert measure.scored(dataset.truth, table).category_ids.tolist() == [1, 2]


def test_random_detections_have_the_figures_of_hotcoco(tmp_path: Path) -> None:
    """`judge` raises where the matches of the intervals differ from hotcoco's, which are those of lvis-api."""
    file = lvis(tmp_path, 12, negative=[2])
    document = json.loads(file.read_text())
    for image in document["images"][::2]:
        image["not_exhaustive_category_ids"] = [1]
    file.write_text(json.dumps(document))
    rng = np.random.default_rng(0)
    rows = [
        (image, int(rng.integers(1, 4)), float(rng.random()), (np.array(BOX) + rng.normal(0, 4, 4)).tolist())
        for image in range(1, 13)
        for _ in range(30)
    ]
    figures = scores(read(tmp_path), found(*rows))
    assert 0 < figures["AP50"] < 1
    assert "AP of rare categories" in figures_of(task_of("boxes"), figures).values()


def test_images_are_where_their_addresses_say(tmp_path: Path) -> None:
    file = lvis(tmp_path, 2)
    dataset = read(tmp_path)
    assert find_data(tmp_path).annotations == file
    assert [image.file_name for image in dataset.images] == ["val2017/1.jpg", "val2017/2.jpg"]
    assert [one.frequency for one in dataset.categories] == ["r", "c", "f"]


def test_keypoints_have_no_rules_in_lvis(tmp_path: Path) -> None:
    lvis(tmp_path)
    with pytest.raises(UsageProblem, match="LVIS has boxes and masks"):
        measures_of(task_of("keypoints"), read(tmp_path))


def test_an_image_without_its_lists_is_damage(tmp_path: Path) -> None:
    file = lvis(tmp_path, 2)
    document = json.loads(file.read_text())
    del document["images"][0]["not_exhaustive_category_ids"]
    file.write_text(json.dumps(document))
    with pytest.raises(UsageProblem, match="missing key 'not_exhaustive_category_ids'"):
        read(tmp_path)


def test_lists_of_an_image_that_are_none_are_refused(tmp_path: Path) -> None:
    file = lvis(tmp_path, 2)
    document = json.loads(file.read_text())
    document["images"][0]["neg_category_ids"] = 3
    file.write_text(json.dumps(document))
    with pytest.raises(UsageProblem, match="image 1 has neg_category_ids 3, not a list of category ids"):
        read(tmp_path)


def test_categories_without_a_frequency_are_noted(tmp_path: Path) -> None:
    file = lvis(tmp_path)
    assert read(tmp_path).notes == ()
    document = json.loads(file.read_text())
    del document["categories"][1]["frequency"]
    file.write_text(json.dumps(document))
    held(*read(tmp_path).notes)
