"""What lies where `--data` points: the form of a data set, and the paths that the reader of annotations takes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.forms.yolo import DEFAULT_SPLIT, SUFFIXES


class DataPlace(NamedTuple):
    """A data set as `read_dataset` takes it.

    Attributes:
        images: folder of the images.
        annotations: annotation file, or `data.yaml`.
        split: of `data.yaml`; None of COCO's form.
        words: what was found, the end of a sentence.
    """

    images: Path
    annotations: Path
    split: str | None = None
    words: str = ""


def find_data(path: Path, split: str | None = None) -> DataPlace:
    """Return the data set in a folder, or that a file describes.

    Raises:
        UsageProblem: there is none, or several could be meant.
    """
    if not path.exists():
        raise UsageProblem(f"The data set does not exist: {path}")
    described = _descriptions(path) if path.is_dir() else [path]
    if len(described) > 1:
        names = ", ".join(file.name for file in described)
        raise UsageProblem(f"The folder holds several descriptions of data sets ({names}); name one of them: {path}")
    if not described or described[0].suffix.lower() not in SUFFIXES:
        raise UsageProblem(
            f"--data takes a data.yaml or a folder that holds one; pass others by --images and --annotations: {path}"
        )
    wanted = split or DEFAULT_SPLIT
    return DataPlace(described[0].parent, described[0], wanted, f"{described[0]}, split {wanted}")


def _descriptions(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    return [file for file in files if file.stem in ("data", "dataset")][:1] or files
