"""DETR with its post-processing inside, as the projects of RT-DETR, D-FINE and DEIM export it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, Place
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    Stretched,
    row_detections,
    rows_head,
)

_LABELS, _BOXES, _SCORES = "labels", "boxes", "scores"


@dataclass(frozen=True)
class DetrPixels(Stretched):
    """Labels, boxes and scores of the best pairs of query and class; no suppression.

    The model multiplies shares by the sizes that it is given (`orig_target_sizes`, width first). It is given those of
    its input, so that boxes are in its pixels, as those of all families, and mapped back like them.

    Source: `tools/deployment/export_onnx.py` of RT-DETR (v1, v2, v4), D-FINE, DEIM and DEIMv2, and their
    `PostProcessor` in deploy mode, which does not clip boxes.
    """

    name: ClassVar[str] = "detr-pixels"
    default_iou: ClassVar[float | None] = None
    clips_boxes: ClassVar[bool] = False
    shape_text: ClassVar[str] = "labels [N, K] (whole numbers), boxes [N, K, 4] (x1, y1, x2, y2) and scores [N, K]"

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for the output with the boxes, or raise DoesNotFit."""
        known = {one.name: one for one in facts.outputs}
        if facts.sizes is None:
            raise DoesNotFit("no input is named orig_target_sizes")
        if not known.keys() >= {_LABELS, _BOXES, _SCORES} or output.name != _BOXES:
            raise DoesNotFit(f"its outputs must be named {_LABELS}, {_BOXES} and {_SCORES}")
        labels, scores = known[_LABELS], known[_SCORES]
        if not labels.dtype.startswith("int") or not scores.dtype.startswith("float"):
            raise DoesNotFit(f"{_LABELS} holds {labels.dtype} and {_SCORES} {scores.dtype}, not classes and scores")
        if not _fits(labels.shape, output.shape, scores.shape):
            raise DoesNotFit(f"the shapes are not {cls.shape_text}")
        return cls(output, facts.named, facts)

    def constants(self, batch: int) -> dict[str, NDArray[Any]]:
        """Return the sizes of the images: always the input's."""
        assert self.facts.sizes is not None
        height, width = self.facts.input_size
        return {self.facts.sizes.name: np.full((batch, 2), (width, height), self.facts.sizes.dtype)}

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Turn labels, boxes and scores of one run into the boxes of each image, as `Family.decode`."""
        labels, boxes, scores = self.read(outputs, _LABELS, _BOXES, _SCORES)
        if not _fits(labels.shape, boxes.shape, scores.shape):
            shapes = ", ".join(str(list(one.shape)) for one in (labels, boxes, scores))
            raise UsageProblem(f"The model returned shapes {shapes}; {self.name} expects {self.shape_text}.")
        rows = np.concatenate([boxes, scores[..., None], labels[..., None]], axis=2, dtype=np.float32, casting="unsafe")
        return super().decode({_BOXES: rows}, settings)

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`."""
        if not _fits(shapes[_LABELS], shapes[_BOXES], shapes[_SCORES]):
            return None
        rows = rows_head(self, _BOXES, 4, shapes[_BOXES][1], settings)
        return replace(rows, scores=Place(_SCORES), labels=Place(_LABELS))

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        rows, scores, labels = row_detections(self, image, conf)
        return Detections(rows[:, :4], scores, labels)


def _fits(labels: tuple[int | None, ...], boxes: tuple[int | None, ...], scores: tuple[int | None, ...]) -> bool:
    """Whether shapes, of the model or of arrays, can be those of labels, boxes and scores."""
    if (len(labels), len(boxes), len(scores)) != (2, 3, 2) or boxes[2] not in (4, None):
        return False
    return all(len({*sizes} - {None}) <= 1 for sizes in zip(labels, boxes, scores, strict=False))
