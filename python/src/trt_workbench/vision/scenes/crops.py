"""The objects of generated scenes, each cut out, in a folder of its class: a data set for classifiers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trt_workbench.core.files import scratch_folder
from trt_workbench.vision.scenes.scenes import CLASSES, scene

CROPS_VERSION: Final = 1
"""Raised whenever the same scenes come to give other crops."""
_MARGIN: Final = 1.25  # times the longer side of a box
_JPEG_QUALITY: Final = 92


def crops(seed: int, index: int) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Yield every object of a scene: a square around its box, less what is outside of the scene, and its label."""
    image, boxes, labels = scene(seed, index)
    for (x, y, width, height), label in zip(boxes.tolist(), labels.tolist(), strict=True):
        half = _MARGIN * max(width, height) / 2
        left, top = (max(0, round(centre - half)) for centre in (x + width / 2, y + height / 2))
        bottom, right = round(y + height / 2 + half), round(x + width / 2 + half)
        yield np.ascontiguousarray(image[top:bottom, left:right]), label


def write_crops(folder: Path, images: int, seed: int) -> None:
    """Write the objects of scenes as `folder/CLASS/SCENE-OBJECT.jpg`, whole or not at all; what is there is kept.

    Raises:
        OSError: the folder is not writable or the disk is full.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        prefix = f".{folder.name}.unfinished."
        for left in folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(left)  # of a process that was killed
        if folder.exists():
            return
        with scratch_folder(prefix, folder.parent) as temporary:
            unfinished = temporary / folder.name
            for name in CLASSES:
                (unfinished / name).mkdir(parents=True)
            for index in range(images):
                for number, (crop, label) in enumerate(crops(seed, index)):
                    _, encoded = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
                    (unfinished / CLASSES[label] / f"{index:06d}-{number:02d}.jpg").write_bytes(encoded.tobytes())
            unfinished.rename(folder)
