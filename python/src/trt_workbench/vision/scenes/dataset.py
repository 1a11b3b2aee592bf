"""The datasets that eval-coco and decide use when they are given none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.workspace import CLASSIFIER, DETECTOR, SEGMENTER, cache_root, embedded_model
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.scenes.scenes import (
    CLASSES,
    GENERATOR_VERSION,
    HELD_OUT_IMAGES,
    HELD_OUT_SEED,
    appearing,
    scene,
    write_dataset,
)

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
    with appearing(folder) as unfinished:
        if folder.exists():
            return
        for name in CLASSES:
            (unfinished / name).mkdir()
        for index in range(images):
            for number, (crop, label) in enumerate(crops(seed, index)):
                _, encoded = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
                (unfinished / CLASSES[label] / f"{index:06d}-{number:02d}.jpg").write_bytes(encoded.tobytes())


_SPLIT = "val"
# Of which ranges of activations are found: other scenes than those that are scored.
_CALIBRATION_SPLIT, _CALIBRATION_IMAGES, _CALIBRATION_SEED = "calibration-128", 128, 2027


class EmbeddedDataset(NamedTuple):
    """Where an embedded dataset is; `exists` says whether it was made before."""

    root: Path
    images: Path
    annotations: Path
    exists: bool


def embedded_name(model: Path) -> str | None:
    """Return the name of the embedded vision model that a file is, or a plan was built from; None of another file.

    Raises:
        ComponentMissing: as `embedded_model`.
        UsageProblem: the plan's manifest is damaged.
    """
    if not model.is_file():
        return None
    if model.suffix == ".onnx":
        own = sha256_of(model)
    else:
        manifest = read_manifest(model)
        own = manifest.model.sha256 if manifest else ""
    return next((one for one in (DETECTOR, SEGMENTER, CLASSIFIER) if own == sha256_of(embedded_model(one))), None)


def embedded_dataset(name: str = DETECTOR) -> EmbeddedDataset:
    """Say where the dataset of an embedded model is or will be. Each version of the generator has its own folder."""
    if name == CLASSIFIER:
        root = cache_root() / "datasets" / "shape-classes" / f"v{GENERATOR_VERSION}.{CROPS_VERSION}"
        return EmbeddedDataset(root, root / _SPLIT, root / _SPLIT, (root / _SPLIT).is_dir())
    root = cache_root() / "datasets" / "shapes" / f"v{GENERATOR_VERSION}"
    annotations = root / "annotations" / f"instances_{_SPLIT}.json"
    return EmbeddedDataset(root, root / _SPLIT, annotations, annotations.is_file())


def make_calibration_scenes(name: str = DETECTOR) -> EmbeddedDataset:
    """Return an embedded model's images for calibration, made if absent. Raises as `make_embedded_dataset`."""
    root = embedded_dataset(name).root
    images = root / _CALIBRATION_SPLIT
    if name == CLASSIFIER:
        write_crops(images, _CALIBRATION_IMAGES, _CALIBRATION_SEED)
        return EmbeddedDataset(root, images, images, exists=True)
    annotations = write_dataset(root, _CALIBRATION_SPLIT, _CALIBRATION_IMAGES, _CALIBRATION_SEED)
    return EmbeddedDataset(root, images, annotations, exists=True)


def make_embedded_dataset(name: str = DETECTOR) -> EmbeddedDataset:
    """Make the dataset of an embedded model if it is not there; processes that ask meanwhile wait for one another.

    Raises:
        UsageProblem: something else is in its place.
        OSError: the folder is not writable or the disk is full.
    """
    place = embedded_dataset(name)
    if name == CLASSIFIER:
        write_crops(place.images, HELD_OUT_IMAGES, HELD_OUT_SEED)
    else:
        write_dataset(place.root, _SPLIT, HELD_OUT_IMAGES, HELD_OUT_SEED)
    return place._replace(exists=True)
