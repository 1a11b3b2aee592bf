"""Calibration images that are scored are found by their bytes, whatever they are called."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np

from trt_workbench.decide.subject import images_overlap


def pictures(folder: Path) -> tuple[Path, Path, Path]:
    """Return two folders of pictures and the annotations of two in the first."""
    scored, other = folder / "scored", folder / "other"
    for seed, place in enumerate((scored, other)):
        place.mkdir()
        for number in range(3):
            pixels = np.random.default_rng([seed, number]).integers(0, 256, (24, 32, 3), np.uint8)
            cv2.imwrite(str(place / f"{number}.png"), pixels)
    annotations = folder / "truth.json"
    images = [{"id": number + 1, "file_name": f"{number}.png", "width": 32, "height": 24} for number in range(2)]
    one = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9], "area": 81, "iscrowd": 0}
    annotations.write_text(json.dumps({"images": images, "annotations": [one], "categories": [{"id": 1, "name": "a"}]}))
    return scored, other, annotations


def test_images_are_known_by_their_bytes(tmp_path: Path) -> None:
    scored, other, annotations = pictures(tmp_path)
    assert not images_overlap(str(other), scored, annotations)
    assert images_overlap(str(scored), scored, annotations)
    assert images_overlap(None, scored, annotations)
    assert not images_overlap("random", scored, annotations)
    shutil.copy(scored / "2.png", other / "not-listed.png")
    assert not images_overlap(str(other), scored, annotations)
    shutil.copy(scored / "1.png", other / "renamed.png")
    assert images_overlap(str(other), scored, annotations)
