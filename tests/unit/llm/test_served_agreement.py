"""What a server generated against a reference of a few letters: near ties, ends of texts, readings of a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trt_workbench.backends.language import Continuation
from trt_workbench.core.compare import log_softmax
from trt_workbench.llm.agreement import Trace
from trt_workbench.llm.served_agreement import ServedAgreement, ServedCheck

LETTERS = "abcdef "
END = 6
PROMPTS = np.array([[0, 1]])
# The reference writes "abcd"; at the third place "d" is as likely as "c" up to rounding, and "f" is far away.
LOGITS = np.full((1, 4, 7), -5, np.float32)
for place, letter in enumerate((0, 1, 2, 3)):
    LOGITS[0, place, letter] = 5
LOGITS[0, 2, 3] = np.nextafter(np.float32(5), np.float32(0))


def decode(tokens: Sequence[int]) -> str:
    return "".join(LETTERS[token] for token in tokens if token != END)


def judged(own: Sequence[int] = (0, 1, 2, 3), logits: Any = LOGITS, **given: Any) -> ServedAgreement:
    check = ServedCheck(Trace(np.array([own]), logits), "reference", "fp32", PROMPTS, decode, frozenset({END}))
    return check.judge([Continuation(**{"tokens": None, "text": "", "logprobs": None, "ended": False, **given})])


@pytest.mark.parametrize("given", [{"tokens": (0, 1, 3, 3)}, {"text": "abdd"}])
def test_a_near_tie_is_right(given: dict[str, Any]) -> None:
    found = judged(**given)
    assert found.failure is None
    assert (found.first_difference, found.compared) == (2, "tokens" if "tokens" in given else "text")
    assert found.logit_gap is not None
    assert 0 < found.logit_gap < 1e-5
    assert found.logit_gap_limit == pytest.approx(2 * found.logit_difference_limit)


@pytest.mark.parametrize("given", [{"tokens": (0, 1, 5, 3)}, {"text": "abfd"}, {"tokens": (0, 1, 2, 5)}, {"text": "x"}])
def test_another_token_is_wrong(given: dict[str, Any]) -> None:
    assert "prefers its own token" in str(judged(**given).failure)


def test_a_text_that_ends_where_the_references_ends_is_compared_up_to_there() -> None:
    own = (0, 1, END, 3)
    for given in ({"tokens": (0, 1, END)}, {"tokens": (0, 1)}, {"text": "ab"}):
        found = judged(own, ended=True, **given)
        assert (found.failure, found.first_difference, found.tokens) == (None, None, 2), given
    for given in ({"tokens": (0,)}, {"tokens": (0, END)}, {"text": "a"}):
        assert "at token 1" in str(judged(own, ended=True, **given).failure), given


def test_log_probabilities_of_what_both_generate_are_compared() -> None:
    right = log_softmax(LOGITS[0])[np.arange(4), [0, 1, 2, 3]]
    found = judged(tokens=(0, 1, 2, 3), logprobs=tuple(right))
    assert (found.failure, found.max_logprob_difference) == (None, 0.0)
    off = judged(tokens=(0, 1, 2, 3), logprobs=(*right[:3], right[3] - 1))
    assert off.max_logprob_difference == pytest.approx(1)
    assert "log-probabilities differ" in str(off.failure)
    # behind a token that is another one, they are of another text
    tie = judged(tokens=(0, 1, 3, 5), logprobs=(*right[:2], log_softmax(LOGITS[0])[2, 3], -9.0))
    assert (tie.failure, tie.first_difference) == (None, 2)


def test_a_text_may_begin_with_what_the_prompt_hides() -> None:
    """Of words that begin with a space, one that stands first has none."""

    def words(tokens: Sequence[int]) -> str:
        return " ".join(LETTERS[token] for token in tokens)

    check = ServedCheck(Trace(np.array([[0, 1, 2, 3]]), LOGITS), "reference", "fp32", PROMPTS, words, frozenset())
    for text in ("a b c d", " a b c d"):
        assert check.judge([Continuation(None, text, None, ended=False)]).first_difference is None


def test_a_reference_that_is_not_finite_compares_nothing() -> None:
    broken = LOGITS.copy()
    broken[0, 1, 1] = np.nan
    assert "not finite" in str(judged(logits=broken, tokens=(0, 1, 2, 3)).failure)
