"""The dataset that eval-coco uses when it is given none."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trt_workbench.core.workspace import cache_root, embedded_model
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.model.opened import sha256_of
from trt_workbench.vision.scenes.scenes import GENERATOR_VERSION, HELD_OUT_IMAGES, HELD_OUT_SEED, write_dataset

_SPLIT = "val"
# Of which ranges of activations are found: other scenes than those that are scored.
_CALIBRATION_SPLIT, _CALIBRATION_IMAGES, _CALIBRATION_SEED = "calibration-128", 128, 2027


class EmbeddedDataset(NamedTuple):
    """Where the embedded dataset is; `exists` says whether it was made before."""

    root: Path
    images: Path
    annotations: Path
    exists: bool


def fits_embedded_dataset(model: Path) -> bool:
    """Say whether a file is the embedded detector, or a plan whose manifest says that it was built from it.

    Raises:
        ComponentMissing: as `embedded_model`.
        UsageProblem: the plan's manifest is damaged.
    """
    if not model.is_file():
        return False
    if model.suffix == ".onnx":
        return sha256_of(model) == sha256_of(embedded_model())
    manifest = read_manifest(model)
    return manifest is not None and manifest.model.sha256 == sha256_of(embedded_model())


def embedded_dataset() -> EmbeddedDataset:
    """Say where the embedded dataset is or will be. Each version of the generator has a folder of its own."""
    root = cache_root() / "datasets" / "shapes" / f"v{GENERATOR_VERSION}"
    annotations = root / "annotations" / f"instances_{_SPLIT}.json"
    return EmbeddedDataset(root, root / _SPLIT, annotations, annotations.is_file())


def make_calibration_scenes() -> EmbeddedDataset:
    """Return the scenes for calibration, made if they are not there. Raises as `make_embedded_dataset`."""
    root = embedded_dataset().root
    annotations = write_dataset(root, _CALIBRATION_SPLIT, _CALIBRATION_IMAGES, _CALIBRATION_SEED)
    return EmbeddedDataset(root, root / _CALIBRATION_SPLIT, annotations, exists=True)


def make_embedded_dataset() -> EmbeddedDataset:
    """Make the embedded dataset if it is not there; processes that ask at the same time wait for one another.

    Raises:
        UsageProblem: something else is in its place.
        OSError: the folder is not writable or the disk is full.
    """
    place = embedded_dataset()
    write_dataset(place.root, _SPLIT, HELD_OUT_IMAGES, HELD_OUT_SEED)
    return place._replace(exists=True)
