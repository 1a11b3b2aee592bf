"""What counts as the same generation, on a model that is a table of logits."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.texts import held

from trt_workbench.core.errors import UsageProblem
from trt_workbench.llm.agreement import Agreement, AgreementCheck, Disagreement, reference_trace, trace

Logits = NDArray[np.float32]
VOCABULARY = 8
PROMPTS = np.array([[1, 2, 3], [4, 5, 6]])


@dataclass
class Table:
    """Logits that depend on the tokens so far, changed by `fault` (logits of a position, number of tokens so far)."""

    fault: Callable[[Logits, int], Logits] = lambda logits, _: logits
    sequences: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def last_logits(self, sequences: NDArray[np.int64]) -> Logits:
        rows = [np.random.default_rng(tuple(row)).normal(size=VOCABULARY) for row in sequences.tolist()]
        return self.fault(np.array(rows, np.float32), sequences.shape[1])

    def prefill(self, prompts: NDArray[np.int64], capacity: int) -> Logits:
        assert capacity == 8
        self.sequences = prompts
        return self.last_logits(prompts)

    def step(self, tokens: NDArray[np.int64]) -> Logits:
        # an array of its own, whose strides do not tell how long the sequence is
        assert tokens.base is None
        assert tokens.strides == (tokens.itemsize,)
        self.sequences = np.concatenate([self.sequences, tokens[:, None]], axis=1)
        return self.last_logits(self.sequences)


def judged(model: Table, precision: str = "fp32", *, cached: bool = True) -> Agreement:
    """Compare logits, then what the model generates by itself."""
    reference = trace(Table(), PROMPTS, 5, cached=False)
    comparison = AgreementCheck(reference, "the reference", precision)
    agreement = comparison.logits(model, PROMPTS, cached=cached, capacity=8)
    return comparison.tokens(agreement, trace(model, PROMPTS, 5, cached=cached, capacity=8).tokens)


def second(logits: Logits) -> Logits:
    """The likeliest and the next change places in the last sequence."""
    changed = logits.copy()
    first, other = np.argsort(changed[-1])[-1:-3:-1]
    changed[-1, [first, other]] = changed[-1, [other, first]]
    return changed


@pytest.mark.parametrize("cached", [False, True])
def test_the_same(cached: bool) -> None:
    found = judged(Table(), cached=cached).or_raise()
    assert found == Agreement("the reference", 2, 5, 0.0, found.logit_difference_limit)
    assert 4e-4 < found.logit_difference_limit < 2e-3


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8,fp16"])
def test_rows_after_the_first(precision: str) -> None:
    """What TensorRT 8.6 did."""
    found = judged(Table(lambda logits, _: np.stack([logits[0], -logits[1]])), precision)
    held(str(found.failure))
    with pytest.raises(Disagreement) as caught:
        found.or_raise()
    assert str(caught.value) == found.failure
    assert caught.value.exit_code == 1


def test_the_position_is_named() -> None:
    found = judged(Table(lambda logits, length: logits + (length == 5)))
    held(str(found.failure))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number(value: float) -> None:
    def fault(logits: Logits, length: int) -> Logits:
        return np.where((np.arange(2)[:, None] == 1) & (length == 6), value, logits).astype(np.float32)

    assert "sequence 1 at token 3" in str(judged(Table(fault), "fp16").failure)


def test_a_wrong_token_though_the_logits_were_right() -> None:
    calls = []

    def fault(logits: Logits, _: int) -> Logits:
        calls.append(logits)
        return second(logits) if len(calls) == 5 + 3 else logits  # five calls compare the logits

    found = judged(Table(fault))
    assert (found.max_logit_difference, found.first_difference) == (0.0, 2)
    held(str(found.failure))
    assert found.logit_gap is not None
    assert found.logit_gap > 0 == found.logit_gap_limit


@pytest.mark.parametrize(("precision", "excused"), [("fp16", True), ("fp32", False)])
def test_near_ties(precision: str, excused: bool) -> None:
    """Rounding that is usual in fp16 turns one token over; in fp32 it would be a fault."""

    def near(logits: Logits, length: int) -> Logits:
        if length != 5:
            return logits
        changed = logits.copy()
        first, other = np.argsort(changed[1])[-1:-3:-1]
        changed[1, other] = changed[1, first] + np.float32(1e-3)
        return changed

    plain = trace(Table(), PROMPTS, 5, cached=False).logits[1, 2]
    gap = float(np.diff(np.sort(plain))[-1])
    found = judged(Table(near), precision)
    assert (gap < found.logit_difference_limit) == excused
    assert (found.failure is None) == excused
    assert found.first_difference == 2
    assert found.logit_gap == pytest.approx(gap)
    assert found.logit_gap_limit == pytest.approx(2 * (gap + 1e-3))


def test_a_reference_that_is_not_finite_is_named() -> None:
    reference = trace(Table(lambda logits, _: logits * np.float32(np.nan)), PROMPTS, 5, cached=False)
    found = AgreementCheck(reference, "the reference", "fp32").logits(Table(), PROMPTS, cached=False)
    held(found.failure)


class Whole(Table):
    """Gives the logits of all positions, too, and counts its passes; `broken` says what is wrong with its cache."""

    passes = 0
    broken = ""

    def logits(self, sequences: NDArray[np.int64]) -> Logits:
        self.passes += 1
        return np.stack(
            [super(Whole, self).last_logits(sequences[:, :end]) for end in range(1, len(sequences[0]) + 1)], 1
        )

    def last_logits(self, sequences: NDArray[np.int64]) -> Logits:
        self.passes += 1
        return super().last_logits(sequences)

    def prefill(self, prompts: NDArray[np.int64], capacity: int) -> Logits:
        if self.broken == "absent":
            raise UsageProblem("This model takes no keys and values that are kept.")
        return super().prefill(prompts, capacity)

    def step(self, tokens: NDArray[np.int64]) -> Logits:
        found = super().step(tokens)
        return second(found) if self.broken == "wrong" else found


@pytest.mark.parametrize(("broken", "passes"), [("", 5 + 1), ("wrong", 5 + 1 + 5), ("absent", 5)])
def test_the_reference_is_right_whatever_its_cache_does(broken: str, passes: int) -> None:
    """Tokens by the cache and one pass over all of them, else a pass for every token."""
    model = Whole()
    model.broken = broken
    found, expected = reference_trace(model, PROMPTS, 5), trace(Table(), PROMPTS, 5, cached=False)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.logits, expected.logits)
    assert model.passes == passes
