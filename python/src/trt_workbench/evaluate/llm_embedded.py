"""The language model and text that eval-llm uses when it is given none."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.errors import ComponentMissing
from trt_workbench.system.workspace import models_dir

_FOLDER = "tiny-lm"


def embedded_llm() -> Path:
    """Return the folder of the embedded language model.

    Raises:
        ComponentMissing: the repository or the model is absent.
    """
    return _existing("model.safetensors", "the embedded language model", "a model").parent


def embedded_text() -> Path:
    """Return the file of the text that the embedded model has never seen.

    Raises:
        ComponentMissing: the repository or the text is absent.
    """
    return _existing("held-out.txt", "the embedded text", "--text")


def _existing(name: str, what: str, instead: str) -> Path:
    path = models_dir() / _FOLDER / name
    if not path.is_file():
        raise ComponentMissing(f"{what.capitalize()} is missing; restore it with git, or pass {instead}: {path}")
    return path
