"""Images with one class each: a folder a class, or a list."""

from pathlib import Path

import pytest
from tests.unit.vision.forms.test_yolo import add_image

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import CocoDataset, read_dataset
from trt_workbench.vision.forms.found import find_data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("dog/b.JPEG", "cat/deep/a.png", "cat/.hidden.png"):
        add_image(tmp_path / "val" / name, None)
    (tmp_path / "val" / "bird").mkdir()
    (tmp_path / "val" / ".cache").mkdir()
    add_image(tmp_path / "train" / "cat" / "c.png", None)
    return tmp_path


def read(path: Path, split: str | None = None) -> CocoDataset:
    place = find_data(path, split)
    assert place.of_images
    return read_dataset(place.images, place.annotations)


def test_folders_are_classes_by_name(folder: Path) -> None:
    data = read(folder)
    assert [one.name for one in data.categories] == ["bird", "cat", "dog"]
    assert [image.file_name for image in data.images] == ["cat/deep/a.png", "dog/b.JPEG"]
    assert data.truth.category_ids.tolist() == [1, 2]
    assert data.truth.boxes[0].tolist() == [0, 0, 20, 10]
    assert (data.of_images, data.notes) == (True, ("1 class without an image: bird.",))
    assert len(read(folder / "val").images) == 2
    assert [one.name for one in read(folder, "train").categories] == ["cat"]


@pytest.mark.parametrize("text", ["dog/b.JPEG 002\ncat/deep/a.png 1\n", "cat/deep/a.png,1\n\ndog/b.JPEG,2\n"])
def test_a_list_with_numbers(folder: Path, text: str) -> None:
    (folder / "val" / "list.csv").write_text(text)
    data = read(folder / "val" / "list.csv")
    assert [one.name for one in data.categories] == ["0", "1", "2"]
    assert data.truth.category_ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "No image has a class"),
        ("a.png\n", "is not the path of an image and a class: .*:1$"),
        ("\na.md 3\n", "'a.md 3' is not the path of an image and a class: .*:2$"),
        ("a.png 3\na.png 4\n", "has two classes, 3 and 4: .*:2$"),
        ("a.png 100000\n", "Class 100000 is above"),
        ("/elsewhere/a.png 1\n", "is not in the folder of the list: .*:1$"),
        ("../a.png 1\n", "points outside its folder: .*:1$"),
        ("a.png 1\n", r"missing \(1 of 1: a.png\)"),
    ],
)
def test_what_is_no_list(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(UsageProblem, match=problem):
        read(tmp_path / "list.txt")


@pytest.mark.parametrize("label", ["\u0663", "\u00b2", "9" * 5000, "1_0", "+1"])
def test_only_ascii_digits_are_the_number_of_a_class(folder: Path, label: str) -> None:
    (folder / "val.txt").write_text(f"val/dog/b.JPEG {label}\nval/cat/deep/a.png 3\n", encoding="utf-8")
    data = read(folder / "val.txt")
    assert sorted(one.name for one in data.categories) == sorted(["3", label])


@pytest.mark.parametrize("limit", [3, 4, 7, 30, 100])
def test_a_limit_takes_some_of_every_class(tmp_path: Path, limit: int) -> None:
    for name in ("a", "b", "c"):
        for number in range(10):
            add_image(tmp_path / name / f"{number}.png")
    dataset = read_dataset(tmp_path, tmp_path, limit=limit)
    ids = [image.id for image in dataset.images]
    assert len(ids) == min(limit, 30)
    assert ids == sorted(ids)
    of_class = [sum(image.file_name.startswith(name) for image in dataset.images) for name in "abc"]
    assert max(of_class) - min(of_class) <= 1
