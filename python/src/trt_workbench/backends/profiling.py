"""Where the time of a model goes: what a backend with a profiler is asked, and what it answers (docs/extending.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from trt_workbench.core.documents import Strict
from trt_workbench.engine.inspection import move_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench.backends.base import TensorSpec
    from trt_workbench.engine.loading import LoadedEngine
    from trt_workbench.model.node_names import ModelNodes

Side = Literal["target", "against"]
Role = Literal["compute", "reformat", "cast", "quantize", "copy", "other"]
# What is done because of layouts and precisions, not because the model asks for it.
OVERHEAD: Final[tuple[Role, ...]] = ("reformat", "cast", "quantize", "copy")


class OfSide(Strict):
    """A line of a profile, which is of one side of a comparison."""

    schema_version: Literal[1] = 1
    side: Side = "target"


class Operation(OfSide):
    """A layer of a TensorRT engine or a node of an ONNX Runtime session.

    Attributes:
        kind: which of the two.
        index: place in the engine or session.
        name: as the runtime has it, after fusion.
        operator: TensorRT's layer type or the operator of the node; None where the runtime does not report it.
        role: what it is for; "other" has no work of its own on the device, such as a constant.
        provider: execution provider of a node.
        onnx_nodes: names of the model's nodes that it computes; empty where the runtime made it up.
        serves: the layer that a reformat layer feeds or reads, where its name shows it.
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


class InputFeed(Protocol):
    """Draws the inputs of a profile."""

    def __call__(self, specs: Sequence[TensorSpec], engine: LoadedEngine | None = None) -> dict[str, NDArray[Any]]:
        """Return random inputs for a model's inputs, of shapes that the profiles of an engine take.

        Raises:
            UsageProblem: a dynamic dimension has no value, or a shape does not fit.
        """


@dataclass(frozen=True)
class ProfiledRuns:
    """What is run with a profiler.

    Attributes:
        feed: draws the inputs.
        nodes: of the ONNX model; none where it is not available.
        folder: for files that the runtime writes; it may be absent.
        warmup: runs that do not count.
        iterations: runs that do.
        profile: optimisation profile of an engine; None chooses by the shapes.
    """

    feed: InputFeed
    nodes: ModelNodes
    folder: Path
    warmup: int
    iterations: int
    profile: int | None = None


@dataclass(frozen=True)
class Profiled:
    """What a profiler says.

    Attributes:
        operations: layers or nodes in the order of execution; `side` and `share` are set by `profile`.
        provenance: what executed the model, JSON values.
        run_ms: time of each run, the profiler's cost included.
        own_ms: time of each call without the profiler, where `provenance` has `precision_ran`; None for `profile` to
            load the model again and measure it.
        built: the engine that was made of the model: another process loads it in the model's place.
        facts: further JSON values for `run.json`.
        notes: messages for the user.
    """

    operations: Sequence[Operation]
    provenance: Mapping[str, Any]
    run_ms: Sequence[float]
    own_ms: Sequence[float] | None = None
    built: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


_QUANTIZE = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
# Nodes that ONNX Runtime adds: layouts of its NCHWc kernels, and copies between host and device.
_NODE_ROLES: Mapping[str, Role] = {
    "Cast": "cast",
    "ReorderInput": "reformat",
    "ReorderOutput": "reformat",
    "MemcpyFromHost": "copy",
    "MemcpyToHost": "copy",
    **dict.fromkeys(_QUANTIZE, "quantize"),
}
_CAST_NAME = re.compile(
    r"(?:.*/)?(?:InsertedPrecisionFree|graph_(?:in|out)put_)?[Cc]ast(?:_\d+|\d+)?|__myl_Cast_myl\S*"
)


def node_role(operator: str) -> Role:
    """Return what a node of ONNX Runtime is for."""
    return _NODE_ROLES.get(operator, "compute")


def layer_role(layer: Mapping[str, Any], nodes: Sequence[str], operators: Mapping[str, str]) -> Role:
    """Return what a layer of TensorRT is for.

    Args:
        layer: what the engine inspector reports about it; `Name` at least.
        nodes: names of the ONNX nodes in it.
        operators: operators of the model's nodes by name, where the model is available.
    """
    name = str(layer.get("Name", ""))
    if role := move_of(layer):
        return role
    known = {operators[node] for node in nodes if node in operators}
    if known and known <= _QUANTIZE:
        return "quantize"
    if known == {"Cast"} or (not known and _CAST_NAME.fullmatch(name)):
        return "cast"
    return "other" if known == {"Constant"} else "compute"
