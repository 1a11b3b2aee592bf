"""Tables of `infer-engine`, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.console.common import print_line, print_run, print_table, stdout_console
from trt_workbench.core.counts import counted, sized
from trt_workbench.core.percent import covered
from trt_workbench.model.precision import precision_label

if TYPE_CHECKING:
    from rich.console import Console

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


def print_outcome(outcome: InferOutcome, directory: Path) -> None:
    """Print outputs, checks, and what was measured."""
    console = stdout_console(quiet=False)
    metrics = outcome.metrics
    _print_outputs(console, metrics)
    if metrics["benchmark"]:
        _print_benchmark(console, metrics["benchmark"])
    about = _about_engine(metrics) if "plan_bytes" in metrics["memory"] else _about_model(metrics)
    notes = [f"note: {text}" for text in (metrics["benchmark"] or {}).get("notes", ())]
    for line in (*about, *notes):
        print_line(console, line)
    print_run(console, directory)


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


def _print_outputs(console: Console, metrics: Mapping[str, Any]) -> None:
    from rich.markup import escape

    compared = metrics["comparison"] is not None
    figures = ("max abs error", "max rel error", "mismatches", "passed") if compared else ()
    rows = []
    for name, found in metrics["outputs"].items():
        rows.append([escape(name), found["dtype"], str(found["nonfinite"])])
        if compared:
            errors = (found["max_abs_error"], found["max_rel_error"])
            rows[-1] += ["-" if one is None else f"{one:.3g}" for one in errors]
            rows[-1] += [f"{found['mismatches']} of {found['elements']}", "yes" if found["passed"] else "NO"]
    print_table(console, ("output", "dtype", "NaN or inf", *figures), rows, title="Outputs over all samples")


def _print_benchmark(console: Console, measured: Mapping[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD

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
    shown = (
        (label, *("-" if (time := claimed(one, column)) is None else f"{time:.3f}" for column in columns))
        for label, one in rows.items()
    )
    # narrow, so that a figure is not cut in a terminal of 80 columns
    print_table(console, ("", *columns), shown, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    graph = f"; CUDA graph {'on' if measured['cuda_graph'] else 'off'}" if unit == "queries" else ""
    speed = f"Throughput {measured['throughput_qps']:.1f} {unit}/s over {measured['wall_ms'] / 1e3:.2f} s"
    print_line(console, f"{speed}{graph}")
    for part in dict.fromkeys(too_few(one, columns, unit) for one in rows.values()):
        if part:
            print_line(console, f"note: {part}; measure longer.")
    if "user_calls" in measured:
        _print_calls(console, measured["user_calls"])


def _print_calls(console: Console, found: Mapping[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD

    coverage = found["rows"][0]["time_us"]["coverage"]
    title = f"Microseconds of a user's call: median of {found['rounds']} rounds, {covered(coverage)} interval"
    heads, rows = ("", "median", "interval", "above compute", "interval"), []
    for row in found["rows"]:
        parts = [row["time_us"], *filter(None, [row.get("above_compute_us")])]
        cells = [cell for one in parts for cell in (f"{one['median']:.1f}", f"{one['low']:.1f} to {one['high']:.1f}")]
        rows.append((row["label"], *cells))
    print_table(console, heads, rows, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, reason in found["left_out"].items():
        print_line(console, f"note: {name} was left out: {reason}.")


def _samples(metrics: Mapping[str, Any]) -> str:
    return counted(metrics["samples"], "sample")
