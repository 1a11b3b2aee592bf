"""Whether a server generates what the reference generates. It gives tokens, their log-probabilities, or only a text.

Where it gives log-probabilities, those of the tokens that both generate are compared, too. At the first token that is
another one, the reference may prefer its own by twice the limit of a logit: a near tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from trt_workbench.backends.language import Continuation, Tokens
from trt_workbench.core.compare import log_softmax
from trt_workbench.core.elements import errors
from trt_workbench.llm.agreement import Agreement, Trace, difference_limit, why_broken

Decode = Callable[[Sequence[int]], str]
_CUT = "\N{REPLACEMENT CHARACTER}"  # the first bytes of a character whose last are in the next token


@dataclass(frozen=True)
class ServedAgreement(Agreement):
    """How near a served model is to the reference.

    Attributes:
        compared: ids of tokens, or only their text.
        max_logprob_difference: of any token that both generate, nats; None where the server gives none.
    """

    compared: Literal["tokens", "text"] = "tokens"
    max_logprob_difference: float | None = None


class _Row(NamedTuple):
    """One sequence: how many tokens were compared, where the first differs, and by how much the reference minds."""

    compared: int
    first: int | None = None
    gap: float = 0.0
    error: float | None = None


class ServedCheck:
    """Compares served models with a reference over the same prompts."""

    def __init__(
        self, reference: Trace, name: str, precision: str, prompts: Tokens, decode: Decode, ends: frozenset[int]
    ) -> None:
        """Take the reference, and what its tokens mean.

        Args:
            reference: its tokens and logits.
            name: of the reference.
            precision: of what is compared with it.
            prompts: int64 [B,S].
            decode: tokens to their text without special tokens.
            ends: tokens that end a text.
        """
        self._reference, self._name, self._prompts = reference, name, prompts
        self._decode, self._ends = decode, ends
        self._limit = difference_limit(reference.logits, precision)

    def judge(self, found: Sequence[Continuation]) -> ServedAgreement:
        """Compare what a server generated after each prompt."""
        expected = self._reference.logits
        rows = [self._row(index, one) for index, one in enumerate(found)]
        by_text = any(one.tokens is None for one in found)
        limit = 2 * self._limit
        differing = [index for index, row in enumerate(rows) if row.first is not None]
        worst = max(differing, key=lambda index: rows[index].gap, default=None)
        error = max((row.error for row in rows if row.error is not None), default=None)
        failure = why_broken(expected, self._name)
        if not failure and error is not None and not error <= self._limit:
            index = next(index for index, row in enumerate(rows) if row.error == error)
            failure = (
                f"Its log-probabilities differ from those of {self._name}, most in sequence {index}, by {error:.3g}; "
                f"the limit is {self._limit:.3g}."
            )
        if not failure and worst is not None and not rows[worst].gap <= limit:
            what = (
                f"Its text differs from that of {self._name}" if by_text else f"Its tokens differ from {self._name}'s"
            )
            gap = rows[worst].gap
            by = f"by {gap:.3g}" if np.isfinite(gap) else "to every other that fits"
            failure = (
                f"{what}: in sequence {worst} at token {rows[worst].first}, where the reference prefers its own token "
                f"{by}; up to {limit:.3g} is a near tie."
            )
        return ServedAgreement(
            self._name,
            len(rows),
            min(row.compared for row in rows),
            None,
            self._limit,
            min((rows[index].first or 0 for index in differing), default=None),
            None if worst is None else rows[worst].gap,
            None if worst is None else limit,
            failure,
            "text" if by_text else "tokens",
            error,
        )

    def _row(self, index: int, found: Continuation) -> _Row:
        own: list[int] = self._reference.tokens[index].tolist()
        end = next((place for place, token in enumerate(own) if token in self._ends), len(own))
        if found.tokens is not None:
            row = self._by_ids(index, own, end, found)
        else:
            prompt = self._prompts[index].tolist()
            before = len(self._decode(prompt))
            # some servers give the text as it follows the prompt, some the text of the new tokens alone
            readings: tuple[Decode, ...] = (self._decode, lambda tokens: self._decode([*prompt, *tokens])[before:])
            rows = [self._by_text(index, own, end, found, reading) for reading in readings]
            row = max(rows, key=lambda one: len(own) if one.first is None else one.first)
        return row._replace(error=self._error(index, own, row, found))

    def _by_ids(self, index: int, own: list[int], end: int, found: Continuation) -> _Row:
        given = list(found.tokens or ())
        if found.ended and given and given[-1] in self._ends:
            del given[-1]
        if given == own or (found.ended and given == own[:end]):
            return _Row(len(given))
        first = next((place for place, pair in enumerate(zip(given, own, strict=False)) if pair[0] != pair[1]), None)
        if first is None:  # it ended earlier
            return _Row(len(given), len(given), self._gap(index, len(given), own, self._ends))
        return _Row(first + 1, first, self._gap(index, first, own, [given[first]]))

    def _by_text(self, index: int, own: list[int], end: int, found: Continuation, read: Decode) -> _Row:
        if found.text == read(own) or (found.ended and found.text == read(own[:end])):
            return _Row(len(own) if found.text == read(own) else end)
        known = range(len(own) - 1, -1, -1)
        first = next(place for place in known if found.text.startswith(read(own[:place]).rstrip(_CUT)))
        start = read(own[:first]).rstrip(_CUT)
        fitting: Iterable[int] = (
            token
            for token in self._near(index, first, own)
            if len(start) < len(text := read([*own[:first], token]).rstrip(_CUT)) and found.text.startswith(text)
        )
        if found.ended and found.text == start:
            fitting = self._ends
        return _Row(first, first, self._gap(index, first, own, fitting))

    def _near(self, index: int, place: int, own: list[int]) -> list[int]:
        """Return the tokens that may be chosen in place of the reference's, if both are right."""
        logits = self._reference.logits[index, place]
        near = np.flatnonzero(logits >= logits[own[place]] - 2 * self._limit)
        return [int(token) for token in near if token != own[place]]

    def _gap(self, index: int, place: int, own: list[int], others: Iterable[int]) -> float:
        """Return how much more the reference gives its own token than the best of others; infinity for none."""
        logits = self._reference.logits[index, place]
        return float(min((logits[own[place]] - logits[other] for other in others), default=np.inf))

    def _error(self, index: int, own: list[int], row: _Row, found: Continuation) -> float | None:
        """Return the largest difference of a log-probability where both had the same tokens before."""
        if found.logprobs is None or (
            found.tokens is None and (row.first is not None or len(found.logprobs) != len(own))
        ):
            return None  # equal beginnings of a text may be of other tokens
        tokens = found.tokens or own
        count = min(row.compared, len(found.logprobs))
        if not count:
            return None
        expected = log_softmax(self._reference.logits[index, :count])[np.arange(count), tokens[:count]]
        return float(errors(np.array(found.logprobs)[:count], expected).max())
