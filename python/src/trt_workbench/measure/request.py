"""What `infer-engine` is asked for, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trt_workbench.backends.registry import AUTO
from trt_workbench.measure.queries import MeasureSettings
from trt_workbench.measure.random_arrays import Shapes

TENSORRT = "trt"
# Every other file is taken for a plan, whatever its suffix.
MODEL_SUFFIXES = (".onnx", ".pt2")
Note = Callable[[str], None]
Step = Callable[[int], None]


@dataclass(frozen=True)
class InferRequest:
    """What the user asked for.

    Attributes:
        model: the plan; or a model, which `backend` executes.
        backend: a backend's name, or "auto"; of models alone.
        precision: as the backend defines it; of models alone.
        options: of the backend, by name; of models alone.
        cpu_threads: processors that the backend may use; None for all; of models alone.
        inputs: sources of input arrays, as `read_samples` takes them; none for random inputs.
        shapes: of random inputs, by name; dynamic ones take the profile's best-tuned shape by default, or, without a
            profile, a batch of 1.
        seed: of random inputs.
        save: write the outputs to `outputs/` in the run directory.
        expect: folder of reference outputs; None for none.
        rtol: relative tolerance of the comparison.
        atol: absolute tolerance of the comparison.
        check_finite: fail if an output holds NaN or infinity.
        measure: how to measure; None for not at all.
        profile: optimisation profile; None chooses by the shapes.
        cuda_graph: replay captured CUDA graphs.
        spin: wait by polling.
        state: input names by output name, for tensors that stay on the device; the samples are then one sequence.
        trust: load a plan without a matching manifest.
        allow_host_code: let a version-compatible plan execute the host code it carries.
        plugins: plugin libraries to load beside those of the plan's manifest.
        weight_streaming_budget: bytes of device memory for streamed weights, or "auto"; None for all weights.
        device: index of the CUDA device.
    """

    model: Path
    backend: str = AUTO
    precision: str = "fp32"
    options: Mapping[str, Any] = field(default_factory=dict)
    cpu_threads: int | None = None
    inputs: tuple[str, ...] = ()
    shapes: Shapes = field(default_factory=dict)
    seed: int = 0
    save: bool = True
    expect: Path | None = None
    rtol: float = 1e-3
    atol: float = 1e-4
    check_finite: bool = False
    measure: MeasureSettings | None = None
    profile: int | None = None
    cuda_graph: bool = True
    spin: bool = True
    state: Mapping[str, str] = field(default_factory=dict)
    trust: bool = False
    allow_host_code: bool = False
    plugins: tuple[Path, ...] = ()
    weight_streaming_budget: int | Literal["auto"] | None = None
    device: int = 0

    @property
    def is_model(self) -> bool:
        """Whether the file is a model, not a plan."""
        return self.model.suffix in MODEL_SUFFIXES

    @property
    def is_native(self) -> bool:
        """Whether TensorRT runs it through the core, which has a bench of its own."""
        return not self.is_model or self.backend == TENSORRT


@dataclass(frozen=True)
class InferOutcome:
    """What a run found: the content of `metrics.json`, and what failed, in sentences."""

    metrics: dict[str, Any]
    failures: tuple[str, ...]
    queries: tuple[dict[str, float], ...] = ()
