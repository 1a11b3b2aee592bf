"""Launches of kernels that a profiler recorded, made into kernels by layer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trt_workbench.backends.profiling import Operation, Side
from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile.document import Kernel, kernels_with_shares

DOMAIN = "TensorRT"
_PUSH_POP = 59  # of an NVTX event, in every version of nsys
# What a thread did in order: it opens a range, or launches a kernel, which it knows by a number of its process.
_EVENTS = """
SELECT globalTid, start, coalesce(end, 9e18), coalesce(value, text, ''), NULL
FROM ranges LEFT JOIN StringIds ON id = textId
UNION ALL
SELECT call.globalTid, call.start, NULL, value, kernel.end - kernel.start
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel JOIN StringIds ON id = demangledName
LEFT JOIN calls AS call ON call.correlationId = kernel.correlationId AND call.globalTid >> 24 = kernel.globalPid >> 24
ORDER BY 1, 2, 3 DESC"""
_NONE = "SELECT 0 AS globalTid, 0 AS start, 0 AS end, '' AS text, 0 AS textId, 0 AS correlationId WHERE 0"


class LayerIndex:
    """Layers by the names of their NVTX ranges."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Index `operations`, of one side."""
        self._layers = {one.name: one for one in operations}

    def find(self, ranges: Iterable[str]) -> Operation | None:
        """Return the layer of the innermost range that is one's; None if no range is.

        Args:
            ranges: outermost first, as `domain:name`; Nsight Compute adds further fields, separated by colons.
        """
        for text in reversed(list(ranges)):
            parts = text.removeprefix(f"{DOMAIN}:").removeprefix(":").split(":")
            for length in range(len(parts), 0, -1):  # a name may hold colons itself
                if found := self._layers.get(":".join(parts[:length])):
                    return found
        return None


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        name: of the kernel.
        layer: that launched it; None where no range around the launch is a layer's.
        ns: device time.
        metrics: that the tool measured.
    """

    name: str
    layer: Operation | None
    ns: float
    metrics: Mapping[str, float]


def kernels_of(launches: Iterable[Launch], tool: Literal["nsys", "ncu"], side: Side, said: str = ".") -> list[Kernel]:
    """Return the kernels of a capture, the longest first; launches of one kernel by one layer form one.

    Raises:
        UsageProblem: there is no launch; `said` ends the message.
    """
    groups = grouped(launches, lambda one: (one.name, one.layer.name if one.layer else None))
    if not groups:
        raise UsageProblem(f"{tool} recorded no kernel between cudaProfilerStart and -Stop{said}")
    return kernels_with_shares([_kernel(found, tool, side) for found in groups.values()])


def _kernel(launches: Sequence[Launch], tool: Literal["nsys", "ncu"], side: Side) -> Kernel:
    first, total_ns = launches[0], sum(launch.ns for launch in launches)
    measured = [name for name in first.metrics if all(name in one.metrics for one in launches)]
    return Kernel(
        side=side,
        tool=tool,
        name=first.name,
        layer=first.layer.name if first.layer else None,
        onnx_nodes=first.layer.onnx_nodes if first.layer else [],
        launches=len(launches),
        total_ms=total_ns / 1e6,
        mean_ms=total_ns / 1e6 / len(launches),
        metrics={name: _mean(name, launches) for name in measured},
    )


def _mean(metric: str, launches: Sequence[Launch]) -> float:
    total_ns = sum(launch.ns for launch in launches)
    if not total_ns:
        return sum(launch.metrics[metric] for launch in launches) / len(launches)
    return sum(launch.metrics[metric] * launch.ns for launch in launches) / total_ns


def read_nsys(recording: Path, layers: LayerIndex, side: Side = "target") -> list[Kernel]:
    """Return the kernels that Nsight Systems recorded, the longest first.

    A launch belongs to the innermost range that is a layer's and was open on its thread.

    Args:
        recording: exported by nsys as SQLite.
        layers: of the engine that ran.
        side: of the comparison.

    Raises:
        UsageProblem: the file is no such recording, or holds no kernel.
    """
    try:
        with closing(sqlite3.connect(f"{recording.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return kernels_of(_launches(database, layers), "nsys", side)
    except sqlite3.Error as error:
        raise UsageProblem(f"The recording of Nsight Systems cannot be read ({error}): {recording}") from error


def _launches(database: sqlite3.Connection, layers: LayerIndex) -> Iterator[Launch]:
    """Yield the launches; nsys leaves out tables of what was not recorded."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
        return
    ranges = f"SELECT * FROM NVTX_EVENTS WHERE eventType = {_PUSH_POP}" if "NVTX_EVENTS" in tables else _NONE
    calls = "SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME" if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables else _NONE
    thread, around = None, list[tuple[float, str]]()
    for of, start, end, name, ns in database.execute(f"WITH ranges AS ({ranges}), calls AS ({calls}) {_EVENTS}"):
        if of != thread:
            thread, around = of, []
        while around and around[-1][0] < start:
            around.pop()
        if ns is None:
            around.append((end, name))
        else:
            yield Launch(name, layers.find(one for _, one in around), ns, {})
