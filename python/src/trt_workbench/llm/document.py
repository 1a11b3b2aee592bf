"""What an eval-llm run writes, as far as its report reads it; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import FiniteFloat, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import Status
from trt_workbench.core.documents import having
from trt_workbench.core.verification import Mark

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
    failure: str | None
    precision_ran: NotRequired[dict[str, Any] | None]
    verification: NotRequired[list[Mark]]
    provenance: dict[str, Any]


class Generated(TypedDict):
    """What a backend generates after a prompt, compared with PyTorch in fp32; `agreement` is None where nothing was."""

    mode: str
    backend: str
    precision: str
    batch: PositiveInt
    prompt_tokens: PositiveInt
    new_tokens: PositiveInt
    agreement: (
        Annotated[
            dict[str, Any],
            having(
                "max_logit_difference", "logit_difference_limit", "first_difference", "logit_gap", "logit_gap_limit"
            ),
        ]
        | None
    )
    failure: str | None
    verification: NotRequired[list[Mark]]


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
    options: NotRequired[dict[str, dict[str, Any]]]
    passed: bool
    backends: list[Scored]
    generation: NotRequired[list[Generated]]
    batch: PositiveInt
    notes: list[str]


class LlmRecord(TypedDict):
    """A line of records.jsonl: sums over one forward pass ("windows"). Older releases timed repetitions as well."""

    schema_version: Literal[1]
    kind: Literal["windows", "prefill", "generate", "generate-cached"]
    backend: str
    precision: str
    tokens: NotRequired[PositiveInt]
    nll: NotRequired[Figure]
    kl: NotRequired[Figure]
