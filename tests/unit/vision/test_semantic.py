"""Classes of pixels: logits on the image, mIoU against a plain count, and maps of classes."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.dataset import Category, CocoDataset, GroundTruth, read_dataset
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.families import Family, recognise
from trt_workbench.vision.forms.found import find_data
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.masks import Masks, run_lengths
from trt_workbench.vision.tasks import semantic
from trt_workbench.vision.tasks.registry import task_of
from trt_workbench.vision.tasks.semantic import MEAN_IOU

SIZE = (96, 112)


def family(classes: int = 3, resize: str | None = "stretch", **metadata: str) -> Family:
    return recognised("float32", (None, classes, 24, 28), resize, **metadata)


def recognised(dtype: str, output: tuple[int | None, ...], resize: str | None = "stretch", **metadata: str) -> Family:
    images = TensorSpec("images", "float32", (None, 3, *SIZE))
    said = Preparation(family="semantic", normalize="none", resize=resize)
    return recognise([images], [TensorSpec("logits", dtype, output)], metadata, said)


def found_in(made: Family, logits: Any, size: tuple[int, int]) -> Any:
    (one,) = made.decode({"logits": logits[None]})
    return made.restore(one, find_geometry(*size, made.preparation()))


def plane_of(found: Any, size: tuple[int, int]) -> Any:
    plane = np.full(size, -1)
    for label, one in zip(found.labels, found.extra.encoded(), strict=True):
        from hotcoco import mask

        plane[mask.decode(one).astype(bool)] = label
    return plane


@pytest.mark.parametrize("size", [(96, 112), (50, 200), (33, 31)])
def test_logits_are_enlarged_to_the_image_as_pytorch_does(size: tuple[int, int]) -> None:
    functional = pytest.importorskip("torch").nn.functional
    from torch import tensor

    logits = np.random.default_rng(1).normal(0, 1, (3, 24, 28)).astype(np.float32)
    found = found_in(family(), logits, size)
    expected = functional.interpolate(tensor(logits)[None], size=size, mode="bilinear")[0].argmax(0).numpy()
    assert (plane_of(found, size) == expected).mean() > 0.9999
    assert found.scores.tolist() == [1.0] * len(found.labels)


def test_padding_is_no_part_of_the_image() -> None:
    made = family(resize=None)
    geometry = find_geometry(96, 48, made.preparation())
    assert geometry.left > 0
    columns = np.arange(112) + 0.5
    inside = (columns > geometry.left) & (columns < 112 - geometry.left)
    logits = np.zeros((2, 24, 28), np.float32)
    logits[1] = cv2.resize(inside.astype(np.float32)[None], (28, 1))[0] - 0.5
    found = found_in(family(2, None), logits, (96, 48))
    assert found.labels.tolist() == [1]
    assert found.boxes.tolist() == [[0, 0, 48, 96]]


def test_one_class_is_where_it_is_above_0() -> None:
    logits = np.full((1, 24, 28), -1, np.float32)
    assert not len(found_in(family(1), logits, (10, 10)).labels)
    logits[:, :12] = 1
    found = found_in(family(1), logits, (96, 112))
    assert (found.labels.tolist(), found.boxes.tolist()) == ([0], [[0, 0, 112, 48]])


def test_what_are_no_logits_is_refused() -> None:
    with pytest.raises(NotFinite):
        family().decode({"logits": np.full((1, 3, 24, 28), np.nan, np.float32)})
    with refused(UsageProblem):
        family().decode({"logits": np.zeros((1, 4, 24, 28), np.float32)})
    with refused(UsageProblem):
        family(names="['a', 'b']")
    with refused(UsageProblem):
        recognised("float32", (None, 24, 28))
    with refused(UsageProblem):
        recognised("int64", (None, 1, 24, 28))


def masks(planes: list[Any]) -> Masks:
    size = planes[0].shape
    return Masks(np.array([size] * len(planes), np.int32), tuple(run_lengths(one, 0, 0, size) for one in planes))


def drawn(rng: np.random.Generator) -> tuple[GroundTruth, DetectionTable, Any, Any]:
    """Three images of four classes with pixels that are not scored (-1), and what was found."""
    truth, found = rng.integers(-1, 3, (3, 12, 9)), rng.integers(0, 4, (3, 12, 9))
    rows = [(image, value, truth[image] == value) for image in range(3) for value in np.unique(truth[image])]
    images, values, planes = zip(*rows, strict=True)
    ids, labels = np.array(images) + 1, np.array(values)
    annotated = GroundTruth(
        ids, np.maximum(labels, 0) * 10, np.zeros((len(rows), 4)), np.ones(len(rows)), labels < 0, masks([*planes])
    )
    rows = [(image, value, found[image] == value) for image in range(3) for value in np.unique(found[image])]
    images, values, planes = zip(*rows, strict=True)
    table = DetectionTable(
        np.array(images) + 1,
        np.array(values) * 10,
        np.zeros((len(rows), 4), np.float32),
        np.ones(len(rows), np.float32),
        masks([*planes]),
    )
    return annotated, table, truth, found


CATEGORIES = tuple(Category(number * 10, f"c{number}") for number in range(5))


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_a_plain_count(seed: int) -> None:
    annotated, table, truth, found = drawn(np.random.default_rng(seed))
    scores, matches = MEAN_IOU.both(np.array([1, 2, 3, 4]), annotated, CATEGORIES, table)
    ious = []
    for value in range(4):
        mine, given = (truth == value), (found == value) & (truth >= 0)
        ious.append((mine & given).sum() / (mine | given).sum())
    assert scores.figures["mIoU"] == pytest.approx(np.mean(ious))
    assert scores.figures["pixel_accuracy"] == pytest.approx((truth == found).sum() / (truth >= 0).sum())
    assert [row["mIoU"] for row in scores.per_class()] == [*(pytest.approx(one) for one in ious), None]
    once = matches.figures(np.array([[1, 1, 1, 1], [0, 0, 0, 5]], np.int32))
    assert once.figures["mIoU"][0] == pytest.approx(scores.figures["mIoU"])
    assert np.isnan(once.figures["mIoU"][1])


def test_masks_of_a_run_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    annotated, table, *_ = drawn(np.random.default_rng(0))
    ids, calls = np.array([1, 2, 3, 4]), list[int]()
    plane = semantic._plane
    monkeypatch.setattr(semantic, "_plane", lambda *masks: calls.append(1) or plane(*masks))
    _, matches = MEAN_IOU.both(ids, annotated, CATEGORIES, table)
    counts, once = np.array([[1, 2, 0, 1]], np.int32), len(calls)
    assert (
        matches.figures(counts).figures == MEAN_IOU.matches(ids, annotated, CATEGORIES, table).figures(counts).figures
    )
    assert len(calls) == 2 * once


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    """Two images in folders of cities; the first has classes 0 and 2, one pixel without."""
    plane = np.zeros((6, 8), np.uint8)
    plane[:, 4:], plane[0, 0] = 2, 255
    for name, values in (("a/x", plane), ("b/y", np.ones((6, 8), np.uint8))):
        image, file = tmp_path / "images" / "val" / f"{name}.jpg", tmp_path / "masks" / "val" / f"{name}.png"
        for one in (image, file):
            one.parent.mkdir(parents=True)
        cv2.imwrite(str(image), np.zeros((6, 8, 3), np.uint8))
        made = Image.fromarray(values)
        made.putpalette([*range(256)] * 3)
        made.save(file)
    return tmp_path


def read(path: Path) -> CocoDataset:
    place = find_data(path)
    return read_dataset(place.images, place.annotations, split=place.split, task=task_of("semantic"))


def test_maps_become_a_mask_a_class(maps: Path) -> None:
    data = read(maps)
    assert [image.file_name for image in data.images] == ["a/x.jpg", "b/y.jpg"]
    assert [one.name for one in data.categories] == ["class0", "class1", "class2"]
    assert data.truth.category_ids.tolist() == [0, 2, 0, 1]
    assert data.truth.crowd.tolist() == [False, False, True, False]
    assert data.truth.areas.tolist() == [23, 24, 1, 48]
    assert not data.notes
    (maps / "masks" / "val" / "b" / "y.png").rename(maps / "y.png")
    assert "1 image without a map of classes, left out." in read(maps).notes
    (maps / "y.png").rename(maps / "masks" / "val" / "b" / "y.png")
    (maps / "classes.txt").write_text("-\nroad\ncar\n")
    data = read(maps)
    assert [(one.id, one.name) for one in data.categories] == [(1, "road"), (2, "car")]
    assert data.truth.crowd.tolist() == [True, False, True, False]


def test_maps_that_are_none(maps: Path) -> None:
    (maps / "classes.txt").write_text("road\n")
    with refused(UsageProblem):
        read(maps)
    (maps / "classes.txt").unlink()
    file = maps / "masks" / "val" / "b" / "y.png"
    for data in (b"no PNG", None, cv2.imencode(".png", np.zeros((6, 8, 3), np.uint8))[1].tobytes()):
        file.write_bytes(data or b"")
        with refused(UsageProblem):
            read(maps)
    for one in (maps / "masks").rglob("*.png"):
        cv2.imwrite(str(one), np.eye(6, 8, dtype=np.uint8) * 255)
    with refused(UsageProblem):
        read(maps)
    (maps / "images" / "val" / "a" / "x.jpg").unlink()
    with refused(UsageProblem):
        read(maps)
