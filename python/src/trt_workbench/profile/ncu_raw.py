"""Nsight Compute's metrics, as `ncu --csv --page raw` prints them, made into kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.csv_tables import DOMAIN, LayerIndex, nanoseconds, number, read_table, telling
from trt_workbench.profile.document import Kernel, kernels_with_shares

DURATION = "gpu__time_duration.sum"
# What shows why a kernel takes its time: how near compute, memory and DRAM are to their peaks, and how full the SMs.
METRICS = (
    DURATION,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
)
_RANGE_COLUMN = "_Range:"
_PUSH_POP = "Push/Pop_Range:"
# Not the rest of a cell: the layer's JSON, which TensorRT adds to its range, has tensors named like other layers.
_RANGE = re.compile(rf'"({DOMAIN}:[^"]*)')
# The content of columns right of the ranges: a row that was cut short or torn apart has other things there.
_SHAPES = {"ID": re.compile(r"\d+"), "Block Size": re.compile(r"\(.*\)"), "Grid Size": re.compile(r"\(.*\)")}


@dataclass(frozen=True)
class _Launch:
    name: str
    layer: Operation | None
    ns: float
    metrics: Mapping[str, float]


def read_kernels(text: str, layers: LayerIndex, side: Side = "target") -> list[Kernel]:
    """Return the kernels of a capture, the longest first; launches of one kernel by one layer form one.

    Args:
        text: the table: a header, a line of units, a line a launch.
        layers: of the engine that ran.
        side: of the comparison.

    Raises:
        UsageProblem: there is no such table, a row does not fit its header, or no kernel was measured.
    """
    units: Mapping[str, str] = {}
    groups: dict[tuple[str, str | None], list[_Launch]] = defaultdict(list)
    for row in read_table(text, ("ID", "Kernel Name", DURATION), "ncu", free=_RANGE_COLUMN):
        # a line of units follows every header, and ncu may print one for each process
        if not row["ID"].strip():
            units = row
            continue
        launch = _launch(row, units, layers)
        groups[launch.name, launch.layer.name if launch.layer else None].append(launch)
    if not groups:
        raise UsageProblem(f"ncu measured no kernel between cudaProfilerStart and -Stop; it says: {telling(text)}")
    return kernels_with_shares([_kernel(launches, side) for launches in groups.values()])


def ranges_of(cell: str) -> list[str]:
    """Return TensorRT's ranges in a cell of the NVTX column, outermost first, each as `domain:name:further fields`."""
    return _RANGE.findall(cell)


def _launch(row: Mapping[str, str], units: Mapping[str, str], layers: LayerIndex) -> _Launch:
    for column, shape in _SHAPES.items():
        if column in row and not shape.fullmatch(row[column].strip()):
            raise UsageProblem(
                f"ncu printed {row[column]!r} as the {column} of a kernel; its row: {', '.join(row.values())[:300]}"
            )
    ranges = [text for name, cell in row.items() if _PUSH_POP in name for text in ranges_of(cell)]
    metrics = {name: value for name in METRICS if (value := number(row.get(name, ""))) is not None}
    duration_ns = nanoseconds(metrics.pop(DURATION, 0.0), units.get(DURATION) or "ns")
    return _Launch(row["Kernel Name"], layers.find(ranges), duration_ns, metrics)


def _kernel(launches: Sequence[_Launch], side: Side) -> Kernel:
    first, total_ns = launches[0], sum(launch.ns for launch in launches)
    return Kernel(
        side=side,
        tool="ncu",
        name=first.name,
        layer=first.layer.name if first.layer else None,
        onnx_nodes=first.layer.onnx_nodes if first.layer else [],
        launches=len(launches),
        total_ms=total_ns / 1e6,
        mean_ms=total_ns / 1e6 / len(launches),
        metrics={name: _mean(name, launches) for name in METRICS if all(name in one.metrics for one in launches)},
    )


def _mean(metric: str, launches: Sequence[_Launch]) -> float:
    total_ns = sum(launch.ns for launch in launches)
    if not total_ns:
        return sum(launch.metrics[metric] for launch in launches) / len(launches)
    return sum(launch.metrics[metric] * launch.ns for launch in launches) / total_ns
