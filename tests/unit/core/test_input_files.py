"""Reading JSON that comes from outside."""

import pytest

from trt_workbench.core.input_files import parse_json


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "1" + "0" * 400 + ".0"])
@pytest.mark.parametrize("encoded", [False, True])
def test_numbers_that_are_not_finite_are_refused(number: str, encoded: bool) -> None:
    text = f'{{"a": [1, {number}]}}'
    with pytest.raises(ValueError, match="not finite"):
        parse_json(text.encode() if encoded else text)
    assert abs(parse_json(text, finite=False)["a"][1]) != 1


@pytest.mark.parametrize(("text", "value"), [("1e300", 1e300), ("-2.5e-400", -0.0), ("[1.5, 1e2]", [1.5, 100.0])])
def test_finite_numbers_are_read(text: str, value: object) -> None:
    assert parse_json(text) == value
