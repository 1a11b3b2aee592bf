"""Measuring an engine: queries by trtexec's method, and the true end-to-end time of single calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.trt.session import TrtSession
from trt_workbench.core.percent import share
from trt_workbench.engine import native
from trt_workbench.engine.loading import LoadedEngine
from trt_workbench.infer.calls import Caller
from trt_workbench.infer.measured import Measurement, call_records, summary
from trt_workbench.infer.settings import InferRequest, MeasureSettings

PARTS = ("latency", "h2d", "compute", "d2h", "enqueue", "end_to_end")
# Thresholds at which trtexec warns (sampleReporting.cpp).
_ENQUEUE_BOUND, _UNSTABLE_PERCENT = 0.8, 2.5
_COLUMNS = ("start_ms", "compute_start_ms", "end_ms", *(f"{part}_ms" for part in PARTS), "host_start_ms")


def measure(
    loaded: LoadedEngine,
    session: TrtSession,
    inputs: Mapping[str, NDArray[Any]],
    settings: MeasureSettings,
    request: InferRequest,
) -> Measurement:
    """Measure an engine on one set of inputs.

    Args:
        loaded: the engine.
        session: the same engine with one slot, for calls from Python; closed once they are measured.
        inputs: by name, as `session.run` takes them.
        settings: how.
        request: has the optimisation profile, and how outputs are compared.

    Raises:
        UsageProblem: the inputs do not fit the engine.
        CheckFailed: a call gave other outputs than the session.
        DeviceFailure: the device failed or is out of memory.
    """
    singles, records = _single_calls(session, inputs, settings) if settings.single_calls else ({}, [])
    caller = Caller(session, inputs, request) if settings.calls else None
    # its streams go to the bench: kernels launched on a second one would slow down those of the engine's graph
    session.close()
    with native.translated():
        costs = caller.measure(settings) if caller else None
        options = native.require("BenchOptions")(**settings.bench_options(request.profile))
        result = native.require("bench")(loaded.engine, inputs, options)
    parts = {f"{part}_ms": getattr(result, f"{part}_ms") for part in PARTS}
    metrics: dict[str, Any] = {
        "settings": asdict(settings),
        "queries": len(result),
        "warmup_queries": result.warmup_queries,
        "wall_ms": result.wall_ms,
        "host_wall_ms": result.host_wall_ms,
        "throughput_qps": result.throughput_qps,
        "cuda_graph": result.graph,
        "cuda_graph_fallback": result.graph_fallback,
        **{name: summary(samples, settings.percentiles) for name, samples in parts.items()},
    }
    metrics["compute_variation_percent"] = _variation_percent(result.compute_ms)
    if singles:
        metrics["single_calls"] = singles
    if costs:
        metrics["user_calls"] = costs.metrics
        records += costs.records
    metrics["notes"] = _notes(result, metrics)
    return Measurement(metrics, list(trtexec_times(result)), [*_query_records(result), *records])


def trtexec_times(result: Any) -> Iterator[dict[str, float]]:
    """Yield the queries of a native bench result under the names of trtexec's --exportTimes.

    The host's enqueue interval begins with the query here: the core keeps its length, not its place in the query.
    """
    for start, compute, end, enqueue, host, h2d, work, d2h, latency in zip(
        *(
            getattr(result, name).tolist()
            for name in (
                "start_ms",
                "compute_start_ms",
                "end_ms",
                "enqueue_ms",
                "host_start_ms",
                "h2d_ms",
                "compute_ms",
                "d2h_ms",
                "latency_ms",
            )
        ),
        strict=True,
    ):
        yield {
            "startEnqMs": host,
            "endEnqMs": host + enqueue,
            "startH2dMs": start,
            "endH2dMs": start + h2d,
            "startComputeMs": compute,
            "endComputeMs": compute + work,
            "startD2hMs": end - d2h,
            "endD2hMs": end,
            "h2dMs": h2d,
            "computeMs": work,
            "d2hMs": d2h,
            "latencyMs": latency,
        }


def _query_records(result: Any) -> Iterator[dict[str, Any]]:
    columns = {name: getattr(result, name).tolist() for name in _COLUMNS}
    for number, stream in enumerate(result.stream.tolist()):
        row = {name: values[number] for name, values in columns.items()}
        yield {"schema_version": 1, "kind": "query", "stream": stream, **row}


def _single_calls(
    session: TrtSession, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    limits = SamplingLimits(settings.warmup_ms, settings.duration_s, settings.iterations)
    found: dict[str, Any] = {}
    records: list[dict[str, Any]] = []
    for via, samples in (
        ("cpp", session.measure(inputs, limits)),
        ("python", measure_calls(lambda: session.run(inputs), limits)),
    ):
        found[via] = {"end_to_end_ms": summary(samples.latency_ms, settings.percentiles)}
        found[via] |= {f"{part}_ms": summary(ms, settings.percentiles) for part, ms in samples.split_ms.items()}
        records += call_records(via, samples)
    medians = [float(np.median([r["end_to_end_ms"] for r in records if r["via"] == via])) for via in ("cpp", "python")]
    found["python_overhead_us"] = (medians[1] - medians[0]) * 1e3
    return found, records


def _variation_percent(samples: NDArray[np.float64]) -> float:
    mean = float(samples.mean())
    return float(samples.std()) / mean * 100 if mean else 0.0


def _notes(result: Any, metrics: Mapping[str, Any]) -> list[str]:
    notes = []
    enqueue, compute = (float(np.median(getattr(result, f"{part}_ms"))) for part in ("enqueue", "compute"))
    if enqueue > _ENQUEUE_BOUND * compute:
        notes.append("Launching takes most of the compute time: the GPU waits for the host (try --cuda-graph).")
    if max(float(np.median(result.h2d_ms)), float(np.median(result.d2h_ms))) >= compute:
        notes.append("A transfer takes longer than the engine: copies limit the throughput, not compute.")
    if metrics["compute_variation_percent"] > _UNSTABLE_PERCENT:
        notes.append(
            f"Compute time varies by {share(metrics['compute_variation_percent'] / 100, 1)}: lock the GPU's clocks for "
            "comparable results."
        )
    if result.graph_fallback:
        notes.append(f"No CUDA graph was used: {result.graph_fallback}")
    return notes
