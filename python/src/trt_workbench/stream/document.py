"""What an eval-stream run writes; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from trt_workbench.core.artefacts import Status
from trt_workbench.core.documents import Strict
from trt_workbench.core.statistics.summary import Summary
from trt_workbench.core.verification import Mark
from trt_workbench.report.verdict import Reach
from trt_workbench.stream.gate_result import GateResult
from trt_workbench.stream.paced_document import Paced

PARTS = ("feed", "inference", "state", "total")
"""What is timed of a chunk: cutting and converting its inputs, the session's call, handling its state, all of it."""


class Drift(Strict):
    """Growth of the error as chunk ** exponent, with its confidence interval.

    Attributes:
        from_chunk: first chunk of the fit.
        points: it is made on.
        last_quarter_ratio: median error of the last quarter of the chunks in relation to the quarter before.
    """

    exponent: float
    low: float
    high: float
    confidence: float
    from_chunk: NonNegativeInt
    points: NonNegativeInt
    last_quarter_ratio: NonNegativeFloat


class TensorSummary(Strict):
    """One output over all chunks; None where a figure is not finite, or the chunks are too few to claim `abs_p95`."""

    kind: Literal["float", "integer"]
    role: Literal["output", "state"]
    abs_max: NonNegativeFloat | None
    abs_p95: NonNegativeFloat | None
    abs_mean: NonNegativeFloat | None
    rel_l2_p50: NonNegativeFloat | None
    rel_l2_max: NonNegativeFloat | None
    rel_l2_max_chunk: NonNegativeInt
    cosine_min: float
    unequal_chunks: NonNegativeInt
    not_finite_chunks: NonNegativeInt


class LaneMetrics(Strict):
    """One precision in one mode, or one planted fault.

    Attributes:
        judged_as: precision whose limits held, read from what ran.
        rel_l2_p50: median over chunks of the largest relative L2 of a chunk's tensors.
        rel_l2_max: the largest of all.
        head_agreement: share of rows with a clear answer in which a head's largest entry is the reference's.
        latency_ms: by part; empty where what computes is simulated, as `first_call_ms` is None.
        bit_equal: whether a lane with its state on the device equals the closed loop through the host.
    """

    name: str
    precision: str
    mode: str
    judged_as: str
    precision_ran: dict[str, Any] | None = None
    provenance: dict[str, Any] = {}
    passed: bool
    rel_l2_p50: NonNegativeFloat | None
    rel_l2_max: NonNegativeFloat | None
    head_agreement: dict[str, NonNegativeFloat] = {}
    drift: Drift | None = None
    gates: list[GateResult]
    tensors: dict[str, TensorSummary]
    latency_ms: dict[str, Summary]
    first_call_ms: NonNegativeFloat | None
    bit_equal: bool | None = None


class FaultMetrics(Strict):
    """A fault that was planted.

    Attributes:
        reason: why it could not be, empty where it was.
        caught_by: gates that failed.
    """

    fault: str
    text: str
    reason: str = ""
    caught_by: list[str] = []
    lane: LaneMetrics | None = None


class Faults(Strict):
    """The self-test; `healthy` is the lane without a fault on the same stream."""

    input: dict[str, Any]
    healthy: LaneMetrics
    planted: list[FaultMetrics]
    missed: list[str]


class Resident(Strict):
    """Memory of the process along the stream, by Theil and Sen's slope after the first tenth of the chunks."""

    first_bytes: NonNegativeInt
    last_bytes: NonNegativeInt
    bytes_per_chunk: float
    low: float
    high: float
    samples: NonNegativeInt


class StreamMetrics(Strict):
    """metrics.json."""

    schema_version: Literal[1] = 1
    status: Status
    passed: bool
    compared_with_itself: bool = False
    failures: list[str]
    notes: list[str] = []
    model: dict[str, Any]
    contract: dict[str, Any]
    backend: str
    backend_requested: str
    reference: dict[str, Any]
    input: dict[str, Any]
    chunks: NonNegativeInt
    stream_seconds: NonNegativeFloat | None
    hop_seconds: NonNegativeFloat | None
    memory_chunks: NonNegativeInt | None
    gate_set: str
    settings: dict[str, Any]
    lanes: list[LaneMetrics]
    closed_over_functional: dict[str, NonNegativeFloat]
    faults: Faults | None = None
    resident: Resident | None = None
    streams: list[Paced] = []
    transcription: dict[str, Any] | None = None
    verification: list[Mark] = []
    shards: dict[str, Any] | None = None

    @property
    def reach(self) -> Reach:
        """What of the lanes ran and could have failed: the same model on the same runtime has nothing to fail by."""
        count = len(self.lanes)
        return Reach(count, count, 0 if self.compared_with_itself else count, len(self.failures))


class TensorRecord(Strict):
    """A tensor of a chunk; None where it is not finite."""

    abs_max: NonNegativeFloat | None
    rel_l2: NonNegativeFloat | None
    cosine: float
    equal: bool
    finite: bool


class ChunkRecord(Strict):
    """A line of records.jsonl: a chunk in a lane."""

    schema_version: Literal[1] = 1
    lane: str
    chunk: NonNegativeInt
    tensors: dict[str, TensorRecord]
    latency_ms: dict[str, NonNegativeFloat]
