"""Percent: never 0 of something nor 100 of less than all, and one form that one place writes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trt_workbench
from trt_workbench.core.percent import change, covered, limit, share, signed

PACKAGE = Path(trt_workbench.__file__).parent
WRITERS = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".j2") and path.name != "percent.py")
STYLES = re.compile(r'(?s)<style.*?</style>|style="width: \{.*?\}%"|512M, 50%')  # and what TensorRT reads
# A sign behind a figure that is formatted there, a format that adds one, and a sign without a space.
ELSEWHERE = re.compile(r"\} ?%(?!\})|:[+.\d]*\d%\}|\* 100 *[)}]* *%|\d%(?!\})")


@given(st.floats(0, 1), st.integers(0, 1))
def test_a_share_is_never_rounded_away(value: float, digits: int) -> None:
    text = share(value, digits)
    figure = float(text.strip("<> %"))
    assert text.endswith(" %")
    assert (figure == 0) == (value == 0)
    assert (figure == 100) == (value >= 1 - 1e-12)
    if text[0] == "<":
        assert 100 * value < figure
    elif text[0] == ">":
        assert 100 * value > figure
    else:
        assert abs(figure - 100 * value) <= 0.5 * 10**-digits + 1e-9


def test_small_and_large_shares() -> None:
    assert [share(value) for value in (0, 0.003, 0.3, 0.9999, 1)] == ["0 %", "0.3 %", "30 %", "99.99 %", "100 %"]
    assert (share(1e-7), share(1 - 1e-7), share(0.0451, 1)) == ("< 0.001 %", "> 99.999 %", "4.5 %")


def test_all_of_many_parts_are_100_percent_although_their_sum_is_rounded() -> None:
    whole = 0.0
    for _ in range(10):
        whole += 0.1
    assert whole < 1
    assert share(whole) == "100 %"


def test_what_is_no_share() -> None:
    assert (signed(-0.012, 1), signed(0.5)) == ("\N{MINUS SIGN}1.2 %", "+50 %")
    # one form of a change, whatever its size: none has an exponent
    changes = {0.0: "0 %", 1.05123e-11: "< 0.0001 %", -9.54e-5: "\N{MINUS SIGN}0.0095 %", 2.1: "+210.0000 %"}
    assert {value: change(value) for value in changes} == changes
    assert [limit(value) for value in (0.05, 0.025, 0.07)] == ["5 %", "2.5 %", "7 %"]
    assert covered(0.9609375) == "96 %"


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.name)
def test_no_other_place_writes_a_percent(path: Path) -> None:
    text = STYLES.sub("", path.read_text("utf-8"))
    assert ELSEWHERE.findall(text) == []
