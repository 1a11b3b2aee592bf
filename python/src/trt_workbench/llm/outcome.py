"""What an evaluation of a language model comes to: of one process, or of shards that are put together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trt_workbench.core import percent
from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.verification import Mark
from trt_workbench.llm.scores import TokenScores
from trt_workbench.llm.settings import REFERENCE, BackendChoice
from trt_workbench.report.verdict import Reach

Part = Literal["perplexity", "generation"]


@dataclass(frozen=True)
class LlmOutcome:
    """How an evaluation ended.

    Attributes:
        status: "partial" if it was interrupted.
        metrics: the content of `metrics.json`.
        generation_error: the first reason why a backend does not generate what it should.
    """

    status: Literal["complete", "partial"]
    metrics: dict[str, Any]
    generation_error: WorkbenchError | None = None


def failures_of(metrics: Mapping[str, Any]) -> list[str]:
    """Return the backends that the gate rejected, in sentences."""
    return [row["failure"] for row in metrics["backends"] if row["failure"]]


def reach(backends: Sequence[Mapping[str, Any]], generation: Sequence[Mapping[str, Any]]) -> Reach:
    """Return what could have failed: the first backend is the reference, and some generations are not compared."""
    checks = [*backends[1:], *generation]
    judged = sum(row.get("agreement", row) is not None for row in checks)
    return Reach(len(checks), len(checks), judged, sum(row["failure"] is not None for row in [*backends[:1], *checks]))


@dataclass(frozen=True)
class ScoredBackend:
    """A backend, scored.

    Attributes:
        choice: which one.
        parts: scores of each forward pass, in the order of the text.
        overflow: which inner values leave the format's range, as the end of a sentence.
        verification: marks of its engines.
        provenance: what executed the model.
    """

    choice: BackendChoice
    parts: Sequence[TokenScores]
    overflow: str
    verification: list[Mark]
    provenance: dict[str, Any]


def rows_of(scored: Sequence[ScoredBackend], max_increase: float) -> list[dict[str, Any]]:
    """Return a row for each backend as `metrics.json` has it; the first is the reference."""
    sums = [sum(one.parts, TokenScores()) for one in scored]
    return [_row(one, scores, sums[0], max_increase) for one, scores in zip(scored, sums, strict=True)]


def _row(one: ScoredBackend, scores: TokenScores, base: TokenScores, max_increase: float) -> dict[str, Any]:
    perplexity, expected = scores.perplexity, base.perplexity
    change = perplexity / expected - 1 if math.isfinite(perplexity) else math.nan
    failure = None
    if not change <= max_increase:  # `not`: NaN fails
        shown = percent.change(change) if math.isfinite(change) else "not a number"
        failure = (
            f"{one.choice}: perplexity {perplexity:.4f} against {expected:.4f} is {shown}; the gate is "
            f"{percent.limit(max_increase)}{one.overflow}."
        )
    return {
        "backend": one.choice.name,
        "precision": one.choice.precision,
        "perplexity": perplexity,
        "relative_difference": change,
        "nll_per_token": scores.nll / scores.tokens,
        "max_logit_difference": scores.max_logit_difference,
        "top1_agreement": scores.top1_agreements / scores.tokens,
        "kl_divergence": scores.kl / scores.tokens,
        "max_kl_divergence": scores.max_kl,
        "tokens": scores.tokens,
        "failure": failure,
        "precision_ran": one.provenance.get("precision_ran"),
        "verification": one.verification,
        "provenance": one.provenance,
    }


def metrics_of(
    facts: Mapping[str, Any],
    rows: list[dict[str, Any]],
    generation: list[dict[str, Any]],
    interrupted: Part | None,
    notes: list[str],
) -> dict[str, Any]:
    """Return the content of `metrics.json`.

    Args:
        facts: what was asked and chosen; with "scored_bytes", of the text, None where that is not known.
        rows: of `rows_of`.
        generation: what backends generate.
        interrupted: which part did not come to its end.
        notes: what the user should know, in sentences.
    """
    facts = dict(facts)
    reference, scored = rows[0] if rows else None, facts.pop("scored_bytes")
    bits = None
    if reference and scored and interrupted != "perplexity":
        bits = float(reference["nll_per_token"] * reference["tokens"] / math.log(2) / scored)
    return {
        **facts,
        "reference": str(REFERENCE),
        "perplexity": reference["perplexity"] if reference else None,
        "tokens": reference["tokens"] if reference else 0,
        "bits_per_byte": bits,
        "passed": reach(rows, generation).passed,
        "backends": rows,
        "generation": generation,
        "notes": notes,
        "status": "partial" if interrupted else "complete",
        "interrupted": interrupted,
    }
