"""What an eval-stream run writes; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from trt_workbench.core.artefacts import Status
from trt_workbench.core.counts import decimals
from trt_workbench.core.documents import Strict, without
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.summary import Summary, claimed
from trt_workbench.core.verification import Mark
from trt_workbench.model.precision import precision_label
from trt_workbench.report.tables import NONE, ROOMY, Cell, Column, Table, at, small, verdict
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


def gates_of(found: Any) -> list[Cell]:
    """Return what the gates of a lane, or of a side of `eval-speech`, say: each that did not pass with its reason."""
    gates = [(at(gate, "gate"), at(gate, "verdict"), at(gate, "text")) for gate in at(found, "gates")]
    told = [Cell(f"{word}: {name}", soft=text, verdict=word) for name, word, text in gates if word != "passed"]
    return told or [Cell("passed", verdict="passed") if gates else Cell(NONE)]


def _heads(lane: LaneMetrics | None) -> str | None:
    return ", ".join(f"{part:.4f}" for part in lane.head_agreement.values()) or None if lane else None


LANES = (
    Column("lane", "name"),
    Column("computes in", lambda lane: precision_label({"precision_ran": lane.precision_ran}, "text"), places=ROOMY),
    Column("computes in", lambda lane: precision_label({"precision_ran": lane.precision_ran}), places=("terminal",)),
    Column("limits of", "judged_as", places=ROOMY),
    Column("relative L2 p50", "rel_l2_p50", form=small, better="lower"),
    Column("max", "rel_l2_max", form=small, better="lower"),
    Column(
        "growth exponent",
        "drift.exponent",
        form=partial(decimals, digits=2, plus="+"),
        interval=lambda lane: lane.drift and (lane.drift.low, lane.drift.high),
    ),
    Column("head", _heads),
    Column("total p50", "latency_ms.total.p50", 3, unit="ms", places=("terminal",)),
    Column("gates", gates_of),
)
TIMES = (
    Column("lane", "name"),
    Column("total p50", "latency_ms.total.p50", 3, unit="ms"),
    Column("p99", lambda lane: claimed(lane.latency_ms["total"], "p99"), 3),
    Column("max", "latency_ms.total.max", 3),
    *(Column(f"{part} p50", f"latency_ms.{part}.p50", 3) for part in ("feed", "inference", "state")),
    Column("first call", "first_call_ms", 1),
)
TENSORS = (
    Column("tensor", "0"),
    Column("role", lambda one: f"{one[1].role}{', whole numbers' if one[1].kind == 'integer' else ''}"),
    Column("largest absolute error", "1.abs_max", form=small),
    Column("p95", "1.abs_p95", form=small),
    Column("mean", "1.abs_mean", form=small),
    Column("relative L2 p50", "1.rel_l2_p50", form=small),
    Column("max", "1.rel_l2_max", form=small),
    Column("in chunk", "1.rel_l2_max_chunk"),
    Column("minimum cosine", "1.cosine_min", 9),
    Column("unequal chunks", "1.unequal_chunks"),
    Column("non-finite chunks", "1.not_finite_chunks"),
)


def levels(paced: Paced) -> Table:
    """Return the times of each number of streams."""
    names = list(paced.levels[0].times_ms)
    columns = [
        Column("streams", "streams"),
        Column("chunks", "chunks"),
        *(Column(name, lambda one, name=name: one.times_ms[name], 3, unit="ms") for name in names),  # type: ignore[misc]
        Column("within a hop at p99", verdict("verdict")),
        Column("real-time factor", "real_time_factor", 4),
        Column("busy", "busy", form=share, places=ROOMY),
        Column("rows per batch", "rows_mean", 1),
        Column("max", "rows_max", places=ROOMY),
        *(
            Column(f"{part} p50", f"parts_ms.{part}.p50", 3, unit="ms", places=ROOMY)
            for part in paced.levels[0].parts_ms
        ),
    ]
    return Table(columns, paced.levels, f"One chunk per stream every {paced.hop_ms:g} ms: latency from due time")


def fault_matrix(faults: Faults) -> Table:
    """Return gates as columns and faults as rows: the first failing chunk of each gate that fails."""
    gates = list(dict.fromkeys(gate.gate for gate in faults.healthy.gates))
    rows: list[tuple[Any, ...]] = [("none", None, "the same stream without a fault", faults.healthy, [])]
    rows += [
        (
            one.fault,
            "missed" if one.fault in faults.missed else "caught" if one.lane else None,
            one.reason or one.text,
            one.lane,
            one.caught_by,
        )
        for one in faults.planted
    ]
    columns = [
        Column("planted fault", lambda row: [Cell(row[0]), *([Cell(row[1], verdict=row[1])] if row[1] else [])]),
        *(Column(gate, lambda row, gate=gate: _gate(row, gate), 0, places=ROOMY) for gate in gates),  # type: ignore[misc]
        Column("relative L2 p50", "3.rel_l2_p50", form=small),
        Column("max", "3.rel_l2_max", form=small),
        Column("head", lambda row: _heads(row[3])),
        Column("caught by", lambda row: ", ".join(row[4]) or None, places=("terminal",)),
        Column("planted", "2", places=ROOMY),
    ]
    return Table(columns, rows, "Planted faults by gate")


def _gate(row: Any, name: str) -> Cell:
    """Return a gate on a row: where it failed, the first chunk, green where that catches a fault."""
    found = [gate for gate in row[3].gates if gate.gate == name] if row[3] else []
    if failed := next((gate for gate in found if gate.verdict == "failed"), None):
        chunk = "\N{MULTIPLICATION X}" if failed.chunk is None else str(failed.chunk)
        return Cell(chunk, verdict=row[1] or "failed", title=failed.text)
    return Cell("\N{MIDDLE DOT}", title=found[0].text) if found else Cell(NONE)


class ComparedStream(Strict):
    """What metrics.json says of a streaming model that was compared with a reference, whatever of it was."""

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
    settings: dict[str, Any]
    verification: list[Mark] = []


class StreamMetrics(ComparedStream):
    """metrics.json of eval-stream."""

    _earlier = without("transcription")
    input: dict[str, Any]
    chunks: NonNegativeInt
    stream_seconds: NonNegativeFloat | None
    hop_seconds: NonNegativeFloat | None
    memory_chunks: NonNegativeInt | None
    gate_set: str
    lanes: list[LaneMetrics]
    closed_over_functional: dict[str, NonNegativeFloat]
    faults: Faults | None = None
    resident: Resident | None = None
    streams: list[Paced] = []
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
