"""Greedy generation with a clock: without a cache, and with keys and values that are kept."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.language import CachedModel, LogitsModel


class TimedGeneration(NamedTuple):
    """One repetition: seconds to the first token and in all, and the tokens int64 [B,N]."""

    first_s: float
    total_s: float
    tokens: NDArray[np.int64]


def generate_uncached(model: LogitsModel, prompts: NDArray[np.int64], new_tokens: int) -> TimedGeneration:
    """Pick the likeliest token `new_tokens` times, each after a forward pass over all tokens so far.

    Args:
        model: an opened model.
        prompts: int64 [B,S].
        new_tokens: at least 1.
    """
    start = time.perf_counter()
    sequence, first_s = prompts, 0.0
    for _ in range(new_tokens):
        chosen = model.last_logits(sequence).argmax(axis=-1)
        sequence = np.concatenate([sequence, chosen[:, None]], axis=1)
        first_s = first_s or time.perf_counter() - start
    return TimedGeneration(first_s, time.perf_counter() - start, sequence[:, prompts.shape[1] :])


def generate_cached(
    model: CachedModel, prompts: NDArray[np.int64], new_tokens: int, capacity: int | None = None
) -> TimedGeneration:
    """Pick the likeliest token `new_tokens` times with keys and values kept from step to step.

    Args:
        model: an opened model.
        prompts: int64 [B,S].
        new_tokens: at least 1.
        capacity: tokens to make room for; None for those of this run.
    """
    start = time.perf_counter()
    chosen = model.prefill(prompts, capacity or prompts.shape[1] + new_tokens).argmax(axis=-1)
    first_s = time.perf_counter() - start
    tokens = [chosen]
    for _ in range(new_tokens - 1):
        chosen = model.step(chosen).argmax(axis=-1)
        tokens.append(chosen)
    return TimedGeneration(first_s, time.perf_counter() - start, np.stack(tokens, axis=1))
