"""Tables of `infer-engine`, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trt_workbench.core.counts import counted, sized
from trt_workbench.core.percent import covered
from trt_workbench.model.precision import precision_label
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.infer.settings import InferOutcome

# Parts of a query as people read them, by their key in metrics.json.
_PARTS = {
    "latency_ms": "latency",
    "h2d_ms": "host to device",
    "compute_ms": "GPU compute",
    "d2h_ms": "device to host",
    "enqueue_ms": "enqueue",
    "end_to_end_ms": "end to end",
}


def shown(outcome: InferOutcome) -> Parts:
    """Return outputs, checks, and what was measured."""
    metrics = outcome.metrics
    measured = metrics["benchmark"]
    return [
        Table(_OUTPUTS, metrics["outputs"].items(), "Outputs over all samples"),
        *(_benchmark(measured) if measured else ()),
        *(_about_engine(metrics) if "plan_bytes" in metrics["memory"] else _about_model(metrics)),
        *(f"note: {text}" for text in (measured or {}).get("notes", ())),
    ]


def _about_engine(metrics: Mapping[str, Any]) -> list[str]:
    memory, where = metrics["memory"], metrics["provenance"]
    buffers = sum(memory["runner_bytes"].values())
    used = memory.get("device_used_bytes", 0)
    return [
        f"{_samples(metrics)} on {where['gpu']}, TensorRT {where['tensorrt']}",
        f"Precision: {precision_label(where, 'text')}",
        f"CUDA graph in this process: {where['cuda_graph']}",
        f"Loaded in {metrics['load_s']:.2f} s, first result {metrics['first_result_s']:.2f} s after the process began "
        f"({', '.join(f'{name} {value:.2f}' for name, value in metrics['first_result_parts_s'].items())})",
        f"Memory: plan {sized(memory['plan_bytes'])}, scratch {sized(memory['context_scratch_bytes'])} per context, "
        f"runner {sized(buffers)}, device in total {sized(used)}",
    ]


def _about_model(metrics: Mapping[str, Any]) -> list[str]:
    memory, where = metrics["memory"], metrics["provenance"]
    asked = " (chosen by auto)" if metrics["backend"] != metrics["backend_requested"] else ""
    device = f", device {sized(memory['device_bytes'])}" if memory["device_bytes"] is not None else ""
    outside = f"; {counted(len(where['fallback_nodes']), 'node')} elsewhere" if where.get("fallback_nodes") else ""
    first = metrics["first_run_ms"]
    return [
        f"{_samples(metrics)} on {metrics['backend']}{asked}{outside}",
        f"Precision: {precision_label(where, 'text')}",
        f"Loaded in {metrics['load_s']:.2f} s" + ("" if first is None else f", first call {first:.3f} ms"),
        f"Memory: process {sized(memory['host_bytes'])}, at most {sized(memory['host_peak_bytes'])}{device}",
    ]


_OUTPUTS = (
    Column("output", "0"),
    Column("dtype", "1.dtype"),
    Column("NaN or inf", "1.nonfinite"),
    Column("max abs error", "1.max_abs_error", form="{:.3g}".format),
    Column("max rel error", "1.max_rel_error", form="{:.3g}".format),
    Column("mismatches", lambda one: f"{one[1]['mismatches']} of {one[1]['elements']}" if "passed" in one[1] else None),
    Column("passed", lambda one: {True: "yes", False: "NO"}.get(one[1].get("passed"))),
)


def _benchmark(measured: Mapping[str, Any]) -> Parts:
    from trt_workbench.core.statistics.summary import claimed, too_few

    percents = sorted({50, 90, 95, 99, *measured["settings"]["percentiles"]})
    columns = ["mean", *(f"p{percent:g}" for percent in percents), "min", "max"]
    rows = {label: measured[part] for part, label in _PARTS.items() if part in measured}
    for via, label in (("cpp", "one call, C++"), ("python", "one call, Python")):
        if "single_calls" in measured:
            rows[label] = measured["single_calls"][via]["end_to_end_ms"]
    # a session has calls, the core's bench queries in flight
    unit = "queries" if "queries" in measured else "calls"
    title = f"Milliseconds over {measured[unit]} {unit}"
    heads = [Column(one, lambda row, one=one: claimed(row[1], one), 3) for one in columns]  # type: ignore[misc]
    graph = f"; CUDA graph {'on' if measured['cuda_graph'] else 'off'}" if unit == "queries" else ""
    speed = f"Throughput {measured['throughput_qps']:.1f} {unit}/s over {measured['wall_ms'] / 1e3:.2f} s"
    few = dict.fromkeys(too_few(one, columns, unit) for one in rows.values())
    return [
        Table(("", *heads), list(rows.items()), title),
        f"{speed}{graph}",
        *(f"note: {part}; measure longer." for part in few if part),
        *(_calls(measured["user_calls"]) if "user_calls" in measured else ()),
    ]


def _calls(found: Mapping[str, Any]) -> Parts:
    coverage = found["rows"][0]["time_us"]["coverage"]
    title = f"Microseconds of a user's call: median of {found['rounds']} rounds, {covered(coverage)} interval"
    heads = [
        Column("", "label"),
        Column("median", "time_us.median", 1),
        Column("interval", lambda row: [row["time_us"]["low"], row["time_us"]["high"]], 1),
        Column("above compute", "above_compute_us.median", 1),
        Column("interval", lambda row: (above := row.get("above_compute_us")) and [above["low"], above["high"]], 1),
    ]
    left_out = (f"note: {name} was left out: {reason}." for name, reason in found["left_out"].items())
    return [Table(heads, found["rows"], title), *left_out]


def _samples(metrics: Mapping[str, Any]) -> str:
    return counted(metrics["samples"], "sample")
