"""Lists with commas, which every option reads alike."""

from collections.abc import Callable

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import names, pairs, parts, shapes, signed, sizes, values


def test_blanks_empty_parts_and_repeated_ones_do_not_count() -> None:
    assert parts(" b, a,,b,") == names("--x", " b, a,,b,") == ("b", "a")
    assert sizes("--x", "8, 1,,8,08") == (8, 1)
    assert parts(" , ") == ()


@pytest.mark.parametrize("text", ["", ",", "0", "1,0", "-1", "1.5", "a", "٣", "9999999999"])
def test_sizes_that_are_none(text: str) -> None:
    with refused(UsageProblem):
        sizes("--x", text)


@pytest.mark.parametrize(
    ("read", "texts"),
    [(pairs, ("a=1", "a=2")), (values, ("a=1", "a=1")), (shapes, ("a:1", "a:2x3")), (signed, ("+A", "-A"))],
)
def test_what_is_given_twice_is_refused(read: Callable[..., object], texts: tuple[str, ...]) -> None:
    assert read("--x", texts[:1])
    with pytest.raises(UsageProblem, match="given twice; pass it once"):
        read("--x", texts)
