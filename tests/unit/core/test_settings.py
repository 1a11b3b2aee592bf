"""Lists with commas, which every option reads alike."""

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import names, parts, sizes


def test_blanks_empty_parts_and_repeated_ones_do_not_count() -> None:
    assert parts(" b, a,,b,") == names("--x", " b, a,,b,") == ("b", "a")
    assert sizes("--x", "8, 1,,8,08") == (8, 1)
    assert parts(" , ") == ()


@pytest.mark.parametrize("text", ["", ",", "0", "1,0", "-1", "1.5", "a", "٣", "9999999999"])
def test_sizes_that_are_none(text: str) -> None:
    with refused(UsageProblem):
        sizes("--x", text)
