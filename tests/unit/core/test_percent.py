"""Shares in percent: never 0 of something nor 100 of less than all, and written in one place."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trt_workbench
from trt_workbench.core.percent import share

PACKAGE = Path(trt_workbench.__file__).parent
WRITERS = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".j2"))
SIGNED = "{cost:+.1%}"  # a change, which may be 0 when rounded


@given(st.floats(0, 1), st.integers(0, 1))
def test_a_share_is_never_rounded_away(value: float, digits: int) -> None:
    text = share(value, digits)
    figure = float(text.strip("<> "))
    assert (figure == 0) == (value == 0)
    assert (figure == 100) == (value == 1)
    if text[0] == "<":
        assert 100 * value < figure
    elif text[0] == ">":
        assert 100 * value > figure
    else:
        assert abs(figure - 100 * value) <= 0.5 * 10**-digits + 1e-9


def test_small_and_large_shares() -> None:
    assert [share(value) for value in (0, 0.003, 0.3, 0.9999, 1)] == ["0", "0.3", "30", "99.99", "100"]
    assert (share(1e-7), share(1 - 1e-7), share(0.0451, 1)) == ("< 0.001", "> 99.999", "4.5")


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.name)
def test_no_other_place_rounds_a_share(path: Path) -> None:
    text = path.read_text("utf-8").replace(SIGNED, "")
    assert re.findall(r":[+.0-9]*[0-9]%\}|\{[^{}]*100 \* [\w.()]*share[^{}]*(?:: ?|\| figure)[^{}]*\}", text) == []
