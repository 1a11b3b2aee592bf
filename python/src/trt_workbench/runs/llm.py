"""What an eval-llm run writes, as far as its report reads it; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import FiniteFloat, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from trt_workbench.engine.documents import having
from trt_workbench.engine.verification import Mark
from trt_workbench.runs.artefacts import Status
from trt_workbench.runs.statistics import Summary

Figure = FiniteFloat | None


class Scored(TypedDict):
    """The perplexity of a backend; None for what is not finite."""

    backend: str
    precision: str
    perplexity: Figure
    relative_difference: Figure
    max_logit_difference: Figure
    top1_agreement: FiniteFloat
    kl_divergence: Figure
    max_kl_divergence: Figure
    input_tokens_per_s: FiniteFloat
    failure: str | None
    precision_ran: NotRequired[dict[str, Any] | None]
    verification: NotRequired[list[Mark]]
    provenance: dict[str, Any]


class Timed(TypedDict):
    """A backend at one work; runs of older versions compared tokens alone, and have no `agreement`."""

    mode: str
    backend: str
    precision: str
    batch: PositiveInt
    prompt_tokens: PositiveInt
    new_tokens: NonNegativeInt
    repetitions: PositiveInt
    time_to_first_token_ms: Summary
    time_per_token_ms: Summary | None
    tokens_per_s: Summary
    agreement: NotRequired[Annotated[dict[str, Any], having("first_difference", "logit_gap", "logit_gap_limit")]]
    same_tokens_as_torch: NotRequired[bool]
    first_difference: NotRequired[int | None]


class LlmMetrics(TypedDict):
    """metrics.json."""

    schema_version: Literal[1]
    status: Status
    interrupted: NotRequired[str | None]
    model: Annotated[dict[str, Any], having("path", "model_type", "sha256")]
    text: Annotated[dict[str, Any], having("path", "sha256", "tokens_used")]
    recipe: Annotated[dict[str, Any], having("window", "stride", "bos", "text")]
    perplexity: Figure
    tokens: NonNegativeInt
    bits_per_byte: Figure
    max_ppl_increase: FiniteFloat
    passed: bool
    backends: list[Scored]
    timing: list[Timed]
    timing_failures: NotRequired[
        list[Annotated[dict[str, Any], having("mode", "backend", "precision", "batch", "missing_prompts", "error")]]
    ]
    batch: PositiveInt
    notes: list[str]


class LlmRecord(TypedDict):
    """A line of records.jsonl: sums over one forward pass ("windows"), or else a repetition of a timing."""

    schema_version: Literal[1]
    kind: Literal["windows", "prefill", "generate", "generate-cached"]
    backend: str
    precision: str
    tokens: NotRequired[PositiveInt]
    nll: NotRequired[Figure]
    kl: NotRequired[Figure]
