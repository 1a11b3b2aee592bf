"""Pascal VOC's form: XML files, lists of splits, objects that are difficult, and what is refused."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.dataset import CocoDataset, read_dataset
from trt_workbench.vision.forms.found import find_data

BOX = "<xmin>1</xmin><ymin>3</ymin><xmax>20</xmax><ymax>10</ymax>"
ZERO = "<xmin>0</xmin><ymin>2</ymin><xmax>20</xmax><ymax>10</ymax>"


def thing(name: str = "cat", box: str = BOX, more: str = "") -> str:
    return f"<object><name>{name}</name>{more}<bndbox>{box}</bndbox></object>"


def add(file: Path, *things: str, size: str = "<size><width>20</width><height>10</height></size>") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"<annotation><filename>{file.stem}.png</filename>{size}{''.join(things)}</annotation>")
    return file


def picture(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(file), np.zeros((10, 20, 3), np.uint8))


@pytest.fixture
def devkit(tmp_path: Path) -> Path:
    """Three images: the first with a cat and a difficult dog, the second with a bird, the third with nothing."""
    root = tmp_path / "VOC2007"
    for stem in ("1", "2", "3"):
        picture(root / "JPEGImages" / f"{stem}.jpg")
    add(root / "Annotations" / "1.xml", thing(), thing("dog", more="<difficult>1</difficult>"))
    person = "<part><name>head</name><bndbox/></part>"
    add(root / "Annotations" / "2.xml", thing("bird", more=f"<difficult>0</difficult>{person}"))
    add(root / "Annotations" / "3.xml")
    lists = root / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "val.txt").write_text("3\n1 \n")
    (lists / "train.txt").write_text("2\n")
    (lists / "cat_val.txt").write_text("1  1\n3 -1\n")
    return root


def read(path: Path, split: str | None = None) -> CocoDataset:
    place = find_data(path, split)
    return read_dataset(place.images, place.annotations, split=place.split)


def test_a_split_has_the_classes_of_all(devkit: Path) -> None:
    data = read(devkit)
    assert [image.file_name for image in data.images] == ["1.jpg", "3.jpg"]
    assert [(one.id, one.name, one.annotated) for one in data.categories] == [
        (0, "bird", False),
        (1, "cat", True),
        (2, "dog", True),
    ]
    assert (data.split, data.folder, data.images[0].width) == ("val", devkit / "JPEGImages", 20)
    assert data.notes == ("1 object marked difficult, as a crowd: neither found nor missed.",)
    assert read(devkit, "train").truth.category_ids.tolist() == [0]


def test_pixels_count_from_1_and_the_last_is_in_the_box(devkit: Path) -> None:
    truth = read(devkit).truth
    assert truth.boxes.tolist() == [[0, 2, 20, 8]] * 2
    assert truth.areas.tolist() == [160.0, 160.0]
    assert truth.crowd.tolist() == [False, True]


def test_what_counts_from_0_is_noted(devkit: Path) -> None:
    add(devkit / "Annotations" / "2.xml", thing(box=ZERO))
    data = read(devkit)
    assert data.truth.boxes[0].tolist() == [1, 3, 19, 7]
    assert data.notes[0].startswith("A box begins at 0, so coordinates were taken as edges from 0")


@pytest.mark.parametrize("above", ["VOC2007", "VOCdevkit/VOC2012"])
def test_the_folder_above_is_taken(devkit: Path, tmp_path: Path, above: str) -> None:
    root = tmp_path / "download"
    (root / above).parent.mkdir(parents=True)
    devkit.rename(root / above)
    place = find_data(root, "train")
    assert (place.annotations, place.split) == (root / above / "Annotations", "train")
    assert "3 XML files, split train" in place.words


def test_a_kit_of_two_years_is_refused(devkit: Path) -> None:
    add(devkit.with_name("VOC2012") / "Annotations" / "1.xml", thing())
    with refused(UsageProblem):
        find_data(devkit.parent)


def test_files_beside_their_images(tmp_path: Path) -> None:
    for stem in ("a", "b", "c"):
        picture(tmp_path / "valid" / f"{stem}.png")
        add(tmp_path / "valid" / f"{stem}.xml", thing(), size="<size><width>0</width></size>")
    (tmp_path / "valid" / "b.xml").unlink()
    data = read(tmp_path)
    assert [(image.file_name, image.width) for image in data.images] == [("a.png", None), ("c.png", None)]
    assert (data.split, data.notes) == (None, ("1 image without an XML file, left out (such as b.png).",))
    assert read(tmp_path / "valid").images == data.images
    with refused(UsageProblem):
        find_data(tmp_path, "test")
    with refused(UsageProblem):
        find_data(tmp_path / "valid" / "a.xml")


def test_images_beside_the_folder_of_annotations(tmp_path: Path) -> None:
    picture(tmp_path / "images" / "a.png")
    add(tmp_path / "annotations" / "a.xml", thing())
    assert [one.file_name for one in read(tmp_path).images] == ["a.png"]
    with refused(UsageProblem):
        find_data(tmp_path, "val")


@pytest.mark.parametrize(
    "wrong",
    [
        thing(name=" "),
        "<object><name>cat</name></object>",
        thing(box=BOX.replace("20", "x")),
        thing(box=BOX.replace("20", "nan")),
        thing(box=BOX.replace("20", "0")),
        thing(box=BOX.replace("<ymax>10</ymax>", "")),
        thing(more="<difficult>maybe</difficult>"),
    ],
)
def test_objects_that_cannot_be_used(devkit: Path, wrong: str) -> None:
    add(devkit / "Annotations" / "1.xml", thing(), wrong)
    with refused(UsageProblem):
        read(devkit)


@pytest.mark.parametrize("text", ["", "<annotation>", "<html/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation/>", "\0"])
def test_files_that_are_not_vocs(devkit: Path, text: str) -> None:
    (devkit / "Annotations" / "1.xml").write_text(text)
    with refused(UsageProblem):
        read(devkit)


def test_lists_that_do_not_fit(devkit: Path) -> None:
    with refused(UsageProblem):
        read(devkit, "test")
    (devkit / "ImageSets" / "Main" / "val.txt").write_text("1\n9\n8\n")
    with refused(UsageProblem):
        read(devkit)
    (devkit / "ImageSets" / "Main" / "val.txt").write_text("\n")
    with refused(UsageProblem):
        read(devkit)


def test_nothing_is_annotated(devkit: Path) -> None:
    for stem in ("1", "2"):
        add(devkit / "Annotations" / f"{stem}.xml")
    with refused(UsageProblem):
        read(devkit)
