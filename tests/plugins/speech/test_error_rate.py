"""Word error rates, compared with a plain dynamic program, and their paired intervals."""

import functools
import random
import unicodedata

import numpy as np
import pytest

from trt_workbench_speech.error_rate import Rates, errors_between, normalized, one_form


def distance(right: tuple[str, ...], found: tuple[str, ...]) -> int:
    """Levenshtein's recursion, word by word from the front."""

    @functools.cache
    def left(one: int, other: int) -> int:
        if one == len(right) or other == len(found):
            return len(right) - one + len(found) - other
        change = left(one + 1, other + 1) + (right[one] != found[other])
        return min(change, left(one + 1, other) + 1, left(one, other + 1) + 1)

    return left(0, 0)


def test_a_thousand_pairs_have_the_distance_of_a_plain_program() -> None:
    draw = random.Random(0)
    for _ in range(1000):
        right, found = (tuple(draw.choices("abcd", k=draw.randrange(12))) for _ in range(2))
        errors = errors_between(right, found)
        assert errors.total == distance(right, found), (right, found)
        assert len(right) - errors.deletions + errors.insertions == len(found)
        assert errors_between(found, right).total == errors.total


@pytest.mark.parametrize(
    ("right", "found", "errors"),
    [
        ("a b c", "a b c", (0, 0, 0)),
        ("a b c", "a x c", (1, 0, 0)),
        ("a b c", "a c", (0, 1, 0)),
        ("a c", "a b c", (0, 0, 1)),
        ("", "a b", (0, 0, 2)),
        ("a b", "", (0, 2, 0)),
        ("a b", "b a", (2, 0, 0)),
    ],
)
def test_kinds_of_errors(right: str, found: str, errors: tuple[int, int, int]) -> None:
    assert errors_between(right.split(), found.split()) == errors


def test_rates_are_of_all_words_and_paired() -> None:
    lengths = [1, 9] * 50
    errors = [1, 0] * 50
    rates = Rates(lengths, 0)
    found = rates.rate(errors)
    assert found.value == 0.1
    assert found.ci95 is not None
    assert 0.06 < found.ci95[0] < 0.1 < found.ci95[1] < 0.16
    # one has exactly an error more in each utterance: what is drawn does not matter
    more = rates.difference([one + length for one, length in zip(errors, lengths, strict=True)], errors)
    assert more.value == 1.0
    assert more.ci95 == pytest.approx((1.0, 1.0))


def test_one_utterance_with_all_words_has_no_interval() -> None:
    lengths = np.zeros(40, int)
    lengths[3] = 5
    assert Rates(list(lengths), 0).rate([0] * 40).ci95 is None


def test_case_and_punctuation() -> None:
    assert normalized("“Don't—stop,” she SAID.") == "don't stop she said"


@pytest.mark.timeout(60)  # a loop in Python takes minutes
def test_long_texts_take_little_time() -> None:
    draw = random.Random(0)
    right = draw.choices("abcdefgh", k=4000)
    found = [word for word in right if draw.random() > 0.1]
    assert errors_between(right, found) == (0, 4000 - len(found), 0)
    assert errors_between(["a"] * 4000, ["b"] * 3000) == (3000, 1000, 0)


@pytest.mark.parametrize(
    ("right", "found"),
    [
        ("café über", unicodedata.normalize("NFD", "café über")),
        ("don't it's", "don\u2019t it\u2019s"),
        ("rock 'n' roll", "rock \u2019n\u2019 roll"),
        ("o'clock", "o\u02bcclock"),
        ("good day", "\ufeffgood day"),
        ("cooperate", "co\u00adoperate"),
        ("good day", "good \u200bday"),
        ("good day", "\u200fgood\u200e day"),
        ("İstanbul", unicodedata.normalize("NFD", "İstanbul")),
        ("한국어", unicodedata.normalize("NFD", "한국어")),
    ],
)
def test_forms_of_one_text_are_no_errors(right: str, found: str) -> None:
    assert right != found
    assert one_form(right) == one_form(found)
    assert normalized(right) == normalized(found)


def test_quotation_marks_are_no_apostrophes_of_a_word() -> None:
    assert normalized("\u2018Hello,\u2019 she said") == normalized('"Hello", she said') == "hello she said"
    assert normalized("the dogs\u2019 tails") == normalized("the dogs' tails")
