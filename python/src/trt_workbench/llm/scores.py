"""Scores of logits: negative log likelihood, and how far a backend's distribution is from the reference's."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.compare import divergence, log_softmax
from trt_workbench.core.elements import errors, largest_agrees
from trt_workbench.core.environment import available_processors

# Rows are taken in blocks of about this many logits: float64 copies of a block stay within the processor's caches.
_BLOCK_LOGITS = 1 << 19


@dataclass(frozen=True)
class TokenScores:
    """Sums and extremes over scored tokens; the values against a reference are 0 (agreement: all) for itself.

    Attributes:
        tokens: how many were scored.
        nll: summed negative log likelihood of the text's tokens, nats.
        top1_agreements: tokens at which the largest logit is that of the reference; NaN where that is not known.
        max_logit_difference: largest difference of any logit.
        kl: summed Kullback-Leibler divergence of this distribution from the reference's, nats.
        max_kl: largest of one token.
    """

    tokens: int = 0
    nll: float = 0.0
    top1_agreements: float = 0
    max_logit_difference: float = 0.0
    kl: float = 0.0
    max_kl: float = 0.0

    def __add__(self, other: TokenScores) -> TokenScores:
        """Join the scores of two sets of tokens. NaN in either stays."""
        joined: dict[str, Any] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            # NaN stays, whichever of them it is
            joined[field.name] = float(np.maximum(mine, theirs)) if field.name.startswith("max_") else mine + theirs
        return TokenScores(**joined)

    @property
    def perplexity(self) -> float:
        """Exp of the mean negative log likelihood; NaN where a logit was NaN, infinite where it overflows."""
        mean = self.nll / self.tokens
        return math.exp(mean) if mean < 700 else math.inf if mean == mean else math.nan


def score_logits(
    reference: NDArray[np.float32], logits: NDArray[np.float32] | None, targets: NDArray[np.int64]
) -> TokenScores:
    """Score logits of some positions against the tokens that follow and against the reference.

    Args:
        reference: float32 [N,V], logits of the reference.
        logits: float32 [N,V], logits of a backend; None to score the reference itself.
        targets: int64 [N], the tokens that follow.
    """
    rows = max(1, _BLOCK_LOGITS // reference.shape[1])
    starts = range(0, len(targets), rows)

    def one(start: int) -> TokenScores:
        part = slice(start, start + rows)
        return _score_block(reference[part], None if logits is None else logits[part], targets[part])

    # numpy releases the interpreter lock in these loops
    with ThreadPoolExecutor(min(len(starts), available_processors(), 8) or 1) as pool:
        return sum(pool.map(one, starts), TokenScores())


def score_prompts(
    reference: NDArray[np.float32],
    logprobs: NDArray[np.float64],
    likeliest: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> TokenScores:
    """Score log-probabilities of the tokens that follow; what needs the whole distribution is NaN.

    Args:
        reference: float32 [N,V], logits of the reference.
        logprobs: float64 [N], of the targets.
        likeliest: int64 [N], the likeliest token of each place; -1 where that is not known.
        targets: int64 [N], the tokens that follow.
    """
    agrees = math.nan if (likeliest < 0).any() else int((reference.argmax(axis=-1) == likeliest).sum())
    return TokenScores(len(targets), -float(logprobs.sum()), agrees, math.nan, math.nan, math.nan)


def _score_block(
    reference: NDArray[np.float32], logits: NDArray[np.float32] | None, targets: NDArray[np.int64]
) -> TokenScores:
    expected = log_softmax(reference)
    index = np.arange(len(targets))
    if logits is None:
        return TokenScores(len(targets), float(-expected[index, targets].sum()), top1_agreements=len(targets))
    found = log_softmax(logits)
    apart = divergence(found, expected)
    return TokenScores(
        tokens=len(targets),
        nll=float(-found[index, targets].sum()),
        top1_agreements=int(largest_agrees(logits, reference).sum()),
        max_logit_difference=float(errors(logits, reference).max()),
        kl=float(apart.sum()),
        max_kl=float(apart.max()),
    )
