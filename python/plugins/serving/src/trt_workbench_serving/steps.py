"""What `--python` has executed inside the server: a model on ONNX Runtime.

It takes the tensors of several requests, as Triton's Python backend hands them over, and returns those of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench import __version__
from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import ComponentMissing

Arrays = dict[str, NDArray[Any]]


def make_step(parameters: dict[str, str], folder: str) -> OnnxModel:
    """Return the model from the parameters of its configuration.

    Args:
        parameters: `trtw.version` among them.
        folder: of its file.

    Raises:
        ComponentMissing: the package in the server is another version than the one that wrote the repository.
        UsageProblem: the model cannot be used.
    """
    written = parameters["trtw.version"]
    if written != __version__:
        raise ComponentMissing(
            f"This step was written by trt-workbench-serving {written}, and the server has {__version__}: install "
            f"{written} in its Python, or export again."
        )
    return OnnxModel(Path(folder) / "model.onnx")


class OnnxModel:
    """A model on `ort-cpu`; the requests that come together are one batch."""

    def __init__(self, model: Path) -> None:
        """Load it."""
        self._session: Session = get_backend("ort-cpu").load(model, SessionOptions())

    def __call__(self, requests: Sequence[Arrays]) -> list[Arrays]:
        """Run all requests at once where their shapes allow it."""
        shapes = {tuple((name, array.shape[1:]) for name, array in sorted(one.items())) for one in requests}
        if len(requests) == 1 or len(shapes) > 1 or any(not array.ndim for one in requests for array in one.values()):
            return [self._session.run(one) for one in requests]
        found = self._session.run({name: np.concatenate([one[name] for one in requests]) for name in requests[0]})
        rows = [len(next(iter(one.values()))) for one in requests]
        ends = np.cumsum(rows)
        return [
            {name: array[end - count : end] for name, array in found.items()}
            for count, end in zip(rows, ends, strict=True)
        ]
