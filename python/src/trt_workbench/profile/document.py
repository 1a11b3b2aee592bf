"""Records of a profile: one JSON line for every layer, node and kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, FiniteFloat, with_config
from typing_extensions import TypedDict

from trt_workbench.backends.profiling import OfSide, Operation, Side
from trt_workbench.core.artefacts import RunDocument
from trt_workbench.core.documents import having, read_lines


class Kernel(OfSide):
    """A CUDA kernel, all its launches in the timed region together, separate for each layer that launched it.

    Attributes:
        kind: always "kernel".
        tool: what recorded it.
        name: of the kernel, as the tool demangles it.
        layer: name of the layer whose NVTX range encloses the launches; None where no range is a layer's.
        onnx_nodes: of that layer.
        launches: in the timed region, or as many of them as were recorded.
        total_ms: device time of the launches.
        mean_ms: device time of one launch.
        share: part of the sum of all kernels of the tool.
        metrics: means over the launches, weighted by time, by Nsight Compute's names; times in ns.
    """

    kind: Literal["kernel"] = "kernel"
    tool: Literal["nsys", "ncu"]
    name: str
    layer: str | None = None
    onnx_nodes: list[str] = []
    launches: int
    total_ms: float
    mean_ms: float
    share: float | None = None
    metrics: dict[str, float] = {}


ProfileLine = Operation | Kernel


_Interval = tuple[FiniteFloat, FiniteFloat] | None


@with_config(extra="allow")
class SideFacts(TypedDict):
    """What run.json says of a side; docs/reference/run-directory.md has all keys.

    Earlier releases had only the medians, and of TensorRT the sum of the layers for `profiled_ms`.
    """

    path: str
    backend: str
    precision: str
    precision_ran: NotRequired[dict[str, Any] | None]
    own_ms: NotRequired[FiniteFloat | None]
    own_interval_ms: NotRequired[_Interval]
    own_interval_coverage: NotRequired[FiniteFloat | None]
    profiled_ms: NotRequired[FiniteFloat | None]
    profiled_interval_ms: NotRequired[_Interval]
    profiled_interval_coverage: NotRequired[FiniteFloat | None]
    sum_ms: NotRequired[FiniteFloat | None]
    other_machine: NotRequired[list[str]]
    unstable: NotRequired[list[str]]
    notes: NotRequired[list[str]]
    commands: NotRequired[list[str]]


class ProfileRun(RunDocument):
    """run.json of a profile: what is known of the target and, in a comparison, of the other side."""

    sides: Annotated[dict[Side, SideFacts], having("target")]


def read_records(path: Path) -> list[ProfileLine]:
    """Read every record.

    Raises:
        UsageProblem: the file is absent, or a line is cut short, wrong or of another schema version.
    """
    return read_lines(path, Annotated[ProfileLine, Field(discriminator="kind")])


def with_shares(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations with `share` set where they have a time."""
    total = sum(operation.mean_ms or 0.0 for operation in operations)
    return [
        operation.model_copy(update={"share": operation.mean_ms / total if total else 0.0})
        if operation.mean_ms is not None
        else operation
        for operation in operations
    ]


def kernels_with_shares(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels with `share` set, the longest first."""
    total = sum(kernel.total_ms for kernel in kernels)
    shared = [kernel.model_copy(update={"share": kernel.total_ms / total if total else 0.0}) for kernel in kernels]
    return sorted(shared, key=lambda kernel: -kernel.total_ms)
