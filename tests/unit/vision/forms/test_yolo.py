"""Ultralytics' data.yaml: splits, names, and where images and labels are."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import CocoDataset, read_dataset
from trt_workbench.vision.forms.yolo import label_file
from trt_workbench.vision.tasks.registry import task_of

YAML = "train: images/train\nval: images/val\nnames: [cat, dog]\n"
BOX = "0 0.5 0.5 0.5 0.5\n"
Write = Callable[..., Path]


def add_image(path: Path, label: str | None = BOX, size: tuple[int, int] = (20, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.zeros((size[1], size[0], 3), np.uint8))
    if label is not None:
        label_file(path).parent.mkdir(parents=True, exist_ok=True)
        label_file(path).write_text(label)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A data set with two images in val."""
    add_image(tmp_path / "images" / "val" / "b.png", "1 0.5 0.5 1 1\n")
    add_image(tmp_path / "images" / "val" / "a.JPG")

    def made(text: str = YAML) -> Path:
        (tmp_path / "data.yaml").write_text(text)
        return tmp_path / "data.yaml"

    return made


def read(file: Path, split: str | None = None) -> CocoDataset:
    return read_dataset(file.parent, file, split=split)


def names(data: CocoDataset) -> list[str]:
    return [image.file_name for image in data.images]


def test_labels_become_annotations_in_pixels(write: Write) -> None:
    data = read(write())
    assert names(data) == ["a.JPG", "b.png"]
    assert [image.id for image in data.images] == [1, 2]
    assert (data.images[0].width, data.images[0].height) == (20, 10)
    assert data.truth.boxes.tolist() == [[5, 2.5, 10, 5], [0, 0, 20, 10]]
    assert [(one.id, one.name) for one in data.categories] == [(0, "cat"), (1, "dog")]
    assert (data.split, data.notes) == ("val", ())


@pytest.mark.parametrize("form", ["{1: dog, 0: cat}", "{'0': cat, '1': dog}", "[cat, dog]\nnc: 2"])
def test_names_are_a_list_or_by_number(write: Write, form: str) -> None:
    assert [one.name for one in read(write(f"val: images/val\nnames: {form}\n")).categories] == ["cat", "dog"]


def test_a_split_is_a_folder_folders_or_a_list(write: Write, tmp_path: Path) -> None:
    add_image(tmp_path / "images" / "more" / "deep" / "c.png")
    (tmp_path / "list.txt").write_text("./images/val/b.png\n\nimages/more/deep/c.png\n./images/val/b.png\n")
    file = write("val: [images/val, images/more]\ntest: list.txt\nnames: [cat, dog]\n")
    assert names(read(file)) == ["more/deep/c.png", "val/a.JPG", "val/b.png"]
    listed = read(file, "test")
    assert names(listed) == ["more/deep/c.png", "val/b.png"]
    assert listed.notes == ("1 image listed again; each counts once.",)


@pytest.mark.parametrize("said", ["../images/val", "../Project-1/images/val", "/somewhere/else/images/val"])
def test_a_path_that_does_not_hold_is_looked_for_below_the_file(write: Write, said: str) -> None:
    data = read(write(f"val: {said}\nnames: [cat, dog]\n"))
    assert len(data.images) == 2
    assert re.search(r"val, does not exist; .*/images/val was taken", data.notes[0])
    moved = read(write(f"path: /somewhere/else\n{YAML}"))
    assert len(moved.images) == 2


def test_a_list_of_paths_of_another_machine(write: Write, tmp_path: Path) -> None:
    file, listed = write("val: val.txt\nnames: [cat, dog]\n"), tmp_path / "val.txt"
    listed.write_text("/home/me/set/images/val/a.JPG\n/home/me/set/images/val/b.png\n")
    assert len(read(file).images) == 2
    listed.write_text("/home/me/set/images/val/a.JPG\n/home/me/set/images/val/z.png\n")
    with pytest.raises(UsageProblem, match=r"missing \(1 of 2: .*z\.png\)"):
        read(file)
    listed.write_text("images/val/a.JPG\nnotes.md\n")
    with pytest.raises(UsageProblem, match=r"'notes.md' is not the path of an image: .*val\.txt:2$"):
        read(file)


def test_background_and_labels_without_an_image_are_counted(write: Write, tmp_path: Path) -> None:
    add_image(tmp_path / "images" / "val" / "c.png", None)
    add_image(tmp_path / "images" / "val" / "d.png", "\n")
    for name in ("lost", "classes"):
        (tmp_path / "labels" / "val" / f"{name}.txt").write_text(BOX)
    data = read(write())
    assert len(data.images) == 4
    assert data.notes == (
        "2 of 4 images have no object: 1 without a file of labels, 1 with an empty one.",
        "1 file of labels without an image, not counted (lost.txt).",
    )


def test_the_hash_is_of_labels_and_names_and_not_of_where_they_lie(write: Write, tmp_path: Path) -> None:
    before = read(write()).sha256
    assert read(write(f"path: {tmp_path}\n{YAML}")).sha256 == before
    assert read(write(YAML.replace("dog", "cow"))).sha256 != before
    write()
    (tmp_path / "labels" / "val" / "a.txt").write_text(BOX * 2)
    assert read(tmp_path / "data.yaml").sha256 != before


def test_links_are_followed_once(write: Write, tmp_path: Path) -> None:
    (tmp_path / "images" / "val" / "again").symlink_to(tmp_path / "images")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "val").symlink_to(tmp_path / "images" / "val")
    assert len(read(write(YAML.replace("images/val", "other"))).images) == 2


def test_labels_of_a_turned_image_are_shares_of_what_is_decoded(write: Write, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 10)).save(tmp_path / "images" / "val" / "a.JPG", exif=exif)
    file = write()
    assert read(file).truth.boxes[0].tolist() == [5, 2.5, 10, 5]
    assert read_dataset(tmp_path, file, exif="apply").truth.boxes[0].tolist() == [2.5, 5, 5, 10]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("val: images/val\n", "names no classes"),
        ("val: images/val\nnames: [cat, dog]\nnc: 3\n", "2 names, and nc is 3: .*:2$"),
        ("val: images/val\nnc: many\nnames: [a]\n", "'many' is not a number of classes: .*:2$"),
        ("val: images/val\nnames: {0: cat, 2: dog}\n", "class 1 has no name"),
        ("val: images/val\nnames: [[cat]]\n", "neither a list of names"),
        ("val: images/val\nnames: [cat]\n", r"class 1, and the data set has classes 0 to 0: .*b\.txt:1$"),
        ("val: images/none\nnames: [cat]\ndownload: https://a/b.zip\n", "does not exist; its `download` is never run"),
        ("val: data.yaml\nnames: [cat]\n", "neither a folder nor a .txt"),
        ("val: labels\nnames: [cat]\n", "there is no image in"),
        ("val: 3\nnames: [cat]\n", "a split is a folder"),
        ("val: images/val\nnames: [cat]\nkpt_shape: [17]\n", "kpt_shape: .* is not"),
        ("train: images/val\nnames: [cat]\n", r"no split 'val' \(--split: train\)"),
        ("val: images/val\nnames: !!python/object/apply:os.getcwd []\n", "not YAML .*:2$"),
        ("[1, 2]\n", "must contain `key: value` lines"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(write: Write, text: str, problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        read(write(text))


def test_a_split_without_any_labels(write: Write, tmp_path: Path) -> None:
    add_image(tmp_path / "images" / "train" / "a.png", None)
    with pytest.raises(UsageProblem, match=r"None of the 1 images of train has a file of labels, such as: .*labels"):
        read(write(), "train")


def test_classes_without_names_are_numbered(write: Write) -> None:
    assert [one.name for one in read(write("val: images/val\nnc: 2\n")).categories] == ["class_0", "class_1"]


@pytest.mark.parametrize(
    ("task", "label", "more", "kind"),
    [
        ("masks", "0 0.1 0.1 0.5 0.1 0.5 0.5\n", "", "Masks"),
        ("rotated", "0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n", "", "RotatedBoxes"),
        ("keypoints", f"0 0.5 0.5 0.4 0.4 {'0.5 0.5 2 ' * 17}\n", "kpt_shape: [17, 3]\n", "Keypoints"),
    ],
)
def test_labels_are_what_their_task_reads(tmp_path: Path, task: Any, label: str, more: str, kind: str) -> None:
    add_image(tmp_path / "images" / "a.png", label)
    (tmp_path / "data.yaml").write_text(f"val: images\nnames: [cat]\n{more}")
    extra = read_dataset(tmp_path, tmp_path / "data.yaml", task=task_of(task)).truth.extra
    assert type(extra).__name__ == kind


def test_the_whole_machine_is_no_split(write: Write) -> None:
    with pytest.raises(OSError, match="it holds the whole machine") as refused:
        read(write("val: /\nnames: [cat]\n"))
    assert refused.value.filename == "/"
