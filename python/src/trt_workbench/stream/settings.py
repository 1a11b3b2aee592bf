"""What `eval-stream` can be asked for, and in part `eval-speech`, as settings. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import (
    MORE,
    AllowUnverified,
    BackendOptions,
    Device,
    Runtime,
    Seed,
    Setting,
    Trust,
    names,
    pairs,
    with_flags,
)

if TYPE_CHECKING:
    from trt_workbench.backends.base import Backend

FUNCTIONAL, CLOSED_LOOP, DEVICE = "functional", "closed-loop", "device"
MODES = (FUNCTIONAL, CLOSED_LOOP, DEVICE)
RANDOM, CODE, CALIBRATION_CODE = "random", "code", "calibration code"
"""What is fed in place of a file: noise, the embedded code, utterances of it that are not scored."""
MOST_STREAMS = 4096
RATES = ("WER", "token_error_rate")
"""Names of error rates, the one that models are compared by first."""
# Options of the streams in real time stand together in --help.
_PACED = "Streams in real time"


def read_modes(option: str, text: str) -> tuple[str, ...]:
    """Return the modes of a list with commas, in their own order. Raises UsageProblem for another name."""
    found = names(option, text, MODES, "mode")
    return tuple(mode for mode in MODES if mode in found)


def read_streams(option: str, text: str) -> tuple[int, ...]:
    """Return numbers of streams of a list with commas, ascending. Raises UsageProblem for anything else."""
    found = [whole_number(name) for name in names(option, text)]
    numbers = sorted(number for number in found if number is not None and 1 <= number <= MOST_STREAMS)
    if len(numbers) < len(found):
        raise UsageProblem(f"{option} takes numbers of streams from 1 to {MOST_STREAMS}, such as 1,4,16, not {text!r}.")
    return tuple(numbers)


def read_constants(option: str, texts: Sequence[str]) -> dict[str, float | str]:
    """Return values by name of a repeated option; a number is taken as one. Raises UsageProblem as `pairs`."""
    found: dict[str, float | str] = {}
    for name, text in pairs(option, texts).items():
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = text
    return found


@dataclass(frozen=True)
class StreamedModel:
    """Which model is run where, by which contract, and compared with what."""

    target: Annotated[
        Path | None,
        Setting("ONNX model or TensorRT plan; the embedded encoder by default.", argument=True, metavar="MODEL|PLAN"),
    ] = None
    contract: Annotated[Path | None, Setting("Contract of the model (`make-contract` writes a first one).")] = None
    backend: Runtime = "auto"
    precision: Annotated[
        tuple[str, ...],
        Setting("Precisions requested from the backend, such as fp32,fp16.", kind=str, read=names, default="fp32"),
    ] = ("fp32",)
    reference: Annotated[
        str, Setting("Reference: ort-cpu, torch, or, of eval-stream, the run directory of a run with --record.")
    ] = "ort-cpu"
    model: Annotated[
        Path | None,
        Setting("ONNX model for the reference; by default the target itself, or the model of its plan.", MORE),
    ] = None
    constants: Annotated[
        Mapping[str, float | str],
        Setting(
            "Value of a constant of the contract, or the name of one, such as prompt_index=en-US; repeatable.",
            MORE,
            kind=list[str],
            read=read_constants,
            flags="--constant",
            metavar="NAME=VALUE",
        ),
    ] = field(default_factory=dict)
    faults: Annotated[bool, Setting("Plant known faults and show which gate catches each.", MORE)] = False
    hop_ms: Annotated[
        float | None,
        Setting("Time between two chunks of a stream; the contract's by default.", _PACED, min=0.1, max=3.6e6),
    ] = None
    options: BackendOptions = field(default_factory=dict)
    allow_unverified: AllowUnverified = False
    trust: Trust = False
    device: Device = 0
    seed: Seed = 0

    def backend_options(self, backend: Backend, *, is_plan: bool) -> dict[str, Any]:
        """Return the backend's options with what belongs to engines.

        Raises:
            UsageProblem: as `with_flags`, or as the backend's `device_option`.
        """
        trust = {"trust": self.trust} if backend.plans and is_plan else {}
        return with_flags(self.options, backend.device_option(self.device) | trust)


@dataclass(frozen=True)
class StreamSettings(StreamedModel):
    """What is run on which stream, compared with what, and by which gates."""

    mode: Annotated[
        tuple[str, ...],
        Setting(
            "functional: feeds the reference's state; closed-loop: the target's own; device: keeps it on the device.",
            kind=str,
            read=read_modes,
            default=f"{FUNCTIONAL},{CLOSED_LOOP}",
        ),
    ] = (FUNCTIONAL, CLOSED_LOOP)
    # None for the code that the embedded encoder reads, or for random features.
    input: Annotated[
        str | None,
        Setting("FILE.npy of features, FILE.wav or .flac, random, or code (the embedded encoder's own; its default)."),
    ] = None
    chunks: Annotated[int, Setting("Number of chunks.", min=1, max=200_000)] = 300
    chunk: Annotated[
        int | None, Setting("Frames of a chunk, left context included; the contract's by default.", min=1)
    ] = None
    gates: Annotated[
        Literal["contract", "checklist"],
        Setting("Limits: the contract's (defaults by precision), or the checklist's absolute ones."),
    ] = "contract"
    record: Annotated[bool, Setting("Keep the reference's outputs, for --reference of another run.")] = False
    streams: Annotated[
        tuple[int, ...],
        Setting(
            "Run these numbers of streams in real time, such as 1,4,16, after comparing their batches with single "
            "streams.",
            _PACED,
            kind=str,
            read=read_streams,
        ),
    ] = ()
    seconds: Annotated[float, Setting("Duration of each number of streams.", _PACED, min=0.1, max=86400)] = 5.0
