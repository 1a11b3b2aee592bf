"""Classifiers: what images become, what outputs become, and the figures of what is found."""

from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.confusion import confuse
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionStore, DetectionTable
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.letterbox import find_geometry, preprocess
from trt_workbench.vision.tasks.classes import TOP_CLASSES

CLASSIFY = {"task": "classify"}


def classifier(shape: tuple[int | None, ...] = (None, 10), side: int = 224, **more: Any) -> Family:
    metadata = more.pop("metadata", CLASSIFY)
    inputs, output = [TensorSpec("images", "float32", (None, 3, side, side))], TensorSpec("output0", "float32", shape)
    return recognise(inputs, [output], metadata, Preparation(**more))


def expected(image: np.ndarray, resize: int, side: int, mean: Any, std: Any) -> np.ndarray:
    """Resize, CenterCrop, ToTensor and Normalize of torchvision on a PIL image, with Pillow's order before 13."""
    picture = Image.fromarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
    width, height = picture.size
    short, long = resize, int(resize * max(width, height) / min(width, height))
    size = (short, long) if width <= height else (long, short)
    picture = picture.resize((size[0], height), Image.Resampling.BILINEAR).resize(size, Image.Resampling.BILINEAR)
    top, left = round((picture.height - side) / 2.0), round((picture.width - side) / 2.0)
    pixels = np.asarray(picture.crop((left, top, left + side, top + side)), np.float32) / np.float32(255)
    return ((pixels - np.float32(mean)) / np.float32(std)).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(480, 641), (333, 224), (100, 90), (224, 224), (1, 9), (601, 599)])
@pytest.mark.parametrize(("normalize", "resize"), [(None, 224), ("imagenet", 256)])
def test_images_are_prepared_as_by_torchvision_and_ultralytics(
    size: tuple[int, int], normalize: Any, resize: int
) -> None:
    image = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    mean, std = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if normalize else ((0, 0, 0), (1, 1, 1))
    found, _ = preprocess(image, classifier(normalize=normalize).preparation())
    assert np.abs(found - expected(image, resize, 224, mean, std)).max() < 1e-6


def test_what_nobody_says_is_asked_for() -> None:
    forced = {"family": "classifier", "metadata": {}}
    with pytest.raises(UsageProblem, match="--normalize none or --normalize imagenet"):
        classifier(**forced).preparation()
    said = classifier(**forced, normalize="imagenet").preparation()
    assert (said.placement, said.crop) == ("crop", 0.875)
    named = {**CLASSIFY, "crop_pct": "0.96551724", "normalize": "imagenet"}
    assert find_geometry(464, 232, classifier(metadata=named).preparation()).resized == (464, 232)
    with pytest.raises(UsageProblem, match="crop_pct"):
        classifier(metadata={**CLASSIFY, "crop_pct": "7"})


@pytest.mark.parametrize(
    ("shape", "names", "why"),
    [((None, 1), None, "one value an image"), ((None, 9, 4), None, "its shape"), ((None, 4), 3, "names 3")],
)
def test_other_outputs_are_refused(shape: Any, names: int | None, why: str) -> None:
    metadata = CLASSIFY | ({"names": str([f"n{place}" for place in range(names)])} if names else {})
    with pytest.raises(UsageProblem, match=why):
        classifier(shape, metadata=metadata)


def test_outputs_that_name_no_task_are_of_no_family() -> None:
    with pytest.raises(UsageProblem, match="not certain"):
        classifier(metadata={})


def test_logits_and_scores_give_the_same() -> None:
    family, logits = classifier(), np.random.default_rng(0).normal(0, 9, (3, 10)).astype(np.float32)
    powers = np.exp(logits.astype(np.float64))
    scores = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    for one, other in zip(family.decode({"output0": logits}), family.decode({"output0": scores}), strict=True):
        assert one.labels.tolist() == other.labels.tolist()
        assert np.abs(one.scores - other.scores).max() < 1e-6
    found = family.restore(one, find_geometry(30, 50, family.transform()))
    assert (len(found.labels), found.boxes[9].tolist()) == (10, [0, 0, 50, 30])
    with pytest.raises(NotFinite):
        family.decode({"output0": logits * np.float32(np.nan)})
    with pytest.raises(UsageProblem, match="expects"):
        family.decode({"output0": logits[:, :9]})


def table(rows: dict[int, list[int]]) -> DetectionTable:
    """Classes of images by rank."""
    images = np.repeat([*rows], [len(one) for one in rows.values()])
    labels = np.array([label for one in rows.values() for label in one], np.int64)
    return DetectionTable(images, labels, np.zeros((len(labels), 4), np.float32), np.linspace(1, 0, len(labels)))


def truth(labels: list[int]) -> GroundTruth:
    count = len(labels)
    return GroundTruth(
        np.arange(1, count + 1),
        np.array(labels, np.int64),
        np.tile([0.0, 0, 8, 8], (count, 1)),
        np.full(count, 64.0),
        np.zeros(count, np.bool_),
    )


def test_figures_are_shares_of_images() -> None:
    categories = [Category(7 * place, f"n{place}") for place in range(8)]
    found = table({1: [7, 0, 14, 21, 28], 2: [0, 7, 14, 21, 28], 3: [35, 42], 4: [14]})
    labels = truth([7, 28, 49, 7])
    scores, matches = TOP_CLASSES.both(np.arange(1, 5), labels, categories, found)
    assert scores.figures == {"top1": 0.25, "top5": 0.5}
    row = scores.per_class()[1]
    assert (row["top1"], row["top5"], row["ground_truths"], row["detections"]) == (0.5, 0.5, 2, 1)
    assert scores.per_class()[0]["top1"] is None
    counts = np.array([[1, 1, 1, 1], [3, 0, 0, 1], [0, 2, 2, 0]], np.int32)
    figures = matches.figures(counts)
    assert figures.figures["top1"].tolist() == [0.25, 0.75, 0.0]
    assert figures.by_class[:2, 1].tolist() == [0.5, 0.75]
    assert np.isnan(figures.by_class[2, 1])
    few, _ = TOP_CLASSES.both(np.arange(1, 5), labels, categories[:5], table({1: [7]}))
    assert few.figures["top5"] is None


def test_the_matrix_is_of_the_best_classes() -> None:
    count = 20_000
    categories = tuple(Category(place, str(place)) for place in range(count))
    labels = truth([count - 1, 3])
    found = TOP_CLASSES.scored(labels, table({1: [count - 2, count - 1], 2: [3, 4]}))
    confusion = confuse(np.array([1, 2]), categories, labels, found, TOP_CLASSES, threshold=0.0)
    assert confusion.labels == ("3", str(count - 2), str(count - 1), "background")
    assert confusion.matrix.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert confusion.counts[:, 1:].tolist() == [[1, 0, 1, 1], [1, 1, 0, 0]]


def test_classes_without_a_category_leave_room_for_others() -> None:
    family = classifier()
    (found,) = family.decode({"output0": np.arange(10, dtype=np.float32)[None]})
    kept = np.arange(10) < 3
    store = DetectionStore(np.array([1]), np.arange(10), kept, most=5)
    store.put(0, family.restore(found, find_geometry(8, 8, family.transform())))
    assert store.collect().category_ids.tolist() == [2, 1, 0]
