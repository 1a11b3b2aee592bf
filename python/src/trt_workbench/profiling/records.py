"""Records of a profile: one JSON line for every layer, node and kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field, FiniteFloat, with_config
from typing_extensions import TypedDict

from trt_workbench.engine.documents import Strict, having, read_lines
from trt_workbench.runs.artefacts import RunDocument

Side = Literal["target", "against"]
Role = Literal["compute", "reformat", "cast", "quantize", "copy", "other"]
# What is done because of layouts and precisions, not because the model asks for it.
OVERHEAD: Final[tuple[Role, ...]] = ("reformat", "cast", "quantize", "copy")


class _Line(Strict):
    schema_version: Literal[1] = 1
    side: Side = "target"


class Operation(_Line):
    """A layer of a TensorRT engine or a node of an ONNX Runtime session.

    Attributes:
        kind: which of the two.
        index: place in the engine or session.
        name: as the runtime has it, after fusion.
        operator: TensorRT's layer type or the operator of the node; None where the runtime does not tell.
        role: what it is for; "other" has no work of its own on the device, such as a constant.
        provider: execution provider of a node.
        onnx_nodes: names of the model's nodes that it computes; empty where the runtime made it up.
        serves: the layer that a reformat layer feeds or reads, where its name tells.
        input_types: precisions of the inputs, such as "fp16".
        output_types: precisions of the outputs.
        tactic: kernel that TensorRT chose.
        calls: executions in one run of the model.
        median_ms: time of one run of the model, median over the runs; None where the runtime does not time it.
        mean_ms: the same, mean.
        share: part of the sum of all, by the mean.
    """

    kind: Literal["layer", "node"]
    index: int
    name: str
    operator: str | None = None
    role: Role = "compute"
    provider: str | None = None
    onnx_nodes: list[str] = []
    serves: str | None = None
    input_types: list[str] = []
    output_types: list[str] = []
    tactic: str | None = None
    calls: int = 1
    median_ms: float | None = None
    mean_ms: float | None = None
    share: float | None = None

    @property
    def conversion(self) -> str:
        """The change of precision from first input to first output, such as "fp32 to fp16"; empty if there is none."""
        before, after = (next(iter(types), "") for types in (self.input_types, self.output_types))
        return f"{before} to {after}" if before and after and before != after else ""


class Kernel(_Line):
    """A CUDA kernel, all its launches in the timed region together, apart for each layer that launched it.

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

    Releases before had the medians alone, and of TensorRT the sum of the layers for `profiled_ms`.
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
