"""DETR with boxes and class logits as two outputs: RF-DETR, LW-DETR, and those that transformers exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import Head, ImageTransform, Place
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.extras import Extra
from trt_workbench.vision.families.base import (
    DecodeSettings,
    Detections,
    DetectorFacts,
    DoesNotFit,
    Stretched,
    not_finite,
)
from trt_workbench.vision.preparation import FINDS_OUT, SAID

_BOXES, _LOGITS = ("pred_boxes", "dets"), ("logits", "pred_logits", "labels")
# A head with softmax has "no object" last: most queries are of it, by far more than of any class (a factor of 20).
_BY_FAR, _MOST = 3.0, 0.5
# The slots that are classes, by where the background is.
_CLASSES = {"first": slice(1, None), "last": slice(None, -1)}


def pair_of(outputs: Sequence[TensorSpec]) -> tuple[TensorSpec, TensorSpec] | None:
    """Return the outputs with boxes and with logits by the names that exporters give them; None if one is absent."""
    boxes, logits = ([one for one in outputs if one.name in known] for known in (_BOXES, _LOGITS))
    return (boxes[0], logits[0]) if boxes and logits else None


@dataclass(frozen=True)
class DetrLogits(Stretched):
    """Boxes as centre and size in shares of the image, and a logit for each query and class; no suppression.

    A score is the sigmoid of a logit. The best pairs of query and class count, as many as there are queries, so that a
    query may give several classes. The image is stretched. Whether pixels are normalised with ImageNet's mean is in
    the checkpoint's configuration, not in the file; nor is whether a slot of the logits is the background, which is
    left out before the pairs are chosen: RF-DETR's fine-tunes have it last, its COCO checkpoints have none.

    Source: `post_process_object_detection` of transformers' image processors for RT-DETR (v1, v2), D-FINE, DEIMv2,
    LW-DETR, RF-DETR and Deformable DETR, which do not clip boxes; `PostProcess` of RF-DETR's own project, which does.

    Attributes:
        logits: the output tensor that holds the logits.
    """

    name: ClassVar[str] = "detr-logits"
    default_iou: ClassVar[float | None] = None
    shape_text: ClassVar[str] = "boxes [N, Q, 4] (centre x, centre y, width, height as fractions) and logits [N, Q, C]"

    has_background: ClassVar[bool] = True

    logits: TensorSpec

    @classmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for the output with the boxes, or raise DoesNotFit."""
        pair = pair_of(facts.outputs)
        if pair is None:
            raise DoesNotFit(f"no outputs are named {' or '.join(_BOXES)} and {' or '.join(_LOGITS)}")
        boxes, logits = pair
        if output.name != boxes.name:
            raise DoesNotFit(f"its boxes are read from {boxes.name}")
        if not logits.dtype.startswith("float"):
            raise DoesNotFit(f"{logits.name} holds {logits.dtype}, not logits")
        if why := _why_not(boxes.shape, logits.shape):
            raise DoesNotFit(why)
        named = facts.named
        slots, background = logits.shape[2], facts.said.background
        count = slots and slots - (background in _CLASSES)
        if count == 0:
            raise DoesNotFit(f"{logits.name} has no classes but the background")
        # one slot more than there are names may be the background, unless the user says that there is none
        if named and count and named not in (count, None if background else count - 1):
            raise DoesNotFit(f"{logits.name} has {counted(count, 'class', 'classes')}, but the metadata names {named}")
        return cls(boxes, count or named, facts, logits)

    @property
    def clips_boxes(self) -> bool:
        """Whether boxes are confined to the image: with the names that RF-DETR's own exporter gives."""
        return self.output.name == "dets"

    def preparation(self) -> ImageTransform:
        """Return how images become the input, as `Family.preparation`.

        Raises:
            UsageProblem: one slot of the logits has no name, and nobody says which one it is.
        """
        if self.facts.said.background is None and self.names and len(self.names) != self.class_count:
            raise UsageProblem(
                f"Output {self.logits.name} has {self.class_count} slots and the metadata names {len(self.names)} "
                "classes. Pass --background last if the last slot is the background, as in RF-DETR's fine-tunes, or "
                f"--background first. {FINDS_OUT}"
            )
        return super().preparation()

    def left_open(self) -> dict[str, tuple[str, ...]]:
        """Return what nobody says, as `Family.left_open`."""
        found = super().left_open()
        return found if self.facts.said.background else {**found, "background": SAID["background"]}

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Turn boxes and logits of one run into the boxes of each image, as `Family.decode`."""
        boxes, logits = self.read(outputs, self.output.name, self.logits.name)
        if why := _why_not(boxes.shape, logits.shape):
            raise UsageProblem(f"The model's outputs do not fit family {self.name}: {why}.")
        if not np.isfinite(logits).all():
            raise not_finite(self.logits)
        logits = logits[..., _CLASSES.get(self.facts.said.background or "", slice(None))]
        rows = np.concatenate([boxes, logits], axis=2, dtype=np.float32)
        return super().decode({self.output.name: rows}, settings)

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:
        """Return what is done with outputs of these shapes, as `Family.head`."""
        _, queries, slots = shapes[self.logits.name]
        background = self.facts.said.background
        lacks_one = background in _CLASSES
        if self.task != "boxes" or _why_not(shapes[self.output.name], shapes[self.logits.name]):
            return None
        return Head(
            *self.input_size,
            items=queries,
            classes=slots - lacks_one,
            kind="pairs",
            boxes=Place(self.output.name, 0, 4),
            scores=Place(self.logits.name, int(background == "first"), slots),
            background=Place(self.logits.name, 0 if background == "first" else slots - 1, slots) if lacks_one else None,
            form="shares",
            logits=True,
            conf=settings.conf,
            most=queries,
            max_dets=settings.max_dets,
        )

    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        queries, classes = len(image), image.shape[1] - 4
        with np.errstate(over="ignore"):  # of a logit far below zero, whose sigmoid is 0
            scores = np.reciprocal(1 + np.exp(-image[:, 4:]), dtype=np.float32)
        known = self.facts.said.background == "last"  # and left out: what is last here is a class
        if classes > 1 and not known and _of_the_last(image[:, 4:]) > _MOST * queries:
            raise UsageProblem(
                f'Most queries of output {self.logits} have the last class, which is "no object" in a DETR with '
                f"softmax, such as the original DETR and YOLOS; family {self.name} uses sigmoids."
            )
        pairs = scores.ravel()
        best = (-pairs).argsort(kind="stable")[:queries]
        best = best[pairs[best] > conf]
        chosen = best // classes
        return Detections(self.corners_of_shares(image[chosen, :4]), pairs[best], best % classes, self._extra(chosen))

    def _extra(self, queries: NDArray[np.intp]) -> Extra | None:  # noqa: ARG002 - for those that override it
        """Return what is added to the boxes of these queries."""
        return None


def _of_the_last(logits: NDArray[np.float32]) -> int:
    """Return how many queries are surely of the last class only."""
    last = logits[:, -1]
    return int(((last > 0) & (last > logits[:, :-1].max(axis=1) + _BY_FAR)).sum())


def _why_not(boxes: Sequence[int | None], logits: Sequence[int | None]) -> str:
    """Say why shapes, of the model or of arrays, are not those of boxes and logits; "" if they can be."""
    if len(boxes) != 3 or len(logits) != 3:
        return f"shapes {_sizes(boxes)} and {_sizes(logits)} are not {DetrLogits.shape_text}"
    if boxes[2] not in (4, None):
        swapped = " (the names look swapped)" if logits[2] == 4 else ""
        return f"a box has {boxes[2]} values, not centre x, centre y, width and height{swapped}"
    if logits[2] == 0:
        return "there are no classes"
    for what, one, other in zip(("images", "queries"), boxes, logits, strict=False):
        if None not in (one, other) and one != other:
            return f"boxes have {one} {what} and logits {other}"
    return ""


def _sizes(shape: Sequence[int | None]) -> str:
    return str(["?" if size is None else size for size in shape]).replace("'", "")
