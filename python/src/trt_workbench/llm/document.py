"""What an eval-llm run writes, as far as its report reads it; docs/reference/run-directory.md has all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import FiniteFloat, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from trt_workbench.core.artefacts import Status
from trt_workbench.core.documents import append_lines, having, json_values, write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.verification import Mark
from trt_workbench.llm.scores import TokenScores
from trt_workbench.llm.settings import BackendChoice
from trt_workbench.llm.text import Window


class RecordWriter:
    """Writes `records.jsonl` line by line, so that an interrupted run keeps what was done."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises UsageProblem if that is not possible."""
        self._path = path
        self.again([])

    def window(
        self, choice: BackendChoice, windows: Sequence[Window], shape: tuple[int, ...], scores: TokenScores
    ) -> None:
        """Write the record of one forward pass over windows of one length. Raises UsageProblem if the disk is full."""
        record = {
            "kind": "windows",
            "backend": choice.name,
            "precision": choice.precision,
            "first_token": windows[0].begin,
            "batch": shape[0],
            "length": shape[1],
            "tokens": scores.tokens,
            "nll": scores.nll,
            "max_logit_difference": scores.max_logit_difference,
            "top1_agreements": scores.top1_agreements,
            "kl": scores.kl,
            "max_kl": scores.max_kl,
        }
        self.again([plain(record)])

    def again(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write records as they are. Raises UsageProblem if the disk is full."""
        try:
            append_lines(self._path, records)
        except OSError as error:
            raise unwritable(self._path, error) from error


def write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write `metrics.json`. Raises UsageProblem if the file cannot be written."""
    try:
        write_json(path, plain(metrics))
    except OSError as error:
        raise unwritable(path, error) from error


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record or the content of `metrics.json`: NaN and infinity, which JSON cannot carry, are null."""
    return {"schema_version": 1, **json_values(document, str)}


def unwritable(path: Path, error: OSError) -> UsageProblem:
    """Return the error of a file of the run that cannot be written."""
    return UsageProblem(f"The run's files cannot be written ({error.strerror}); fix that or pass --output: {path}")


Figure = FiniteFloat | None


class _OfBackend(TypedDict):
    """Which backend it is, and why it failed."""

    backend: str
    precision: str
    failure: str | None
    verification: NotRequired[list[Mark]]


class Scored(_OfBackend):
    """The perplexity of a backend; None for what is not finite."""

    perplexity: Figure
    relative_difference: Figure
    max_logit_difference: Figure
    top1_agreement: Figure
    kl_divergence: Figure
    max_kl_divergence: Figure
    precision_ran: NotRequired[dict[str, Any] | None]
    provenance: dict[str, Any]


class Generated(_OfBackend):
    """What a backend generates after a prompt, compared with PyTorch in fp32; `agreement` is None where nothing was."""

    mode: str
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
    shards: NotRequired[Annotated[dict[str, Any], having("text")]]


class LlmRecord(TypedDict):
    """A line of records.jsonl: sums over one forward pass ("windows"). Older releases timed repetitions as well."""

    schema_version: Literal[1]
    kind: Literal["windows", "prefill", "generate", "generate-cached"]
    backend: str
    precision: str
    tokens: NotRequired[PositiveInt]
    nll: NotRequired[Figure]
    kl: NotRequired[Figure]
    max_kl: NotRequired[Figure]
