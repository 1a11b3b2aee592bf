import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.forms.found import DataPlace, find_data


def document() -> dict[str, Any]:
    return {
        "images": [
            {"id": 7, "file_name": "b.png", "width": 20, "height": 10},
            {"id": 3, "file_name": "sub/a.png"},
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3.5, 4], "area": 9, "segmentation": [[1, 2, 3]]},
            {"id": 2, "image_id": 3, "category_id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 1},
            {"id": 3, "image_id": 99, "category_id": 1, "bbox": [0, 0, 5, 5], "area": 25},
        ],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images" / "sub").mkdir(parents=True)
    (tmp_path / "images" / "b.png").touch()
    (tmp_path / "images" / "sub" / "a.png").touch()
    return tmp_path / "images"


def written(folder: Path, content: Any) -> Path:
    path = folder.parent / "annotations.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_absent_images_are_counted_and_named(folder: Path) -> None:
    (folder / "b.png").unlink()
    path = written(folder, document())
    with refused(UsageProblem):
        read_dataset(folder, path)
    data = read_dataset(folder, path, allow_missing=True)
    assert [image.id for image in data.images] == [3]
    assert data.truth.image_ids.tolist() == [3]
    assert data.missing == ("b.png",)
    assert "right folder" not in data.left_out
    assert "Most are missing: is it the right folder?" in replace(data, missing=("b.png",) * 9).left_out
    assert [image.id for image in read_dataset(folder, path, limit=1).images] == [3]


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), -5, 0, 9.0, 1e15])
def test_ids_are_exact(folder: Path, number: float) -> None:
    content = document()
    content["images"][0]["id"] = content["annotations"][0]["image_id"] = number
    content["categories"][0]["id"] = content["annotations"][0]["category_id"] = number
    data = read_dataset(folder, written(folder, content))
    assert sorted([3, int(number)]) == [image.id for image in data.images]
    assert sorted([1, int(number)]) == [category.id for category in data.categories]
    assert (int(number), int(number)) in zip(
        data.truth.image_ids.tolist(), data.truth.category_ids.tolist(), strict=True
    )


def changed(part: str, **values: Any) -> dict[str, Any]:
    content = document()
    content[part][0] |= values
    return content


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"images": [',
        "[]",
        {"images": [], "annotations": []},
        {**document(), "categories": []},
        {**document(), "images": []},
        {**document(), "images": {"a": 1}},
        {**document(), "annotations": [{"caption": "a dog", "image_id": 3, "id": 1}]},
        changed("annotations", bbox=[1, 2, 3]),
        changed("annotations", bbox=[1, 2, -3, 4]),
        changed("annotations", bbox=[1, 2, float("nan"), 4]),
        changed("annotations", bbox="wide"),
        changed("annotations", category_id=5),
        changed("annotations", image_id="seven"),
        changed("annotations", image_id="7"),
        changed("annotations", image_id=True),
        changed("annotations", image_id=7.5),
        changed("annotations", image_id=None),
        changed("images", id=2.0**53 + 2),
        changed("categories", id=-1e17),
        changed("images", id=2**63),
        changed("images", id=3.0),
        changed("annotations", id=2),
        changed("images", id=3),
        changed("images", file_name=""),
        changed("categories", id=1),
    ],
)
def test_files_that_are_not_coco_are_refused(folder: Path, content: Any) -> None:
    path = written(folder, content)
    with refused(UsageProblem) as caught:
        read_dataset(folder, path)
    assert str(caught.value).endswith(str(path))


@pytest.mark.parametrize("named", [True, False])
def test_lvis_is_refused_as_what_it_is(tmp_path: Path, named: bool) -> None:
    """Its own files name images by their addresses alone. A category that was not looked for is not wrong there."""
    own = {"coco_url": "http://images.cocodataset.org/val2017/1.jpg", "neg_category_ids": [2]}
    image = {"id": 1, **own, "not_exhaustive_category_ids": [], **({"file_name": "1.jpg"} if named else {})}
    content = {"images": [image], "categories": [{"id": 1, "name": "a", "frequency": "r"}], "annotations": []}
    file = tmp_path / "annotations" / "lvis_v1_val.json"
    file.parent.mkdir()
    file.write_text(json.dumps(content))
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "1.jpg").touch()
    for place in (find_data(tmp_path), DataPlace(tmp_path / "val", file)):
        with refused(UsageProblem) as caught:
            read_dataset(place.images, place.annotations)
        assert "LVIS annotates in each image only some categories" in str(caught.value)


@pytest.mark.parametrize("bbox", [[1, 2, 3], [], None, "1, 2, 3, 4", ["1", "2", "3", "4"], [1, 2, 3, None], [[1] * 4]])
@pytest.mark.parametrize("every", [True, False])
def test_boxes_that_are_not_four_numbers_are_named(folder: Path, bbox: Any, every: bool) -> None:
    content = document()
    rows = content["annotations"] if every else content["annotations"][-1:]
    for row in rows:
        row["bbox"] = bbox
    with refused(UsageProblem):
        read_dataset(folder, written(folder, content))


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
@pytest.mark.parametrize("value", [{"0": {"id": 1}}, [1], "text", None])
def test_what_is_no_list_of_objects_is_named(folder: Path, key: str, value: Any) -> None:
    with refused(UsageProblem):
        read_dataset(folder, written(folder, {**document(), key: value}))


def test_absent_files_are_named(folder: Path) -> None:
    with refused(UsageProblem):
        read_dataset(folder, folder / "none.json")
    with refused(UsageProblem):
        read_dataset(folder / "none", written(folder, document()))
    with refused(UsageProblem):
        read_dataset(folder, folder)
