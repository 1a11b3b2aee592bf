"""What `profile` is asked for. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from trt_workbench.core.settings import BackendOptions, Device, HostCode, ProfileIndex, Seed, Setting, Shapes, Trust

_HOW, _NSIGHT = "Runs", "Kernels, by NVIDIA's profilers"


@dataclass(frozen=True)
class ProfileRequest:
    """What the user asked for."""

    target: Annotated[Path, Setting("Plan made by `build-engine`, or an ONNX model.", argument=True)]
    against: Annotated[
        str | None,
        Setting(
            "Compare with another plan or model, an earlier run directory, or a precision of the model such as fp16.",
        ),
    ] = None
    backend: Annotated[str, Setting("Runtime of a model: trt, ort-cpu, ort-cuda or ort-trt.")] = "auto"
    precision: Annotated[str, Setting("Precision of a model, as the backend defines it.")] = "fp32"
    model: Annotated[Path | None, Setting("ONNX model of the plan, for operators and to check names.", _HOW)] = None
    options: BackendOptions = field(default_factory=dict)
    shapes: Shapes = field(default_factory=dict)
    iterations: Annotated[int, Setting("Measured runs.", _HOW, min=1)] = 20
    warmup: Annotated[int, Setting("Warm-up runs before them.", _HOW, min=1)] = 3
    nsys: Annotated[bool, Setting("Record with Nsight Systems.")] = False
    ncu: Annotated[bool, Setting("Record with Nsight Compute.", _NSIGHT)] = False
    launches: Annotated[int, Setting("Maximum kernel launches that Nsight Compute measures.", _NSIGHT, min=1)] = 200
    timeout_s: Annotated[float, Setting("Stop a recording after this many seconds.", _NSIGHT, "--timeout", min=1)] = (
        600.0
    )
    profile: ProfileIndex = None
    trust: Trust = False
    allow_host_code: HostCode = False
    device: Device = 0
    seed: Seed = 0

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the profilers that are asked for."""
        return tuple(name for name, asked in (("nsys", self.nsys), ("ncu", self.ncu)) if asked)
