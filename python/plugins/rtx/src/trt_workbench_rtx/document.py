"""What a run of `check-target` keeps: check-target.json and layers.json."""

from __future__ import annotations

from typing import Any, Literal

from trt_workbench.core.documents import Open
from trt_workbench.report.verdict import Reach
from trt_workbench_rtx.cards import titled
from trt_workbench_rtx.layers import BuiltLayer
from trt_workbench_rtx.refusals import Refusal


class CheckedTarget(Open):
    """What came of compiling for one architecture.

    Attributes:
        sm: such as "sm120".
        asked: the names that stood in `--gpu`.
        outcome: "built", "refused" by the compiler, or "failed": it crashed or took too long.
        reason: why nothing was built; empty where it was.
        refusal: layer, operator and types, as far as the compiler reports them.
        engine_size_bytes: None without an engine.
        build_s: seconds of parsing and building; None where it failed.
        precision: what the engine's layers compute in, as `precision_ran` elsewhere; None without an engine.
        layers: how many the engine has.
    """

    sm: str
    asked: tuple[str, ...]
    outcome: Literal["built", "refused", "failed"]
    reason: str = ""
    refusal: Refusal | None = None
    engine_size_bytes: int | None = None
    build_s: float | None = None
    precision: dict[str, Any] | None = None
    layers: int = 0

    @property
    def name(self) -> str:
        """The architecture with the card that was requested, such as `sm120 (rtx5090)`."""
        return titled(self.sm, self.asked)


class TargetCheck(Open):
    """check-target.json.

    Attributes:
        model: path of the ONNX file.
        model_sha256: of the model with its external data.
        model_size_bytes: of the file and its external data.
        graph_precision: what the graph asks for, as `precision_ran` elsewhere.
        compiler: the package, with its version; None where it never answered.
        profiles: ranges of shapes that the engines accept.
        passed: whether every architecture was built for.
        targets: one for each architecture, in the order asked.
        notes: in what engines differ from what the model says, in sentences.
    """

    schema_version: Literal[1] = 1
    model: str
    model_sha256: str
    model_size_bytes: int
    graph_precision: dict[str, Any]
    compiler: str = "tensorrt-rtx"
    compiler_version: str | None = None
    profiles: tuple[str, ...] = ()
    passed: bool
    targets: tuple[CheckedTarget, ...]
    notes: tuple[str, ...] = ()

    @property
    def reach(self) -> Reach:
        """Which architectures the compiler answered for; where it crashed or took too long nothing is known."""
        answered = sum(one.outcome != "failed" for one in self.targets)
        return Reach(len(self.targets), answered, answered, sum(one.outcome == "refused" for one in self.targets))


class TargetLayers(Open):
    """layers.json: the layers of every engine by architecture."""

    schema_version: Literal[1] = 1
    layers: dict[str, tuple[BuiltLayer, ...]]
