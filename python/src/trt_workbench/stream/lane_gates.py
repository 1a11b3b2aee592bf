"""The gates of a lane: which limits hold, and what broke one."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.elements import finite
from trt_workbench.core.precision import FORMATS, STREAM, coarsest, names
from trt_workbench.core.statistics.summary import claimed_percentile, percentile, summarize
from trt_workbench.model.precision import carried
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.parts import Gate, Gates
from trt_workbench.stream.document import Drift, LaneMetrics, TensorSummary
from trt_workbench.stream.drift import RECURRENT_CHUNKS, drift
from trt_workbench.stream.gate_result import GateResult, Verdict
from trt_workbench.stream.lane import Lane

_ABSOLUTE = Gate(abs_p95=5e-4, abs_max=1e-3, abs_mean=2e-4)
CHECKLIST = Gates.model_validate(dict.fromkeys(names(), _ABSOLUTE))
"""The absolute limits that deployment checklists use; a healthy TF32, fp16 or bf16 run may fail them."""
_WARNING_SHARE = 0.5


def judged_as(ran: Mapping[str, Any] | None, asked: str, contract: Contract | None = None) -> str:
    """Return the precision whose limits hold: the coarsest used, allowed or stored, else the one requested.

    Args:
        ran: `precision_ran` of a session's record.
        asked: the precision that the session was asked for.
        contract: whose outputs and states, where they are of fewer bits, are rounded however the model computes.
    """
    tensors = contract.outputs.values() if contract else ()
    written = {row.name for row in FORMATS for one in tensors if row.numpy == one.dtype and not row.is_quantised}
    return coarsest([*(row.name for row in carried(ran, asked)), *written, "fp32"]).name


def tie(kind: str) -> float:
    """Return how close a head's best two may be for no clear answer in a precision, as a share of a row's norm."""
    return 2 * STREAM.limit(kind)


def judge(lane: Lane, contract: Contract, gates: Gates, record: Mapping[str, Any], warm_up: int | None) -> LaneMetrics:
    """Return the result of a lane that has run.

    Args:
        lane: with at least one chunk.
        contract: says which tensors are state.
        gates: the limits.
        record: of the lane's session.
        warm_up: chunks until the state is filled; None of a model whose memory has no end.
    """
    kind = judged_as(record.get("precision_ran"), lane.precision, contract)
    errors = lane.chunk_errors
    fit = drift(errors, warm_up or 0, recurrent=warm_up is None)
    may_grow = warm_up is None and len(errors) < RECURRENT_CHUNKS
    agreed = {name: same / clear for name, (same, clear, _) in lane.heads.items() if clear}
    dead = {pair.output for pair in contract.state if pair.dead}
    results = [_compared(lane, dead), *_results(lane, gates.of(kind), gates, fit, may_grow=may_grow)]
    simulated = bool((record.get("precision_ran") or {}).get("simulated"))  # its times are not those of the format
    states = {pair.output for pair in contract.state}
    integers = {name for name in lane.tensors if contract.outputs[name].dtype.startswith(("int", "uint", "bool"))}
    return LaneMetrics(
        name=lane.name,
        precision=lane.precision,
        mode=lane.mode,
        judged_as=kind,
        precision_ran=record.get("precision_ran"),
        provenance={key: value for key, value in record.items() if key != "precision_ran"},
        passed=all(one.verdict != "failed" for one in results),
        rel_l2_p50=finite(percentile(np.sort(errors).tolist(), 50)),
        rel_l2_max=finite(float(errors.max())),
        head_agreement=agreed,
        drift=fit,
        gates=results,
        tensors={
            name: _summary(lane.figures, column, is_state=name in states, is_integer=name in integers)
            for column, name in enumerate(lane.tensors)
        },
        latency_ms={} if simulated else {part: summarize(ms.tolist()) for part, ms in lane.latency_ms.items()},
        first_call_ms=None if simulated else float(lane.latency_ms["inference"][0]),
        bit_equal=lane.unequal_chunk is None if lane.paired else None,
    )


def _results(lane: Lane, gate: Gate, gates: Gates, fit: Drift | None, *, may_grow: bool) -> Iterator[GateResult]:
    figures = lane.figures
    if gates.finite:
        found = _exact("finite", lane, ~figures["finite"].astype(bool), "not finite")
        from trt_workbench.backends.overflow import explained_of

        reason = explained_of(lane.session, [lane.broken]) if found.verdict == "failed" and lane.broken else ""
        yield found.model_copy(update={"text": f"{found.text}{reason}"})
    if gates.integers:
        yield _exact("integers", lane, figures["changed"] > 0, "not equal to the reference's")
    for name, limit in (("rel_l2_max", gate.rel_l2_max), ("abs_max", gate.abs_max)):
        if limit is not None:
            yield _bounded(name, lane, figures["rel_l2" if name == "rel_l2_max" else "abs_max"], limit)
    for name, limit in (("abs_p95", gate.abs_p95), ("abs_mean", gate.abs_mean)):
        if limit is not None:
            errors = figures["abs_max"]
            each = errors.mean(0) if name == "abs_mean" else percentile(list(np.sort(errors, axis=0)), 95)
            yield _over_chunks(name, lane, each, limit)
    if lane.paired:
        same = lane.unequal_chunk is None
        text = (
            "equal to the closed loop through the host"
            if same
            else f"differs from the closed loop through the host in chunk {lane.unequal_chunk}"
        )
        yield GateResult(gate="device", verdict="passed" if same else "failed", chunk=lane.unequal_chunk, text=text)
    if (most := gates.drift_exponent_lower_max) is not None:
        yield _drift(fit, most, may_grow=may_grow)
    if (least := gates.head_agreement_min) is not None:
        for name, (right, clear, rows) in lane.heads.items():
            if not clear:
                text = f"nothing to judge: none of the {rows} rows of head {name} has a clear answer"
                yield GateResult(gate="head", verdict="warning", limit=least, tensor=name, text=text)
                continue
            verdict: Verdict = "passed" if right / clear >= least else "failed"
            text = f"head {name} agrees in {right} of {clear} rows with a clear answer (of {rows})"
            yield GateResult(gate="head", verdict=verdict, value=right / clear, limit=least, tensor=name, text=text)


def _compared(lane: Lane, dead: Container[str]) -> GateResult:
    """Every tensor has the reference's shape in every chunk, and something of it was compared."""
    for name, (chunk, shapes) in lane.reshaped.items():
        text = f"{name} of chunk {chunk} is {shapes}"
        return GateResult(gate="compared", verdict="failed", chunk=chunk, tensor=name, text=text)
    for name, entries in lane.compared.items():
        if not entries and name not in dead:
            text = f"nothing of {name} could be compared: its valid part is empty in every chunk of the reference"
            return GateResult(gate="compared", verdict="failed", tensor=name, text=text)
    return GateResult(gate="compared", verdict="passed", text="every tensor compared, in the reference's shape")


def _exact(gate: str, lane: Lane, wrong: NDArray[Any], what: str) -> GateResult:
    """A gate that no chunk may break."""
    if not wrong.any():
        return GateResult(gate=gate, verdict="passed", value=0, text=f"none is {what}")
    chunk, column = map(int, np.argwhere(wrong)[0])
    count = int(wrong.any(1).sum())
    text = f"{lane.tensors[column]} is {what} from chunk {chunk} on, in {count} of {len(wrong)} chunks"
    return GateResult(gate=gate, verdict="failed", value=count, chunk=chunk, tensor=lane.tensors[column], text=text)


def _against(worst: float, limit: float) -> Verdict:
    return "failed" if worst > limit else "warning" if worst > _WARNING_SHARE * limit else "passed"


def _bounded(gate: str, lane: Lane, errors: NDArray[Any], limit: float) -> GateResult:
    """A limit on every tensor in every chunk."""
    chunk, column = map(int, np.unravel_index(errors.argmax(), errors.shape))
    worst = float(errors[chunk, column])
    text = f"at most {worst:.3g}, in {lane.tensors[column]} of chunk {chunk}"
    if worst > limit:
        over = (errors > limit).any(1)
        chunk = int(over.argmax())
        column = int(errors[chunk].argmax())
        where = f"{lane.tensors[column]} of chunk {chunk}"
        text = f"{errors[chunk, column]:.3g} in {where}, the first of {counted(int(over.sum()), 'chunk')} above"
    verdict = _against(worst, limit)
    return GateResult(
        gate=gate,
        verdict=verdict,
        value=finite(worst),
        limit=limit,
        chunk=chunk,
        tensor=lane.tensors[column],
        text=text,
    )


def _over_chunks(gate: str, lane: Lane, each: NDArray[Any], limit: float) -> GateResult:
    """A limit on a figure of each tensor over all chunks."""
    column = int(each.argmax())
    worst, name = float(each[column]), lane.tensors[column]
    verdict = _against(worst, limit)
    text = f"{worst:.3g} of {name}"
    return GateResult(gate=gate, verdict=verdict, value=finite(worst), limit=limit, tensor=name, text=text)


def _drift(fit: Drift | None, most: float, *, may_grow: bool) -> GateResult:
    if fit is None:
        text = "no growth to judge: too few chunks with an error that is neither zero nor infinite"
        return GateResult(gate="drift", verdict="passed", limit=most, text=text)
    text = f"error ~ chunk^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f}) from chunk {fit.from_chunk} on"
    verdict: Verdict = "passed" if fit.low <= most else "warning" if may_grow else "failed"
    if verdict == "warning":
        text += f"; an infinite memory may need {RECURRENT_CHUNKS} chunks to reach its plateau"
    return GateResult(gate="drift", verdict=verdict, value=fit.low, limit=most, text=text)


def _summary(figures: Mapping[str, NDArray[Any]], column: int, *, is_state: bool, is_integer: bool) -> TensorSummary:
    errors, relative = figures["abs_max"][:, column], figures["rel_l2"][:, column]
    return TensorSummary(
        kind="integer" if is_integer else "float",
        role="state" if is_state else "output",
        abs_max=finite(errors.max()),
        abs_p95=finite(p95) if (p95 := claimed_percentile(errors, 95)) is not None else None,
        abs_mean=finite(errors.mean()),
        rel_l2_p50=finite(percentile(np.sort(relative).tolist(), 50)),
        rel_l2_max=finite(relative.max()),
        rel_l2_max_chunk=int(relative.argmax()),
        cosine_min=float(figures["cosine"][:, column].min()),
        unequal_chunks=int((figures["equal"][:, column] == 0).sum()),
        not_finite_chunks=int((figures["finite"][:, column] == 0).sum()),
    )
