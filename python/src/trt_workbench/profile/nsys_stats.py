"""Nsight Systems' summaries, as `nsys stats --format csv` prints them, made into kernels."""

from __future__ import annotations

from collections import defaultdict

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.csv_tables import column_and_unit, nanoseconds, number, read_table, telling
from trt_workbench.profile.document import Kernel
from trt_workbench.profile.kernel_layers import LayerIndex
from trt_workbench.profile.shares import kernels_with_shares

KERNELS = "cuda_gpu_kern_sum"
RANGES = "nvtx_kern_sum"
_Sum = tuple[int, float]  # launches and ns


def read_kernels(kernels: str, ranges: str | None, layers: LayerIndex, side: Side = "target") -> list[Kernel]:
    """Return the kernels of a capture, the longest first.

    The summary by range has a row for every range around a launch; those of layers give a kernel's launches to the
    layers, and what is left over keeps no layer.

    Args:
        kernels: what `nsys stats --report cuda_gpu_kern_sum --format csv` printed.
        ranges: the same of `nvtx_kern_sum`; None where the capture has no ranges.
        layers: of the engine that ran.
        side: of the comparison.

    Raises:
        UsageProblem: the text is not such a summary, or no kernel was recorded.
    """
    totals = _totals(kernels)
    if not totals:
        raise UsageProblem(f"nsys recorded no kernel between cudaProfilerStart and -Stop; it says: {telling(kernels)}")
    located = _by_layer(ranges, layers) if ranges else {}
    found = []
    for name, (launches, time_ns) in totals.items():
        for layer, (some, some_ns) in located.get(name, {}).items():
            found.append(_kernel(name, layers.find([layer]), some, some_ns, side))
            launches, time_ns = launches - some, time_ns - some_ns
        if launches > 0:
            found.append(_kernel(name, None, launches, max(0.0, time_ns), side))
    return kernels_with_shares(found)


def _totals(text: str) -> dict[str, _Sum]:
    totals: dict[str, _Sum] = {}
    for row in read_table(text, ("Total Time", "Instances", "Name"), f"nsys stats ({KERNELS})"):
        launches, time_ns = _figures(row, "Instances")
        before = totals.get(row["Name"], (0, 0.0))
        totals[row["Name"]] = (before[0] + launches, before[1] + time_ns)
    return totals


def _by_layer(text: str, layers: LayerIndex) -> dict[str, dict[str, _Sum]]:
    found: dict[str, dict[str, _Sum]] = defaultdict(dict)
    for row in read_table(text, ("NVTX Range", "Kern Inst", "Total Time", "Kernel Name"), f"nsys stats ({RANGES})"):
        layer = layers.find([row["NVTX Range"]])
        if layer is not None:
            launches, time_ns = _figures(row, "Kern Inst")
            before = found[row["Kernel Name"]].get(layer.name, (0, 0.0))
            found[row["Kernel Name"]][layer.name] = (before[0] + launches, before[1] + time_ns)
    return found


def _figures(row: dict[str, str], count: str) -> _Sum:
    column, unit = column_and_unit(row, "Total Time")
    return int(number(row[count]) or 0), nanoseconds(number(row[column]) or 0.0, unit)


def _kernel(name: str, layer: Operation | None, launches: int, time_ns: float, side: Side) -> Kernel:
    return Kernel(
        side=side,
        tool="nsys",
        name=name,
        layer=layer.name if layer else None,
        onnx_nodes=layer.onnx_nodes if layer else [],
        launches=launches,
        total_ms=time_ns / 1e6,
        mean_ms=time_ns / 1e6 / launches,
    )
