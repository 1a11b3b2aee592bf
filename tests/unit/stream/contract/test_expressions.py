"""Expressions of contracts: exact arithmetic, and nothing but arithmetic."""

import contextlib
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_workbench.stream.contract.expressions import Expression

_NAMES = {"T": 121, "L": 3, "C": 70, "K": 8, "To": 14, "a": 5, "b": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(T - 9) / 8", 14),
        ("ceil(L * (C + K) / To) + 1", 18),
        ("min(a + To, C)", 19),
        ("floor(7 / 2) - -1", 4),
        ("2 ** 10 % 1000", 24),
        ("a if b else T // 2", 60),
        ("max(1, 2, 3) - abs(0 - 4)", -1),
        (80, 80),
    ],
)
def test_whole_numbers_are_exact(text: str | int, value: int) -> None:
    assert Expression(text).whole(_NAMES) == value


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("0 <= a <= C", True),
        ("0 <= a < 5", False),
        ("a == 5 and not b", True),
        ("b or a != 5", False),
        ("1 / 3 + 1 / 3 + 1 / 3 == 1", True),
    ],
)
def test_comparisons(text: str, true: bool) -> None:
    assert bool(Expression(text)(_NAMES)) is true


def test_a_total_is_the_sum_over_the_chunks_of_a_stream() -> None:
    check = Expression("total(frames) * 8 == total(new) + chunk - 2")
    chunks = [{"frames": 2, "new": 16, "chunk": 0}, {"frames": 3, "new": 24, "chunk": 1}, {"frames": 0, "new": 0}]
    assert check.streams
    assert check({"chunk": 2}, chunks) is True
    assert check({"chunk": 3}, chunks) is False
    assert check.totals(chunks) == {"total(frames)": 5, "total(new)": 40}


def test_a_name_that_is_none_of_python_s_is_quoted() -> None:
    found = Expression('value("present.0.len") + a')
    assert (found.names, found({"present.0.len": 2, "a": 3})) == ({"present.0.len", "a"}, 5)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.b",
        "a[0]",
        "[1, 2]",
        "lambda: 1",
        "f(1)",
        "min(*a)",
        "min(1)",
        "min(1, 2, key=3)",
        "'a' * 9",
        "1 in a",
        "1 is 1",
        "1j",
        "(x := 1)",
        "~1",
        "1 << 60",
        "1e400",
        "9" * 30,
        "1if",
        "",
        "a b",
        "min",
        "total(total(1))",
        "value(1)",
        "(" * 200,
        "-" * 400 + "1",
        "+".join("a" * 200),
        "a" * 501,
        "\0",
        "\udcff",
    ],
)
def test_what_is_more_than_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|arithmetic|2\^63|nested|arguments|as a name"):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9 ** 9 ** 9", "exponent"),
        ("2 ** 62 * 2 ** 62", "above 2^63"),
        ("(1 / 9223372036854775807) ** 9", "above 2^63"),
        ("1 / b", "divides by zero"),
        ("1.0 % b", "divides by zero"),
        ("T + nothing", "needs nothing"),
        ("(T - 9) / 9", "is 112/9, not a whole number"),
        ("a == 5", "not a whole number"),
    ],
)
def test_what_cannot_be_computed_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("^", r"\^")):
        Expression(text).whole(_NAMES)


@given(st.text(alphabet="aT0123456789+-*/%()<=>. minvalue\"[]'_,:", max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        Expression(text)(_NAMES)


_TREES = st.recursive(
    st.integers(0, 50).map(str) | st.sampled_from(["T", "C", "a"]),
    lambda part: st.tuples(part, st.sampled_from("+-*/"), part).map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
    max_leaves=6,
)


@given(_TREES)
def test_arithmetic_is_that_of_fractions(text: str) -> None:
    numbers: dict[str, Any] = {name: Fraction(value) for name, value in _NAMES.items()}
    try:
        expected = eval(_as_fractions(text), {"Fraction": Fraction, **numbers})  # of our own making
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides by zero"):
            Expression(text)(_NAMES)
        return
    assert Expression(text)(_NAMES) == expected


def _as_fractions(text: str) -> str:
    words = text.replace("(", "( ").replace(")", " )").split()
    return " ".join(f"Fraction({word})" if word.isdigit() else word for word in words)
