"""Logits as distributions: their probabilities, and how far one is from another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities along the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def divergence(found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Kullback-Leibler divergence of every row from the expected one, in nats.

    Args:
        found: logarithms of probabilities [N,V].
        expected: those of the reference; what it excludes (-inf) adds nothing.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        gain = np.where(np.isneginf(expected), 0.0, expected - found)
    # rounding alone can make a divergence of nothing slightly negative
    found_divergence: NDArray[np.float64] = np.maximum(np.einsum("nv,nv->n", np.exp(expected), gain), 0.0)
    return found_divergence
