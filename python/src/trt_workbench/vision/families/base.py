"""What every detector family has: facts about the model, a default transform, and tensors to boxes."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.images import FoundBoxes, Head, ImageTransform, Place
from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.vision.extras import Extra, TaskName
from trt_workbench.vision.families.nms import class_aware_nms
from trt_workbench.vision.letterbox import Geometry, restore_boxes
from trt_workbench.vision.preparation import FINDS_OUT, SAID, applied

# Three levels; with P6 for large inputs; with P2 for small objects.
_LEVELS = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))


def cell_counts(height: int, width: int) -> dict[int, tuple[int, ...]]:
    """Return the strides that YOLO heads use, by the number of cells they give on an input of this size."""
    counts: dict[int, tuple[int, ...]] = {}
    for strides in _LEVELS:
        counts.setdefault(sum((height // stride) * (width // stride) for stride in strides), strides)
    return counts


@functools.lru_cache(maxsize=8)
def cells(height: int, width: int, strides: tuple[int, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the top-left corner (x, y) of every cell in input pixels, float32 [A, 2], and its stride, float32 [A].

    Levels follow each other from the finest to the coarsest, each row by row. The arrays are shared: read-only.
    """
    corners, sizes = [], []
    for stride in strides:
        y, x = np.mgrid[: height // stride, : width // stride]
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32) * stride)
        sizes.append(np.full(x.size, stride, np.float32))
    result = np.concatenate(corners), np.concatenate(sizes)
    for array in result:
        array.flags.writeable = False
    return result


# Sigmoids stay within 0 and 1; reduced precision may round a little beyond.
_SCORE_SLACK = 1e-3


class Detections(NamedTuple):
    """The boxes of one image, by descending score.

    Attributes:
        boxes: float32 [K, 4], x1, y1, x2, y2 in pixels of the model's input.
        scores: float32 [K].
        labels: int64 [K], indices of classes as the model counts them.
        extra: what the family's task adds to each box; None of boxes alone.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    extra: Extra | None = None

    def take(self, rows: NDArray[np.intp]) -> Detections:
        """Return the boxes at these indices, in their order."""
        arrays = self.boxes.take(rows, axis=0), self.scores.take(rows), self.labels.take(rows)
        return Detections(*arrays, self.extra and self.extra.take(rows))


@dataclass(frozen=True)
class DecodeSettings:
    """What is kept of a model's output.

    The defaults are those of the families' own evaluations: a low threshold, because average precision needs the tail.

    Attributes:
        conf: lowest score.
        iou: overlap above which the lower-scored box of a class is dropped; None for the family's own default.
        max_dets: boxes per image.

    Raises:
        UsageProblem: a value is out of range.
    """

    conf: float = 0.001
    iou: float | None = None
    max_dets: int = 300

    def __post_init__(self) -> None:
        if not 0.0 <= self.conf < 1.0:
            raise UsageProblem(f"The score threshold must be at least 0 and below 1, not {self.conf}.")
        if self.iou is not None and not 0.0 < self.iou <= 1.0:
            raise UsageProblem(f"The IoU threshold must be above 0 and at most 1, not {self.iou}.")
        if self.max_dets < 1:
            raise UsageProblem(f"The maximum of boxes per image must be at least 1, not {self.max_dets}.")


@dataclass(frozen=True)
class DetectorFacts:
    """What a model says of itself, as far as a family needs it.

    Attributes:
        input_size: (height, width) of the input in pixels.
        fixed_size: whether the model takes only that size.
        layout: memory order of the input.
        dtype: dtype of the input.
        names: class names by index, None where the model has none.
        exporter: the metadata's `author` and `description`, lower case.
        head: class of the last layer as Ultralytics writes it, such as "Detect" or "RTDETRDecoder"; None if unknown.
        outputs: of the model, for a family that reads more than one.
        sizes: the second input, of the images' sizes; None where the image is the only one.
        said: how images are prepared, by the user or the metadata.
        end_to_end: whether the rows are boxes that need no suppression, by Ultralytics' `end2end` and `args`; None if
            the metadata does not say.
        forced: the family was named, by the user or by the model's metadata: only what is impossible is refused.
        task: that the metadata names; None if it names none.
        keypoints: how many a model for poses has, and the values of each, 2 or 3 (`kpt_shape`); None if not said.
        crop: the input's share of a classifier's resized image (`crop_pct`); None if not said.
    """

    input_size: tuple[int, int]
    fixed_size: bool
    layout: Literal["nchw", "nhwc"]
    dtype: Literal["float32", "float16", "uint8"]
    names: tuple[str, ...] | None
    exporter: str = ""
    head: str | None = None
    end_to_end: bool | None = None
    forced: bool = False
    outputs: tuple[TensorSpec, ...] = ()
    sizes: TensorSpec | None = None
    said: Preparation = AS_THE_MODEL_SAYS
    task: TaskName | None = None
    keypoints: tuple[int, int] | None = None
    crop: float | None = None

    @property
    def named(self) -> int | None:
        """How many classes have a name; None where the model has no names."""
        return None if self.names is None else len(self.names)

    @property
    def is_rt_detr(self) -> bool:
        """Whether Ultralytics exported an RT-DETR; older exports without `head` name it in their description."""
        if self.head is not None:
            return self.head.startswith("RTDETR")
        return "ultralytics" in self.exporter and any(word in self.exporter for word in ("rtdetr", "rt-detr"))


class DoesNotFit(Exception):
    """An output cannot be of a family; the text says why. An answer, not an error: `recognise` collects them."""


def class_count(values: int | None, before: int, facts: DetectorFacts, what: str, others: str) -> int:
    """Return how many classes `what`, of so many values, has after `before` others, or raise DoesNotFit."""
    named = facts.named
    if values is None and named is None:
        raise DoesNotFit("the shape has no class count, and the model has no class names")
    count = named if values is None else values - before
    if count is None or count < 1:
        raise DoesNotFit(f"{what} leave no class after {others}")
    if named is not None and count != named:
        raise DoesNotFit(f"{what} make {counted(count, 'class', 'classes')}, but the model names {named}")
    return count


def refuse_other_heads(facts: DetectorFacts, *, end_to_end: bool) -> None:
    """Raise DoesNotFit where the metadata says that the model is of another family than this one of YOLO's."""
    if facts.is_rt_detr:
        raise DoesNotFit(f"the metadata says that the model is an RT-DETR (head {facts.head or 'not named'})")
    if facts.end_to_end is not None and facts.end_to_end != end_to_end:
        text = f"the metadata says that the model is {'' if facts.end_to_end else 'not '}end-to-end (`end2end`, `args`)"
        raise DoesNotFit(text)


@dataclass(frozen=True)
class Family(abc.ABC):
    """How one detector's tensors become boxes. Made by `recognise`; immutable, safe to use from several threads.

    Attributes:
        name: the stable name used on the command line and in records.
        task: what it finds.
        reads: how many outputs a model has that is recognised without being named.
        by_shape: whether it is recognised by them alone, where the metadata names no task.
        default_iou: overlap threshold of the family's own evaluation; None where the model needs no suppression.
        one_ratio: whether it maps both axes back by one ratio, although the resized sides are whole pixels.
        asks_normalize: whether only the user or the metadata can say how its pixels are normalised.
        has_background: whether one of its slots of classes may be the background.
        output: the output tensor that holds the boxes.
        class_count: how many classes the model distinguishes, None where neither its shape nor its metadata says so.
        facts: what the model says of itself.
    """

    name: ClassVar[str]
    task: ClassVar[TaskName] = "boxes"
    reads: ClassVar[int] = 1
    by_shape: ClassVar[bool] = True
    default_iou: ClassVar[float | None]
    one_ratio: ClassVar[bool] = False
    asks_normalize: ClassVar[bool] = False
    has_background: ClassVar[bool] = False
    shape_text: ClassVar[str]

    output: TensorSpec
    class_count: int | None
    facts: DetectorFacts

    @classmethod
    @abc.abstractmethod
    def create(cls, output: TensorSpec, facts: DetectorFacts) -> Self:
        """Return the family for this output, or raise DoesNotFit."""

    @property
    @abc.abstractmethod
    def clips_boxes(self) -> bool:
        """Whether the family's own evaluation confines boxes to the image before it scores them."""

    @property
    def input_size(self) -> tuple[int, int]:
        """(height, width) of the model's input in pixels."""
        return self.facts.input_size

    @property
    def names(self) -> tuple[str, ...] | None:
        """Class names by index, None where the model has none."""
        return self.facts.names

    def transform(self, height: int | None = None, width: int | None = None) -> ImageTransform:
        """Return the family's own preprocessing for an input of this size, by default the model's."""
        return ImageTransform(
            height=height or self.facts.input_size[0],
            width=width or self.facts.input_size[1],
            # A model that takes grey levels as integers scales them itself.
            scale=1.0 if self.facts.dtype == "uint8" else 1.0 / 255.0,
            layout=self.facts.layout,
            dtype=self.facts.dtype,
        )

    def preparation(self) -> ImageTransform:
        """Return how images become the input: `transform`, changed as the user and the metadata say.

        Raises:
            UsageProblem: neither says what the family asks for.
        """
        if "normalize" in self.left_open():
            raise UsageProblem(
                f"Family {self.name} takes pixels from 0 to 1, unchanged or normalised with ImageNet's mean and "
                "standard deviation, and this model does not say which. Pass --normalize none or --normalize imagenet, "
                "as in its training, or set `normalize` to none or imagenet in its metadata. "
                f"{FINDS_OUT}"
            )
        return applied(self.facts.said, self.transform())

    def left_open(self) -> dict[str, tuple[str, ...]]:
        """Return the values of settings that neither the user nor the metadata says and no default is certain for."""
        said = self.facts.said
        if not self.asks_normalize or said.normalize or self.facts.dtype == "uint8":
            return {}
        return {name: SAID[name] for name in ("normalize", "channel_order") if getattr(said, name) is None}

    def constants(self, batch: int) -> dict[str, NDArray[Any]]:  # noqa: ARG002 - for those that override it
        """Return the model's inputs other than the images, by name, for a batch of so many; most have none."""
        return {}

    def decode(self, outputs: Mapping[str, NDArray[Any]], settings: DecodeSettings | None = None) -> list[Detections]:
        """Turn the outputs of one run into the boxes of each image of the batch.

        Args:
            outputs: the session's outputs by name; the family's own is of float dtype and rank 3.
            settings: thresholds; by default those of the family's own evaluation.

        Returns:
            For every image at most `max_dets` boxes with a score of at least `conf`.

        Raises:
            UsageProblem: the tensor does not fit the family.
            CheckFailed: the model returned NaN or infinite values.
        """
        settings = settings or DecodeSettings()
        (batch,) = self.read(outputs, self.output.name)
        if batch.ndim != 3:
            raise UsageProblem(
                f"Output {self.output.name} has shape {list(batch.shape)}; {self.name} expects {self.shape_text}."
            )
        batch = batch.astype(np.float32, copy=False)
        return [self._one_image(image, settings) for image in batch]

    def head(self, shapes: Mapping[str, tuple[int, ...]], settings: DecodeSettings) -> Head | None:  # noqa: ARG002
        """Return what `decode` does with outputs of these shapes, for a device; None where only the processor can."""
        return None

    def completed(self, found: Sequence[FoundBoxes]) -> list[Detections]:
        """Return what a device found in each image, as `decode` gives it; with what else `head` names."""
        return [Detections(one.boxes, one.scores, one.labels) for one in found]

    def overlap(self, settings: DecodeSettings) -> float | None:
        """Return the overlap above which the lower-scored box of a class is dropped; None where none is dropped."""
        return None if self.default_iou is None else settings.iou or self.default_iou

    def read(self, outputs: Mapping[str, NDArray[Any]], *names: str) -> list[NDArray[Any]]:
        """Return the outputs of these names. Raises UsageProblem where the model returned others."""
        if missing := sorted({*names} - outputs.keys()):
            raise UsageProblem(
                f"Family {self.name} reads output {missing[0]}, but the model returned {sorted(outputs)}."
            )
        return [outputs[name] for name in names]

    def corners_of_shares(self, boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return corners in pixels of the model's input of boxes [K, 4] as centre and size in shares of it."""
        height, width = self.facts.input_size
        with np.errstate(over="ignore"):  # what is not finite is reported
            return corners(*(boxes * np.array([width, height] * 2, np.float32)).T)

    def restore(self, found: Detections, geometry: Geometry) -> Detections:
        """Map what was found from the model's input to pixels of the image, as the family's own evaluation does."""
        boxes = restore_boxes(found.boxes, geometry, clip=self.clips_boxes, one_ratio=self.one_ratio)
        extra = found.extra and found.extra.restore(found.boxes, geometry)
        return Detections(boxes, found.scores, found.labels, extra)  # `_replace` takes three times as long

    def _one_image(self, image: NDArray[np.float32], settings: DecodeSettings) -> Detections:
        found = self._candidates(image, settings.conf)
        if not np.isfinite(found.boxes).all():
            raise not_finite(self.output)
        if (iou := self.overlap(settings)) is None:
            keep = (-found.scores).argsort(kind="stable")[: settings.max_dets]
        else:
            keep = self._survivors(found, iou, settings.max_dets)
        return found.take(keep)

    def _survivors(self, found: Detections, iou: float, limit: int) -> NDArray[np.intp]:
        """Return the indices of the boxes that no better one of their class overlaps, by descending score."""
        return class_aware_nms(found.boxes, found.scores, found.labels, iou, limit)

    @abc.abstractmethod
    def _candidates(self, image: NDArray[np.float32], conf: float) -> Detections:
        """Return every box of one image with a score of at least `conf`, in any order, before suppression."""

    def check_scores(self, scores: NDArray[np.float32], what: str = "scores") -> None:
        """Refuse scores that are NaN, infinite or no probabilities. `max` and `min` both hand NaN on."""
        if not scores.size:
            return
        low, high = float(scores.min()), float(scores.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise not_finite(self.output)
        if low < -_SCORE_SLACK or high > 1.0 + _SCORE_SLACK:
            raise UsageProblem(
                f"The {what} in output {self.output} range from {low:.3g} to {high:.3g}, but family {self.name} "
                "expects probabilities from 0 to 1. Export the model with its sigmoid."
            )


@dataclass(frozen=True)
class Stretched(Family):
    """A family whose images are stretched to the input, and whose file does not say how pixels are normalised."""

    asks_normalize: ClassVar[bool] = True

    def transform(self, height: int | None = None, width: int | None = None) -> ImageTransform:
        """Return its preprocessing: stretched to the input, without padding."""
        return dataclasses.replace(super().transform(height, width), placement="stretch")


def not_finite(output: TensorSpec) -> NotFinite:
    """Return the error of an output that holds NaN or infinite values."""
    return NotFinite(f"The model returned NaN or infinite values in output {output}")


def corners(centre_x: Any, centre_y: Any, width: Any, height: Any) -> NDArray[np.float32]:
    """Stack centres and sizes, float32 [K] each, into xyxy boxes float32 [K, 4]."""
    boxes = np.empty((len(width), 4), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is reported
        boxes[:, 0], boxes[:, 1] = centre_x - width / 2, centre_y - height / 2
        boxes[:, 2], boxes[:, 3] = centre_x + width / 2, centre_y + height / 2
    return boxes


def row_detections(
    family: Family, image: NDArray[np.float32], conf: float, more: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Return the rows [M, 6 + more] of one image with a score above `conf`, their scores [M] and classes [M].

    Args:
        family: for its class count, and for messages.
        image: float32 [K, 6 + more].
        conf: threshold.
        more: values of a row after score and class.

    Raises:
        UsageProblem: the rows are of another length, or the fifth and sixth values are no scores and classes.
        CheckFailed: a score is NaN or infinite.
    """
    name, output = family.name, family.output
    if image.shape[1] != 6 + more:
        raise UsageProblem(
            f"Output {output.name} has rows of {image.shape[1]} values; {name} expects {family.shape_text}."
        )
    family.check_scores(image[:, 4])
    rows = image.compress(image[:, 4] > conf, axis=0)
    classes = rows[:, 5]
    with np.errstate(invalid="ignore"):  # of NaN, which is no class
        labels = classes.astype(np.int64)
    if not (labels == classes).all() or labels.min(initial=0) < 0:
        raise UsageProblem(
            f"The sixth column of output {output} does not hold class indices (it has "
            f"{classes[labels != classes][:1]}); family {name} expects {family.shape_text}."
        )
    if family.class_count is not None and labels.max(initial=0) >= family.class_count:
        raise UsageProblem(
            f"Output {output} holds class {labels.max()}, but the model has "
            f"{counted(family.class_count, 'class', 'classes')}."
        )
    return rows, rows[:, 4], labels


def rows_head(family: Family, name: str, columns: int, rows: int, settings: DecodeSettings) -> Head:
    """Return the head of rows that begin with a box, its score and its class."""
    return Head(
        *family.input_size,
        items=rows,
        classes=family.class_count or 0,
        kind="rows",
        boxes=Place(name, 0, columns),
        scores=Place(name, 4, columns),
        labels=Place(name, 5, columns),
        conf=settings.conf,
        max_dets=settings.max_dets,
    )
