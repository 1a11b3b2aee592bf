"""Whether a runtime generates what the reference generates: the logits of the very model in use, and its tokens.

The reference picks tokens greedily. The model under test is given the same tokens one after the other, and the logits
[B,V] before each of them are compared in every sequence of the batch. What it generates by itself is judged at the
first token of each sequence that differs from the reference's.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.language import Logits, Tokens
from trt_workbench.core.counts import counted
from trt_workbench.core.elements import errors, is_finite
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.precision import LOGITS, known
from trt_workbench.llm.generation import generate_cached


class Trace(NamedTuple):
    """Tokens int64 [B,N] and the logits float32 [B,N,V] before each of them."""

    tokens: Tokens
    logits: NDArray[np.float32]


@dataclass(frozen=True)
class Agreement:
    """How near a model is to the reference.

    Attributes:
        reference: what it was compared with.
        sequences: the batch.
        tokens: positions of each sequence that were compared.
        max_logit_difference: of any logit, given the reference's tokens; None where a model gives no logits.
        logit_difference_limit: what is allowed.
        first_difference: index of the first generated token that differs in any sequence; None if all are equal.
        logit_gap: how much more the reference gives its own token than the one that was chosen instead, the largest of
            all sequences; None if all tokens are equal.
        logit_gap_limit: twice the difference that was measured in that sequence: what a near tie may be.
        failure: why it is wrong, in a sentence; None if it is right.
    """

    reference: str
    sequences: int
    tokens: int
    max_logit_difference: float | None
    logit_difference_limit: float
    first_difference: int | None = None
    logit_gap: float | None = None
    logit_gap_limit: float | None = None
    failure: str | None = None

    def or_raise(self) -> Agreement:
        """Return itself if the model is right.

        Raises:
            Disagreement: it is wrong.
        """
        if self.failure:
            raise Disagreement(self.failure)
        return self


class Disagreement(CheckFailed):
    """A model does not generate what the reference generates."""


def trace(
    model: Any, prompts: Tokens, count: int, *, cached: bool, capacity: int = 0, follow: Tokens | None = None
) -> Trace:
    """Generate `count` tokens and keep their logits.

    Args:
        model: a CachedModel if `cached`, else a LogitsModel.
        prompts: int64 [B,S].
        count: at least 1.
        cached: keep keys and values.
        capacity: tokens that these have room for.
        follow: int64 [B,count], tokens to give instead of the likeliest.

    Raises:
        DeviceFailure: the device is out of memory or failed.
    """
    sequence, tokens, logits = prompts, list[Tokens](), list[Logits]()
    while True:
        if not cached:
            last = model.last_logits(sequence)
        else:
            # an array of its own each time, never a column of the sequence, whose strides grow with it
            last = model.step(tokens[-1]) if tokens else model.prefill(sequence, capacity)
        logits.append(np.array(last))  # a copy: it may be a buffer of the runtime
        tokens.append(last.argmax(axis=-1) if follow is None else follow[:, len(tokens)].copy())
        if len(tokens) == count:
            return Trace(np.stack(tokens, axis=1), np.stack(logits, axis=1))
        sequence = np.concatenate([sequence, tokens[-1][:, None]], axis=1)


def reference_trace(model: Any, prompts: Tokens, count: int) -> Trace:
    """Generate as `trace` does without a cache, in less time: tokens with a cache, their logits by one pass over all.

    Each token must be the likeliest by these logits. Where one is not, and where the model has no cache, every token
    gets a pass of its own.

    Args:
        model: a LogitsModel that is a CachedModel, too.
        prompts: int64 [B,S].
        count: at least 1.

    Raises:
        UsageProblem: the model cannot run these sequences.
        DeviceFailure: the device is out of memory or failed.
    """
    start = prompts.shape[1]
    if count > 1:
        with suppress(UsageProblem):  # not every architecture has a cache
            tokens = generate_cached(model, prompts, count).tokens
            logits = model.logits(np.concatenate([prompts, tokens[:, :-1]], axis=1))[:, start - 1 :]
            if (logits.argmax(axis=-1) == tokens).all():
                return Trace(tokens, logits)
    return trace(model, prompts, count, cached=False)


def is_broken(logits: Logits) -> bool:
    """Whether logits give no distribution: one is NaN, or not below infinity, or all of a position are -inf."""
    return not (logits < np.inf).all() or bool(np.isneginf(logits).all(axis=-1).any())


def why_broken(expected: Logits, name: str) -> str | None:
    """Return why nothing can be compared with the logits of a reference; None if it can."""
    if not is_broken(expected):
        return None
    return f"The logits of {name}, the reference, are not finite, so nothing can be compared with them."


def difference_limit(expected: Logits, precision: str) -> float:
    """Return what a logit in a precision may differ by from a reference's: a share of the spread of all."""
    # a server may name a precision of its own: the widest limit there is
    formats = [known(part) for part in precision.split(",")]
    coarse = LOGITS.most if not all(formats) else 0.0
    finite = is_finite(expected)
    counts = np.maximum(finite.sum(axis=-1, keepdims=True), 1)
    means = np.where(finite, expected, 0).sum(axis=-1, keepdims=True) / counts
    spread = float(np.abs(np.where(finite, expected - means, 0)).max())
    return max(coarse, LOGITS.limit(*(row.name for each in formats for row in each), "fp32")) * spread


class AgreementCheck:
    """Compares one model with a reference over the same prompts."""

    def __init__(self, reference: Trace, name: str, precision: str) -> None:
        """Take the reference's tokens and logits, its name, and the precision of what is compared with it."""
        self._reference, self._name = reference, name
        self._limit = difference_limit(reference.logits, precision)
        self._errors: NDArray[np.float64] = np.zeros(len(reference.tokens))

    def logits(self, model: Any, prompts: Tokens, *, cached: bool, capacity: int = 0) -> Agreement:
        """Compare the logits of a model, given the reference's tokens, in every sequence.

        Args:
            model: as for `trace`.
            prompts: those of the reference.
            cached: as for `trace`.
            capacity: as for `trace`.

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """
        expected, count = self._reference.logits, self._reference.tokens.shape[1]
        found = trace(model, prompts, count, cached=cached, capacity=capacity, follow=self._reference.tokens).logits
        by_position = errors(found, expected).max(axis=-1)
        self._errors = by_position.max(axis=-1)
        worst, limit = float(self._errors.max()), self._limit
        right = by_position <= limit
        failure = why_broken(expected, self._name)
        if not failure and not right.all():
            row, position = (int(index) for index in np.argwhere(~right)[0])
            rows, error = int((~right.all(axis=1)).sum()), by_position[row, position]
            by = f"{error:.3g}" if np.isfinite(error) else "NaN or infinity"
            failure = (
                f"Its logits differ from those of {self._name} in {rows} of {counted(len(right), 'sequence')}, first "
                f"in sequence {row} at token {position}, by {by}; the limit is {limit:.3g}."
            )
        sequences, positions = by_position.shape
        return Agreement(self._name, sequences, positions, worst, limit, failure=failure)

    def tokens(self, agreement: Agreement, tokens: Tokens) -> Agreement:
        """Judge tokens that the model generated by itself.

        Args:
            agreement: of its logits.
            tokens: int64 [B,N].
        """
        expected, logits = self._reference
        differs = tokens != expected
        if not differs.any():
            return agreement
        rows = np.flatnonzero(differs.any(axis=1))
        first = differs[rows].argmax(axis=1)
        gaps = logits[rows, first, expected[rows, first]] - logits[rows, first, tokens[rows, first]]
        limits = 2 * self._errors[rows]
        worst = int((gaps - limits).argmax())
        gap, limit = float(gaps[worst]), float(limits[worst])
        failure = None
        if not gap <= limit:
            failure = (
                f"Its tokens differ from those of {self._name}: in sequence {rows[worst]} at token {first[worst]}, "
                f"where the reference prefers its own token by {gap:.3g}; up to {limit:.3g} is a near tie."
            )
        return replace(
            agreement,
            first_difference=int(first.min()),
            logit_gap=gap,
            logit_gap_limit=limit,
            failure=agreement.failure or failure,
        )
