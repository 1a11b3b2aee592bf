"""The models that come with the workbench, by the names that bench configurations use."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.errors import ComponentMissing
from trt_workbench.system.workspace import models_dir

EMBEDDED_MODELS = {"shapes-yolov10": Path("shapes-yolov10", "shapes-yolov10.onnx"), "tiny-lm": Path("tiny-lm")}


def embedded_path(name: str) -> Path:
    """Return the file of an embedded model, or the folder of a language model.

    Raises:
        ComponentMissing: the repository or the file is absent.
    """
    path = models_dir() / EMBEDDED_MODELS[name]
    if not path.exists():
        raise ComponentMissing(f"The embedded model {name} is missing; restore it with git: {path}")
    return path
