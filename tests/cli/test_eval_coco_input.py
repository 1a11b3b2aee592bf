"""eval-coco on bad input: exit code 2, one paragraph, nothing left behind."""

import dataclasses
import json
from typing import Any

import pytest
from tests.onnx_text import write_onnx


def test_corrupt_image(coco: Any) -> None:
    path = coco.images / "3.png"
    path.write_bytes(path.read_bytes()[:40])
    coco.assert_refused(coco.invoke(), str(path))


def test_missing_images(coco: Any) -> None:
    (coco.images / "2.png").unlink()
    (coco.images / "4.png").unlink()
    texts = ("missing (2 of 4", "2.png, 4.png", "--allow-missing", str(coco.images))
    coco.assert_refused(coco.invoke("--no-allow-missing"), *texts)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe\x00", "it holds NUL bytes, so it is not text"),
        ("[]", "not in COCO's"),
        ('{"images": []}', "missing key 'categories'"),
    ],
)
def test_annotation_file_that_cannot_be_used(coco: Any, content: str | bytes, text: str) -> None:
    coco.annotations.write_bytes(content.encode() if isinstance(content, str) else content)
    coco.assert_refused(coco.invoke(), text, str(coco.annotations))


@pytest.mark.parametrize("name", ["../secret.png", "{root}/secret.png", "a/../../secret.png"])
def test_images_outside_of_their_folder(coco: Any, name: str) -> None:
    (coco.images / "1.png").rename(coco.root / "secret.png")
    (coco.images / "a").mkdir()
    coco.rewrite(images=[{"id": 1, "file_name": name.format(root=coco.root)}], annotations=[])
    coco.assert_refused(coco.invoke(), "points outside its folder", str(coco.annotations))


def test_absent_annotation_file(coco: Any) -> None:
    coco.annotations.unlink()
    coco.assert_refused(coco.invoke(), "cannot be read (No such file or directory)")


def test_absent_images_folder(coco: Any) -> None:
    moved = dataclasses.replace(coco, images=coco.root / "elsewhere")
    coco.assert_refused(moved.invoke(), "images folder does not exist", "elsewhere")


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_truncated_model(coco: Any, keep: float) -> None:
    data = coco.model.read_bytes()
    coco.model.write_bytes(data[: int(len(data) * keep)])
    coco.assert_refused(coco.invoke(), str(coco.model))


def test_a_model_without_a_dataset_is_the_embedded_one(coco: Any) -> None:
    words = [str(coco.model)]
    coco.assert_refused(coco.invoke_exactly(words), "fit only the embedded models", str(coco.model))
    coco.model.unlink()
    coco.assert_refused(coco.invoke_exactly(words), "The model file does not exist", str(coco.model))


def test_model_with_other_outputs(coco: Any) -> None:
    side = f"float[1,3,{coco.side},{coco.side}]"
    write_onnx(coco.model, f"other ({side} images) => ({side} copy) {{ copy = Identity(images) }}")
    coco.assert_refused(coco.invoke(), "copy float32 [1, 3, 32, 32]", "--family")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"bbox": [0.125, 0.1875, 0.5, 0.375]}, "look like fractions of the image"),
        ({"bbox": [14, 10, 28, 24]}, "read as corners (x1, y1, x2, y2), 0 % would"),
        ({"bbox": [22, 20, 16, 12]}, "as centres (centre x, centre y, width, height), 0 % would"),
        ({"iscrowd": 1}, "All annotations (4) are crowds"),
        ({"image_id": 2**60 + 1}, "None of the annotations (4) belongs to an image that the file lists"),
    ],
)
def test_annotations_that_make_the_score_meaningless(coco: Any, changes: dict[str, Any], text: str) -> None:
    document = json.loads(coco.annotations.read_text())
    coco.rewrite(annotations=[{**one, **changes} for one in document["annotations"]])
    coco.assert_refused(coco.invoke(), text, str(coco.annotations))


def test_other_class_count(coco: Any) -> None:
    coco.write_model(classes="['square', 'circle', 'star']")
    coco.assert_refused(coco.invoke(), "3 classes", "2 categories", "only the model has star")


def test_a_class_beyond_the_annotations_of_a_model_that_does_not_tell_its_classes(coco: Any) -> None:
    coco.write_model(classes="", label=2)
    coco.assert_refused(coco.invoke(), "class 2", "2 categories")


def test_batch_beyond_a_fixed_one(coco: Any) -> None:
    coco.write_model(batch=2)
    coco.assert_refused(coco.invoke("--batch", "3"), "batches of exactly 2", "--batch 3")


def test_imgsz_that_disagrees_with_the_model(coco: Any) -> None:
    coco.assert_refused(coco.invoke("--imgsz", "640"), "32x32", "640x640")


def test_imgsz_missing_for_a_model_of_any_size(coco: Any) -> None:
    coco.write_model(size="side")
    coco.assert_refused(coco.invoke(), "--imgsz")


def test_classes_of_images_are_nothing_for_a_detector(coco: Any) -> None:
    (coco.root / "classes").mkdir()
    coco.images.rename(coco.root / "classes" / "square")
    command = [str(coco.model), "--data", str(coco.root / "classes"), "--output", str(coco.output)]
    coco.assert_refused(coco.invoke_exactly(command), "a class for each image, and the model is for")
