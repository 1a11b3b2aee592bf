"""What the steps of an ensemble execute inside the server: letterbox, boxes, and a model on ONNX Runtime.

Each takes the tensors of several requests, as Triton's Python backend hands them over, and returns those of each. The
code is that of `eval-coco`, so that an ensemble finds what the model's file finds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench import __version__
from trt_workbench.backends.base import Session, SessionOptions, TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.vision import DecodeSettings, decode_image, find_geometry, preprocess, recognise

Arrays = dict[str, NDArray[Any]]
Step = Callable[[Sequence[Arrays]], list[Arrays]]

IMAGE, SIZE = "IMAGE", "SIZE"
BOXES, SCORES, LABELS, COUNT = "BOXES", "SCORES", "LABELS", "COUNT"


def make_step(parameters: dict[str, str], folder: str) -> Step:
    """Return a step from the parameters of its configuration.

    Args:
        parameters: `trtw.version`, `trtw.step`, and `trtw.document` with what the step needs.
        folder: of the step's files.

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
    document = json.loads(parameters.get("trtw.document") or "{}")
    kinds: dict[str, Callable[[], Step]] = {
        "letterbox": lambda: LetterboxStep(document),
        "boxes": lambda: BoxesStep(document),
        "onnx": lambda: OnnxModel(Path(folder) / "model.onnx"),
    }
    return kinds[parameters["trtw.step"]]()


def detector_document(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    metadata: dict[str, str],
    said: Preparation,
    **more: Any,
) -> str:
    """Return what `LetterboxStep` and `BoxesStep` need of a detector, as JSON."""
    tensors = {name: [vars(spec) for spec in specs] for name, specs in (("inputs", inputs), ("outputs", outputs))}
    return json.dumps({**tensors, "metadata": metadata, "said": vars(said), **more}, sort_keys=True)


def _family(document: dict[str, Any]) -> Any:
    inputs, outputs = (
        tuple(TensorSpec(**{**one, "shape": tuple(one["shape"])}) for one in document[name])
        for name in ("inputs", "outputs")
    )
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["said"].items()
    }
    return recognise(inputs, outputs, document["metadata"], Preparation(**said))


class LetterboxStep:
    """Encoded images [N, 1] to the model's input and the images' sizes [N, 2], height and width."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Take the detector."""
        family = _family(document)
        self._transform, self._name = family.preparation(), document["inputs"][0]["name"]
        self._exif = document["said"]["exif"]

    def __call__(self, requests: Sequence[Arrays]) -> list[Arrays]:
        """Decode and letterbox the images of each request."""
        return [self._one(request[IMAGE]) for request in requests]

    def _one(self, encoded: NDArray[Any]) -> Arrays:
        pixels = [decode_image(bytes(data), self._exif) for data in encoded.reshape(-1)]
        batch = np.empty((len(pixels), *self._transform.shape), self._transform.dtype)
        for image, tensor in zip(pixels, batch, strict=True):
            preprocess(image, self._transform, tensor)
        sizes = np.array([image.shape[:2] for image in pixels], np.int32).reshape(-1, 2)
        return {self._name: batch, SIZE: sizes}


class BoxesStep:
    """The model's outputs and the images' sizes to boxes in pixels of the images, best first, filled up with zeros."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Take the detector and its thresholds."""
        self._family = _family(document)
        self._transform = self._family.preparation()
        self._decoding = DecodeSettings(document["conf"], document["iou"], document["max_dets"])

    def __call__(self, requests: Sequence[Arrays]) -> list[Arrays]:
        """Decode the outputs of each request."""
        return [self._one(request) for request in requests]

    def _one(self, request: Arrays) -> Arrays:
        sizes, most = request[SIZE], self._decoding.max_dets
        found = self._family.decode({name: array for name, array in request.items() if name != SIZE}, self._decoding)
        rows = len(sizes)
        boxes, scores = np.zeros((rows, most, 4), np.float32), np.zeros((rows, most), np.float32)
        labels, counts = np.full((rows, most), -1, np.int64), np.zeros((rows, 1), np.int32)
        for row, (one, (height, width)) in enumerate(zip(found, sizes, strict=True)):
            restored = self._family.restore(one, find_geometry(int(height), int(width), self._transform))
            count = counts[row, 0] = len(restored.scores)
            boxes[row, :count], scores[row, :count] = restored.boxes, restored.scores
            labels[row, :count] = restored.labels
        return {BOXES: boxes, SCORES: scores, LABELS: labels, COUNT: counts}


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
