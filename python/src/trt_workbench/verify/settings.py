"""What `verify` can be asked for, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import (
    MORE,
    BackendOptions,
    Device,
    Precision,
    Seed,
    ServerUrl,
    Setting,
    Target,
    Trust,
    pairs,
)

MODEL_SUFFIX = ".onnx"


@dataclass(frozen=True)
class Range:
    """Least, best-tuned and largest size of a dynamic dimension."""

    low: int
    best: int
    high: int


def read_ranges(option: str, texts: Sequence[str]) -> dict[str, Range]:
    """Return ranges by name from texts such as `batch=1:4:16`. Raises UsageProblem for another form."""
    return {name: _range(option, name, text) for name, text in pairs(option, texts).items()}


def _range(option: str, name: str, text: str) -> Range:
    parts = text.split(":")
    found = [number for part in parts if (number := whole_number(part)) is not None]
    if len(found) < len(parts) or len(parts) not in (1, 3):
        raise UsageProblem(f"{option} takes NAME=LOW:BEST:HIGH or NAME=SIZE, such as batch=1:4:16, not {name}={text}.")
    low, best, high = found * (3 // len(parts))
    if not 1 <= low <= best <= high:
        raise UsageProblem(f"{option} {name}: 1 <= low <= best <= high must hold, not {text}.")
    return Range(low, best, high)


@dataclass(frozen=True)
class VerifySettings:
    """What is asked for."""

    target: Target
    backend: Annotated[str, Setting("Runtime to verify: trt, ort-trt, ort-cuda, torch, torch-compile, v2.")] = "trt"
    precision: Precision = "fp32"
    reference: Annotated[
        str, Setting("Reference: ort-cpu, torch, the run directory of a --record, or none to check properties only.")
    ] = "ort-cpu"
    # None for the target itself where it is a model, or for the one that a plan's manifest names where it is the same.
    model: Annotated[
        Path | None,
        Setting("ONNX model of the reference; default: the one next to the plan that its manifest names.", MORE),
    ] = None
    inputs: Annotated[
        tuple[str, ...],
        Setting("FILE, FOLDER, NAME=FILE or NAME=FOLDER of .npy or .npz, or images; repeatable; random by default."),
    ] = ()
    split: Annotated[str | None, Setting("Split of --inputs where that is a data set; val by default.", MORE)] = None
    # By symbol or `input.axis`.
    ranges: Annotated[
        Mapping[str, Range],
        Setting("NAME=LOW:BEST:HIGH: sizes of a dynamic dimension; repeatable.", MORE, "--dim", read=read_ranges),
    ] = field(default_factory=dict)
    quick: Annotated[bool, Setting("Fewer shapes, two sets of inputs, one session.", flags="--quick/--full")] = False
    seconds: Annotated[
        float | None,
        Setting(
            "Time limit in seconds: begin no shape that does not fit, and end at the first wrong one.", MORE, min=0
        ),
    ] = None
    stack: Annotated[
        str | None,
        Setting(
            "Python environment, TensorRT folder or container command to run the target in; needs a record as "
            "--reference.",
            MORE,
        ),
    ] = None
    record: Annotated[bool, Setting("Keep inputs and expected outputs, for --reference of another run.", MORE)] = False
    options: BackendOptions = field(default_factory=dict)
    url: ServerUrl = None
    trust: Trust = False
    device: Device = 0
    seed: Seed = 0
