"""What an eval-coco run writes, as far as its report reads it; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, get_type_hints

from pydantic import ConfigDict, FiniteFloat, NonNegativeInt, with_config
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import Status
from trt_workbench.core.documents import having
from trt_workbench.core.statistics.summary import Summary, claimed
from trt_workbench.core.verification import Mark
from trt_workbench.report.tables import EVERYWHERE, ROOMY, Column, Table


class RunLengths(TypedDict):
    """A mask: height and width of its image, and its compressed run lengths as pycocotools writes them."""

    size: tuple[NonNegativeInt, NonNegativeInt]
    counts: str


class DetectionRecord(TypedDict):
    """A line of detections.jsonl: one object."""

    schema_version: Literal[1]
    image: str
    frame: NonNegativeInt | None
    box: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    score: FiniteFloat
    class_id: NonNegativeInt
    class_name: str
    segmentation: NotRequired[RunLengths | list[list[FiniteFloat]]]
    rbox: NotRequired[list[FiniteFloat]]
    keypoints: NotRequired[list[FiniteFloat]]


class _Ran(TypedDict):
    """Which model ran, and what executed it."""

    schema_version: Literal[1]
    status: Status
    model: Annotated[dict[str, Any], having("path", "sha256", "family", "class_count")]
    backend: str
    backend_requested: str
    provenance: dict[str, Any]


class Prediction(_Ran):
    """predict.json."""

    precision_ran: dict[str, Any] | None
    verification: Mark | None
    settings: dict[str, Any]
    sources: list[str]
    images: NonNegativeInt
    images_requested: NonNegativeInt
    images_without: NonNegativeInt
    detections: NonNegativeInt
    by_class: dict[str, NonNegativeInt]
    latency_ms: Annotated[dict[str, Summary], having("detect")] | None
    notes: list[str]


STAGES: Final = ("load", "preprocess", "inference", "postprocess")
"""What is timed of an image, in this order."""
LEAST_ANNOTATIONS: Final = 20
"""Of a class that is called the best or the weakest: with fewer, one object more or less moves its AP by tenths."""
Figure = FiniteFloat | None


class Figures(TypedDict):
    """pycocotools' twelve figures in its order, with what each one means; None where there is nothing to find."""

    AP: Annotated[Figure, "average precision, mean over IoU 0.50 to 0.95"]
    AP50: Annotated[Figure, "average precision at IoU 0.50"]
    AP75: Annotated[Figure, "average precision at IoU 0.75"]
    AP_small: Annotated[Figure, "AP of objects below 32² pixels"]
    AP_medium: Annotated[Figure, "AP of objects from 32² to 96² pixels"]
    AP_large: Annotated[Figure, "AP of objects above 96² pixels"]
    AR_1: Annotated[Figure, "average recall with 1 detection per image"]
    AR_10: Annotated[Figure, "average recall with 10 detections per image"]
    AR_100: Annotated[Figure, "average recall with 100 detections per image"]
    AR_small: Annotated[Figure, "AR_100 of objects below 32² pixels"]
    AR_medium: Annotated[Figure, "AR_100 of objects from 32² to 96² pixels"]
    AR_large: Annotated[Figure, "AR_100 of objects above 96² pixels"]


_HINTS = get_type_hints(Figures, include_extras=True)
FIGURES: Final[dict[str, str]] = {name: _HINTS[name].__metadata__[0] for name in _HINTS}
"""Their meanings by name."""


def _intervals(figures: Iterable[str]) -> Any:
    """Return the 95 % intervals of figures over resamples of the images; absent in runs of earlier releases."""
    return TypedDict("Intervals", {f"{name}_ci95": Ends for name in figures}, total=False)  # type: ignore[operator]


_MORE = with_config(ConfigDict(extra="allow"))
Ends = tuple[FiniteFloat, FiniteFloat] | None


class AtThreshold(TypedDict, total=False):
    """Figures at the score that a detector is shipped with, IoU 0.50; absent in runs of earlier releases."""

    f1: Annotated[Figure, "harmonic mean of precision and recall"]
    precision: Annotated[Figure, "share of the detections that are right"]
    recall: Annotated[Figure, "share of the objects that are found"]
    best_f1: Annotated[Figure, "largest F1 of any threshold"]
    best_f1_threshold: Annotated[Figure, "the highest threshold with it"]
    ece: Annotated[Figure, "calibration error: mean difference between a score and the share that is right"]


OPERATING: Final[dict[str, str]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(AtThreshold, include_extras=True).items()
}
"""Their meanings by name."""


@_MORE
class ClassScores(AtThreshold, _intervals(OPERATING)):  # type: ignore[misc]
    """A row of `per_class`; tasks add figures of their own."""

    category_id: int
    name: str
    AP: Figure
    AP_ci95: NotRequired[Ends]
    AP50: Figure
    ground_truths: NonNegativeInt
    detections: NonNegativeInt


def figures_of(metrics: Mapping[str, Any], meanings: Mapping[str, str], title: str = "") -> Table:
    """Return figures with their intervals and meanings."""
    columns = (
        Column("metric", "0"),
        Column("value", lambda row: metrics.get(row[0]), 4),
        Column("95 % interval", lambda row: metrics.get(f"{row[0]}_ci95"), 4),
        Column("meaning", "1", places=ROOMY),
    )
    return Table(columns, meanings.items(), title)


# Percentiles of few samples cannot be claimed.
_COLUMNS = (("mean", EVERYWHERE), ("p50", EVERYWHERE), ("p90", EVERYWHERE), ("p95", ROOMY), ("p99", EVERYWHERE))
TIMES = (
    Column("stage", "0"),
    *(
        Column(name, lambda row, name=name: claimed(row[1], name), 2, better="lower", places=places)  # type: ignore[misc]
        for name, places in (*_COLUMNS, ("min", ROOMY), ("max", EVERYWHERE))
    ),
)


class Fault(TypedDict):
    """What is wrong with annotations: how many have it, and those of the image that has most."""

    fault: str
    count: NonNegativeInt
    image_id: int
    boxes: list[tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]]


@_MORE
class CocoMetrics(_Ran, Figures, AtThreshold, _intervals([*FIGURES, *OPERATING])):  # type: ignore[misc]
    """metrics.json; tasks add figures of their own, with intervals."""

    precision_ran: NotRequired[dict[str, Any] | None]
    verification: NotRequired[Mark | None]
    settings: Annotated[dict[str, Any], having("batch", "workers", "concurrency", "seed")]
    probe: NotRequired[Annotated[dict[str, Any], having("images", "chosen", "ways")] | None]
    images: NonNegativeInt
    images_per_s: FiniteFloat | None
    latency_ms: Annotated[dict[str, Summary], having(*STAGES, "total")] | None
    resamples: NotRequired[NonNegativeInt]
    per_class: list[ClassScores]
    dataset: Annotated[dict[str, Any], having("images", "annotations", "annotations_sha256", "missing")]
    faults: NotRequired[list[Fault]]


class ImageRecord(TypedDict):
    """A line of records.jsonl."""

    schema_version: Literal[1]
    image_id: int
    file_name: str
    load_ms: FiniteFloat
    preprocess_ms: FiniteFloat
    inference_ms: FiniteFloat
    postprocess_ms: FiniteFloat
    ground_truths: NonNegativeInt
    true_positives: NonNegativeInt
    false_positives: NonNegativeInt
    false_negatives: NonNegativeInt
    errors: NotRequired[dict[str, NonNegativeInt]]
    wrong: NotRequired[list[NonNegativeInt]]  # as of `Confusion`, as `missed` is
    missed: NotRequired[list[NonNegativeInt]]


def f1(record: ImageRecord) -> float:
    """Return the harmonic mean of precision and recall on one image; 1 where there is nothing to find nor found."""
    wrong = record["false_positives"] + record["false_negatives"]
    right = 2 * record["true_positives"]
    return right / (right + wrong) if right + wrong else 1.0


class ClassCurve(TypedDict):
    """Precision of a class at IoU 0.50 by recall; None for one without annotations."""

    name: str
    precision_50: list[FiniteFloat] | None


class ByThreshold(TypedDict):
    """Figures of all classes at IoU 0.50 by threshold; None where there is nothing to divide by."""

    threshold: list[FiniteFloat]
    f1: list[Figure]
    precision: list[Figure]
    recall: list[Figure]


class Reliability(TypedDict):
    """Bins of detections by score: edges of the bins, detections of each, their mean score and share that is right."""

    edges: list[FiniteFloat]
    detections: list[NonNegativeInt]
    score: list[Figure]
    precision: list[Figure]


class Curves(TypedDict):
    """curves.json: precision by recall, by IoU in the mean of all classes; what is not required, earlier runs lack."""

    schema_version: Literal[1]
    of: NotRequired[str]
    recall: list[FiniteFloat]
    mean: dict[str, list[FiniteFloat]]
    classes: list[ClassCurve]
    by_threshold: NotRequired[ByThreshold]
    reliability: NotRequired[Reliability]


class ConfusionMatrix(TypedDict):
    """confusion.json: rows are ground truth, columns predictions, the background last."""

    schema_version: Literal[1]
    score_threshold: FiniteFloat
    iou_threshold: FiniteFloat
    labels: list[str]
    matrix: list[list[NonNegativeInt]]
    errors: NotRequired[dict[str, NonNegativeInt]]


@_MORE
class Box(TypedDict):
    """An entry of predictions.json, or an annotation of the dataset, which has no score; tasks add keys."""

    image_id: int
    category_id: int
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    iscrowd: NotRequired[int]
    score: NotRequired[FiniteFloat]
