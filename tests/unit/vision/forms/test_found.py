"""What is found where --data points."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.forms.found import find_data


def add(path: Path, document: Any = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def coco(name: str) -> dict[str, Any]:
    return {"annotations": [], "images": [{"id": 1, "file_name": name}]}


@pytest.mark.parametrize(
    ("annotations", "image", "folder", "split"),
    [
        ("annotations/instances_val2017.json", "val2017/a.jpg", "val2017", None),
        ("annotations/instances_val2017.json", "images/val2017/a.jpg", "images/val2017", "val"),
        ("valid/_annotations.coco.json", "valid/a.jpg", "valid", None),
        ("test/_annotations.coco.json", "test/a.jpg", "test", "test"),
        ("val.json", "images/sub/a.jpg", "images", None),
        ("annotations.json", "images/sub/a.jpg", "images", None),
        ("_annotations.coco.json", "a.jpg", ".", None),
    ],
)
def test_cocos_form(tmp_path: Path, annotations: str, image: str, folder: str, split: str | None) -> None:
    add(tmp_path / image)
    file = add(tmp_path / annotations, coco(image.removeprefix(f"{folder}/")))
    add(tmp_path / "annotations" / "captions_val2017.json", {})
    add(tmp_path / "train" / "_annotations.coco.json", {})
    place = find_data(tmp_path, split)
    assert (place.images, place.annotations, place.split) == (tmp_path / folder, file, None)
    assert find_data(file) == place


def test_a_description_is_found_in_its_folder(tmp_path: Path) -> None:
    file = add(tmp_path / "data.yaml")
    add(tmp_path / "hyperparameters.yaml")
    for path in (tmp_path, file):
        place = find_data(path, "test")
        assert (place.images, place.annotations, place.split) == (tmp_path, file, "test")
        assert place.words == f"{file}, split test"


@pytest.mark.parametrize(
    ("files", "split", "problem"),
    [
        ((), None, "no data set of split val; it takes a folder with one of these, or the file: data.yaml"),
        (("train/_annotations.coco.json",), None, "no data set of split val"),
        (("data.yaml", "val.json"), None, r"several data sets \(data.yaml, val.json\)"),
        (("a.yml", "b.yaml"), None, r"\(a.yml, b.yaml\); pass one"),
        (("settings.yaml",), None, "no data set of split val"),
        (("annotations.json",), "test", "no data set of split test"),
    ],
)
def test_what_is_missing_or_could_be_two(tmp_path: Path, files: Any, split: str | None, problem: str) -> None:
    for file in files:
        add(tmp_path / file, "names: [a]\n" if file in ("a.yml", "b.yaml") else "")
    with pytest.raises(UsageProblem, match=problem):
        find_data(tmp_path, split)


def test_files_that_are_no_data_sets(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="does not exist"):
        find_data(tmp_path / "none")
    with pytest.raises(UsageProblem, match="it takes a folder"):
        find_data(add(tmp_path / "a.zip"))
    add(tmp_path / "a.jpg")
    with pytest.raises(UsageProblem, match="has no splits; remove --split"):
        find_data(add(tmp_path / "b.json", coco("a.jpg")), "val")


def test_another_letter_case_is_named(tmp_path: Path) -> None:
    add(tmp_path / "Set" / "Images" / "A.JPG")
    with refused(UsageProblem):
        find_data(tmp_path / "set")
    file = add(tmp_path / "Set" / "data.yaml", "val: images/\nnames: [a]\n")
    with refused(UsageProblem):
        read_dataset(file.parent, file)
    annotations = add(tmp_path / "val.json", coco("a.jpg") | {"categories": [{"id": 1, "name": "a"}]})
    for folder in ("images", "Images"):
        with refused(UsageProblem):
            read_dataset(tmp_path / "Set" / folder, annotations)


def test_a_name_that_does_not_end_takes_little_memory(tmp_path: Path) -> None:
    size = 3_000_000
    (tmp_path / "annotations.json").write_bytes(b'{"images": [{"file_name": "' + b"a" * size)
    tracemalloc.start()
    found = find_data(tmp_path)  # what is wrong with the file is said by what reads it
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.annotations.name == "annotations.json"
    assert most < 5 * size
