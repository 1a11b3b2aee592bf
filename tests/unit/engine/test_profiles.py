import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trt_workbench.engine.profiles import Profile, ShapeRange, batch_profile

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.:/]{0,12}[a-zA-Z0-9_]", fullmatch=True)


@st.composite
def ranges(draw: st.DrawFn) -> ShapeRange:
    rank = draw(st.integers(1, 5))
    dims = [sorted(draw(st.lists(st.integers(0, 4096), min_size=3, max_size=3))) for _ in range(rank)]
    low, best, high = (tuple(column) for column in zip(*dims, strict=True))
    return ShapeRange(min=low, opt=best, max=high)


@pytest.mark.long
@given(st.dictionaries(NAMES, ranges(), min_size=1, max_size=3), st.dictionaries(NAMES, ranges(), max_size=2))
def test_what_is_written_is_read_again(shapes: dict[str, ShapeRange], values: dict[str, ShapeRange]) -> None:
    profile = Profile(shapes=shapes, values={name: one for name, one in values.items() if name not in shapes})
    assert Profile.model_validate(str(profile)) == profile
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x:1x3/2x3", "expected min/opt/max"),
        ("x:1x3/2x3/axb", "expected min/opt/max"),
        ("x:4x3/2x3/8x3", "min <= opt <= max"),
        ("x:1/1x3/8x3", "the same rank"),
        ("1x3/2x3/4x3", "NAME:MIN/OPT/MAX"),
        ("x:1,x:2", "twice"),
        ("", "at least one"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Profile.model_validate(text)


def test_a_dynamic_batch_gets_a_profile() -> None:
    profile = batch_profile([("x", ("N", 3, 8)), ("y", (2, 2))], batch=4)
    assert str(profile) == "x:1x3x8/4x3x8/4x3x8"
    assert batch_profile([("x", (1, 3))], batch=4) is None
    assert batch_profile([("x", ("N", 3, None))], batch=4) is None
