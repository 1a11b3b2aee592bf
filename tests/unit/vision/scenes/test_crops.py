"""The objects of scenes, cut out: a data set for classifiers."""

from pathlib import Path

import numpy as np
import pytest

from trt_workbench.vision.dataset import read_dataset
from trt_workbench.vision.forms.found import find_data
from trt_workbench.vision.scenes.dataset import crops, write_crops
from trt_workbench.vision.scenes.scenes import CLASSES, scene


def test_every_object_is_cut_out_with_its_surroundings() -> None:
    image, boxes, labels = scene(5, 1)
    found = list(crops(5, 1))
    assert [label for _, label in found] == labels.tolist()
    for (crop, _), (x, y, width, height) in zip(found, boxes.tolist(), strict=True):
        assert crop.shape[0] >= height
        assert crop.shape[1] >= width
        assert max(crop.shape) <= 1.25 * max(width, height) + 1
        assert np.isin(image[int(y), int(x)], crop).all()


def test_a_folder_is_written_once(tmp_path: Path) -> None:
    write_crops(tmp_path / "v1" / "val", images=3, seed=5)
    place = find_data(tmp_path / "v1")
    data = read_dataset(place.images, place.annotations)
    assert [one.name for one in data.categories] == sorted(CLASSES)
    assert len(data.images) == sum(len(scene(5, index)[2]) for index in range(3))
    left = tmp_path / "v1" / ".val.unfinished.killed"
    left.mkdir()
    write_crops(tmp_path / "v1" / "val", images=9, seed=6)
    assert not left.exists()
    assert len(read_dataset(place.images, place.annotations).images) == len(data.images)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trt_workbench.vision.scenes.dataset.crops", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_crops(tmp_path / "val", images=1, seed=5)
    assert [one.name for one in tmp_path.iterdir()] == [".val.lock"]
