"""How `eval-llm` evaluates, as settings with their options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import AllowUnverified, OptionsByBackend, Setting, parts, sizes


@dataclass(frozen=True)
class BackendChoice:
    """A backend and the precision it is asked for; written `ort-cuda:fp16`, without a precision fp32."""

    name: str
    precision: str = "fp32"

    def __str__(self) -> str:
        """Return the form that is read."""
        return f"{self.name}:{self.precision}"


REFERENCE = BackendChoice("torch")
"""What language models are compared with."""


Mode = Literal["perplexity", "generate", "generate-cached"]
MODES: tuple[Mode, ...] = get_args(Mode)


def read_backends(_: str, text: str) -> tuple[BackendChoice, ...]:
    """Return the backends of a list such as `torch,trt:fp16`. Raises UsageProblem as `parse_backends`."""
    from trt_workbench.llm.opening import parse_backends

    return parse_backends(text)


def read_modes(option: str, text: str) -> tuple[Mode, ...]:
    """Return what to compare, in the order of `MODES`. Raises UsageProblem for a mode that does not exist."""
    chosen = parts(text)
    if not chosen or (unknown := [mode for mode in chosen if mode not in MODES]):
        raise UsageProblem(
            f"{option} takes some of {', '.join(MODES)}, separated by commas, not {unknown[0] if chosen else text!r}; "
            f"speed is measured by `trtw bench llm`."
        )
    return tuple(mode for mode in MODES if mode in chosen)


@dataclass(frozen=True)
class LlmSettings:
    """How a language model is evaluated; None where the default is to be chosen."""

    backends: Annotated[
        tuple[BackendChoice, ...],
        Setting(
            "Runtimes to compare, separated by commas, each with :precision if not fp32 (trt:fp16, ort-cpu:nvfp4).",
            kind=str,
            read=read_backends,
            default="torch,ort-cpu",
        ),
    ] = (REFERENCE, BackendChoice("ort-cpu"))
    modes: Annotated[
        tuple[Mode, ...],
        Setting(
            "perplexity, generate, generate-cached: what to compare, separated by commas.",
            kind=str,
            read=read_modes,
            default="perplexity",
        ),
    ] = ("perplexity",)
    window: Annotated[
        int | None, Setting("Tokens per window; by default the model's positions, at most 1024.", min=2)
    ] = None
    stride: Annotated[int | None, Setting("Tokens between window starts; half a window by default.", min=1)] = None
    bos: Annotated[
        Literal["auto", "none", "window"],
        Setting("Begin-of-text token: none, window (before each window), auto (as the tokenizer does)."),
    ] = "auto"
    batch: Annotated[int, Setting("Windows per forward pass, and sequences generated at once.", min=1)] = 1
    limit: Annotated[int | None, Setting("Evaluate at most this many tokens of the text.", min=2)] = None
    # a share, typed in percent
    max_ppl_increase: Annotated[
        float,
        Setting(
            "Gate: maximum increase of the perplexity over PyTorch's, in percent.",
            min=0.0,
            kind=float,
            read=lambda _, percent: percent / 100,
            default=1.0,
        ),
    ] = 0.01
    prompts: Annotated[
        tuple[int, ...],
        Setting(
            "Tokens of the prompt; several lengths separated by commas.",
            flags="--prompt",
            kind=str,
            read=sizes,
            default="64",
        ),
    ] = (64,)
    new_tokens: Annotated[int, Setting("Tokens to generate.", min=1)] = 64
    device: Annotated[str, Setting("Device of PyTorch: auto, cpu, cuda, cuda:1.")] = "auto"
    graphs: Annotated[Path | None, Setting("Folder of export-llm with the graphs, instead of exporting them.")] = None
    calibration: Annotated[str | None, Setting("Calibration text for ort-cpu:int8 and ort-cpu:fp8, or random.")] = None
    threads: Annotated[int | None, Setting("CPUs that a runtime may use; all by default.", min=1)] = None
    options: OptionsByBackend = field(default_factory=dict)
    allow_unverified: AllowUnverified = False

    @property
    def generating(self) -> tuple[Mode, ...]:
        """The modes that generate tokens."""
        return tuple(mode for mode in self.modes if mode != "perplexity")

    @property
    def capacity(self) -> int:
        """Longest sequence that is generated, with its prompt."""
        return max(self.prompts) + self.new_tokens
