"""The models that come with the workbench."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.core.workspace import models_dir

DETECTOR, LLM, ENCODER = "shapes-yolov10", "tiny-lm", "streaming-encoder"
EMBEDDED_MODELS = {
    DETECTOR: Path(DETECTOR, f"{DETECTOR}.onnx"),
    LLM: Path(LLM),
    ENCODER: Path(ENCODER, f"{ENCODER}.onnx"),
}
"""By the names that bench configurations use: a file, or the folder of a language model."""


def embedded_model(name: str = DETECTOR) -> Path:
    """Return the file of an embedded model, or the folder of a language model.

    Raises:
        ComponentMissing: the model is absent.
    """
    return _existing(EMBEDDED_MODELS[name], f"The embedded model {name}", "a model")


def embedded_text() -> Path:
    """Return the file of the text that the embedded language model has never seen. Raises as `embedded_model`."""
    return _existing(EMBEDDED_MODELS[LLM] / "held-out.txt", "The embedded text", "--text")


def embedded_contract() -> Path:
    """Return the contract of the embedded streaming encoder. Raises as `embedded_model`."""
    return _existing(Path(ENCODER, "contract.json"), "The contract of the embedded encoder", "--contract")


def _existing(part: Path, what: str, instead: str) -> Path:
    path = models_dir() / part
    if not (path / "model.safetensors" if path.is_dir() else path).is_file():
        raise ComponentMissing(
            f"{what} is missing; install trt-workbench again, or restore it with git, or pass {instead}: {path}"
        )
    return path
