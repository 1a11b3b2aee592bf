"""What a predict run writes; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import FiniteFloat, NonNegativeInt
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import Status
from trt_workbench.core.documents import having
from trt_workbench.core.statistics.summary import Summary
from trt_workbench.core.verification import Mark


class DetectionRecord(TypedDict):
    """A line of detections.jsonl: one object."""

    schema_version: Literal[1]
    image: str
    frame: NonNegativeInt | None
    box: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    score: FiniteFloat
    class_id: NonNegativeInt
    class_name: str


class Prediction(TypedDict):
    """predict.json."""

    schema_version: Literal[1]
    status: Status
    model: Annotated[dict[str, Any], having("path", "sha256", "family", "class_count")]
    backend: str
    backend_requested: str
    provenance: dict[str, Any]
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
