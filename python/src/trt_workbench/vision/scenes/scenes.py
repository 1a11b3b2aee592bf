"""Generated scenes: a detection dataset in COCO's format that needs no download and is the same for the same seed."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, scratch_folder
from trt_workbench.vision.masks import annotation_of, tight_box
from trt_workbench.vision.scenes.render import render
from trt_workbench.vision.scenes.shapes import SHAPES

CLASSES: Final = tuple(SHAPES)
"""Class names in the order of the labels."""
CATEGORY_IDS: Final = (1, 2, 4, 7, 8, 11, 13, 16)
"""COCO category id of each label. With gaps, as COCO's own: a tool that mixes up ids and labels is found out."""
HELD_OUT_IMAGES: Final = 200
HELD_OUT_SEED: Final = 2026
"""Seed of the default evaluation set. No model is trained or chosen on it."""
GENERATOR_VERSION: Final = 2
"""Raised whenever the same seed comes to mean other scenes or annotations."""
_JPEG_QUALITY: Final = 92


def scene(seed: int, index: int) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int64]]:
    """Draw scene `index` of the endless sequence that `seed` names.

    Args:
        seed: which sequence, 0 or more.
        index: which scene of it, 0 or more.

    Returns:
        The image, uint8 [H,W,3], BGR, sides of 240 to 480 px; the boxes, float32 [K,4], x, y, width and height
        in pixels around what can be seen of each object; the labels, int64 [K], indices into `CLASSES`. K may be 0.
    """
    rendered = render(seed, index)
    boxes = np.array([tight_box(mask) for mask in rendered.masks], np.float32).reshape(-1, 4)
    return rendered.image, boxes, rendered.labels


def write_dataset(root: Path, split: str, images: int = HELD_OUT_IMAGES, seed: int = HELD_OUT_SEED) -> Path:
    """Write a split in COCO's layout: `root/split/*.jpg` and `root/annotations/instances_split.json`.

    A split that is already there with the same seed, count and generator version is kept.
    Otherwise the annotation file and then the folder of images appear whole or not at all; a call that was killed
    between is repaired by the next one.

    Args:
        root: folder of the dataset, made if absent.
        split: name of the split, such as "val".
        images: how many images.
        seed: which sequence of scenes.

    Returns:
        Path of the annotation file.

    Raises:
        UsageProblem: another dataset is already in the place of this one.
        OSError: the folder is not writable or the disk is full.
    """
    annotations, folder = root / "annotations" / f"instances_{split}.json", root / split
    info = _info(images, seed)
    with appearing(folder) as unfinished:
        if annotations.exists() or folder.exists():
            _require_same(annotations, info, root)
        if not folder.exists():
            document = _write_images(unfinished, images, seed) | {"info": info}
            # they say whose the folder is, so that one without them is never taken for ours
            write_json(annotations, document, over=anything)
    return annotations


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of this one when the block ends, where there is none.

    One process does so at a time; what those that were killed left is removed.
    """
    root, prefix = folder.parent, f".{folder.name}.unfinished."
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{folder.name}.lock"):
        for left in root.glob(f"{prefix}*"):
            shutil.rmtree(left)
        with scratch_folder(prefix, root) as temporary:
            unfinished = temporary / folder.name
            unfinished.mkdir()
            yield unfinished
            if not folder.exists():
                unfinished.rename(folder)


def _info(images: int, seed: int) -> dict[str, Any]:
    return {
        "description": "Generated scenes of shapes on textured backgrounds",
        "version": str(GENERATOR_VERSION),
        "contributor": "trt-workbench",
        "seed": seed,
        "images": images,
    }


def _require_same(annotations: Path, info: dict[str, Any], root: Path) -> None:
    """Raise UsageProblem unless the annotation file is there and was made from the same `info`."""
    try:
        found = json.loads(annotations.read_text(encoding="utf-8"))["info"]
    except (OSError, ValueError, LookupError, TypeError):
        found = None
    if found != info:
        raise UsageProblem(
            "The folder for the generated scenes holds another or an unfinished dataset; "
            f"remove it or choose another folder: {root}"
        )


def _write_images(folder: Path, images: int, seed: int) -> dict[str, Any]:
    """Write the JPEG files and return COCO's tables for them."""
    document: dict[str, Any] = {
        "licenses": [{"id": 1, "name": "CC0 1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}],
        "images": [],
        "annotations": [],
        "categories": [
            {"id": number, "name": name, "supercategory": "shape"}
            for number, name in zip(CATEGORY_IDS, CLASSES, strict=True)
        ],
    }
    for index in range(images):
        rendered = render(seed, index)
        height, width = rendered.image.shape[:2]
        name, image_id = f"{index:06d}.jpg", index + 1
        _, encoded = cv2.imencode(".jpg", rendered.image, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        (folder / name).write_bytes(encoded.tobytes())
        document["images"].append({"id": image_id, "file_name": name, "height": height, "width": width, "license": 1})
        for mask, label in zip(rendered.masks, rendered.labels, strict=True):
            number = len(document["annotations"]) + 1
            named = {"id": number, "image_id": image_id, "category_id": CATEGORY_IDS[int(label)]}
            document["annotations"].append({**named, **annotation_of(mask)})
    return document
