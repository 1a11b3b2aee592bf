"""A language model that runs whole sequences, or a prompt and then token by token, whatever executes it."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.model.llm_directory import LlmDirectory

Logits = NDArray[np.float32]
Tokens = NDArray[np.int64]


class PromptScores(NamedTuple):
    """What a served model says of prompts [B,S]; of the first token it says nothing.

    Attributes:
        logprobs: float64 [B,S], of each token after those before it, nats.
        likeliest: int64 [B,S], the likeliest token at each place; -1 where the server does not say which it is.
    """

    logprobs: NDArray[np.float64]
    likeliest: NDArray[np.int64]


class Continuation(NamedTuple):
    """What a served model generates after a prompt.

    Attributes:
        tokens: their ids; None where the server gives only their text.
        text: without special tokens.
        logprobs: of each token, nats; None where the server gives none.
        ended: whether the model ended it, by a token that ends texts.
    """

    tokens: tuple[int, ...] | None
    text: str
    logprobs: tuple[float, ...] | None
    ended: bool


@runtime_checkable
class PromptModel(Protocol):
    """A model on a server: log-probabilities of a prompt's tokens, and what it generates, in place of logits."""

    def prompt_scores(self, input_ids: Tokens) -> PromptScores:
        """Score prompts int64 [B,S]. Raises UsageProblem or DeviceFailure as the server answers."""

    def continuations(self, input_ids: Tokens, count: int) -> list[Continuation]:
        """Generate `count` tokens after each prompt int64 [B,S], greedily. Raises as `prompt_scores`."""


class LogitsModel(Protocol):
    """Runs whole sequences without a cache."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What executes the model, for the record."""

    def logits(self, input_ids: Tokens) -> Logits:
        """Return the logits, float32 [B,S,V], of sequences int64 [B,S].

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """

    def last_logits(self, input_ids: Tokens) -> Logits:
        """Return only the logits of the last position, float32 [B,V]: all that the next token needs on the host.

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """

    def explained(self, input_ids: Tokens) -> str:
        """Return which inner values leave the range of its format, as the end of a sentence; "" for none known."""

    def close(self) -> None:
        """Release the model."""


class CachedModel(Protocol):
    """Runs sequences token by token with keys and values that are kept."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What executes the model, for the record."""

    def prefill(self, input_ids: Tokens, capacity: int) -> Logits:
        """Start sequences with a prompt, int64 [B,S], that will reach `capacity` tokens; return logits [B,V] after it.

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """

    def step(self, tokens: Tokens) -> Logits:
        """Append one token, int64 [B], to every sequence; return logits [B,V] after it.

        Raises:
            UsageProblem: nothing was started, or keys and values of a fixed length are full.
            DeviceFailure: the device is out of memory or failed.
        """

    def memory_bytes(self) -> dict[str, int]:
        """Return what the runtime says it holds, by purpose; empty if it does not say."""

    def close(self) -> None:
        """Release the model."""


class LanguageModel(LogitsModel, CachedModel, Protocol):
    """Runs both; what `LanguageBackend.load_language` returns."""


class LanguageBackend(abc.ABC):
    """A backend that loads a language model from its own folder; every other one runs exported graphs."""

    @abc.abstractmethod
    def load_language(self, directory: LlmDirectory, options: SessionOptions) -> LanguageModel:
        """Load a language model from its own folder.

        Raises:
            UsageProblem: an option is unknown, or the model is not available as requested.
            ComponentMissing: the runtime is missing.
            DeviceFailure: there is not enough memory.
        """

    @abc.abstractmethod
    def check_language_options(self, options: Mapping[str, Any]) -> None:
        """Raise UsageProblem for an option that this backend takes only for other models."""
