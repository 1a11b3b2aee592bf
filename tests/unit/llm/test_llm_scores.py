import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.llm.scores import TokenScores, score_logits


def random_logits(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, columns)).astype(np.float32)


def test_a_model_that_knows_nothing_has_the_vocabulary_as_perplexity() -> None:
    scores = score_logits(np.zeros((50, 300), np.float32), None, np.arange(50))
    assert scores.perplexity == pytest.approx(300, rel=1e-12)
    assert scores.top1_agreements == scores.tokens == 50


@given(st.integers(1, 40), st.integers(2, 60), st.integers(0, 99))
def test_scores_by_definition(rows: int, columns: int, seed: int) -> None:
    reference, logits = random_logits(rows, columns, seed), random_logits(rows, columns, seed + 100)
    targets = np.random.default_rng(seed).integers(0, columns, rows)
    p = np.exp(reference.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    q = np.exp(logits.astype(np.float64))
    q /= q.sum(axis=1, keepdims=True)
    scores = score_logits(reference, logits, targets)
    assert scores.nll == pytest.approx(-np.log(q[np.arange(rows), targets]).sum(), rel=1e-9)
    divergence = (p * np.log(p / q)).sum(axis=1)
    assert scores.kl == pytest.approx(divergence.sum(), rel=1e-9)
    assert scores.max_kl == pytest.approx(divergence.max(), rel=1e-9)
    assert scores.top1_agreements == (p.argmax(axis=1) == q.argmax(axis=1)).sum()
    assert scores.max_logit_difference == pytest.approx(np.abs(reference - logits).max())


def test_blocks_make_no_difference() -> None:
    reference, logits = random_logits(300, 5000, 0), random_logits(300, 5000, 1)
    targets = np.arange(300)
    whole = score_logits(reference, logits, targets)
    parts = [slice(start, start + 7) for start in range(0, 300, 7)]
    summed = sum((score_logits(reference[part], logits[part], targets[part]) for part in parts), TokenScores())
    assert whole.nll == pytest.approx(summed.nll, rel=1e-12)
    assert (whole.tokens, whole.max_kl, whole.top1_agreements) == (300, summed.max_kl, summed.top1_agreements)


def test_equal_logits() -> None:
    logits = random_logits(20, 100, 0)
    scores = score_logits(logits, logits, np.arange(20))
    assert (scores.kl, scores.max_logit_difference, scores.top1_agreements) == (0.0, 0.0, 20)


@pytest.mark.parametrize("excluded", [[0], [9], [0, 4, 9], list(range(1, 10))])
def test_tokens_that_both_exclude_add_nothing(excluded: list[int]) -> None:
    reference, logits = random_logits(4, 10, 0), random_logits(4, 10, 1)
    kept = np.delete(np.arange(10), excluded)
    targets = np.full(4, kept[0])
    without = score_logits(reference[:, kept], logits[:, kept], np.zeros(4, int))
    reference[:, excluded] = logits[:, excluded] = -np.inf
    scores = score_logits(reference, logits, targets)
    assert scores.nll == pytest.approx(without.nll, rel=1e-9)
    assert scores.kl == pytest.approx(without.kl, abs=1e-12)
    assert (scores.top1_agreements, scores.max_logit_difference) == (
        without.top1_agreements,
        without.max_logit_difference,
    )


def test_a_token_that_the_backend_alone_excludes_is_seen() -> None:
    reference = random_logits(2, 10, 0)
    logits = reference.copy()
    logits[1, 3] = -np.inf
    scores = score_logits(reference, logits, np.zeros(2, int))
    assert (scores.kl, scores.max_logit_difference) == (math.inf, math.inf)


def test_nan_is_not_hidden() -> None:
    reference = random_logits(4, 10, 0)
    broken = reference.copy()
    broken[2, 3] = np.nan
    total = score_logits(reference, broken, np.arange(4)) + score_logits(reference, reference, np.arange(4))
    assert math.isnan(total.perplexity)
    assert total.max_logit_difference == math.inf
    assert math.isnan((TokenScores() + total).max_kl)


def test_a_perplexity_beyond_what_floats_hold() -> None:
    assert TokenScores(tokens=1, nll=1e6).perplexity == math.inf
