import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.llm.text import (
    Recipe,
    Window,
    batches,
    choose_recipe,
    cut_windows,
    leading,
    model_input,
    scored_positions,
)


@st.composite
def recipes(draw: st.DrawFn) -> tuple[int, Recipe]:
    bos = draw(st.sampled_from(["none", "window"]))
    window = draw(st.integers(3, 40))
    stride = draw(st.integers(1, window - (bos == "window")))
    count = draw(st.integers(window, 200))
    return count, Recipe(window, stride, bos, 0 if bos == "window" else None)


@given(recipes())
def test_every_token_with_a_context_is_scored_once(case: tuple[int, Recipe]) -> None:
    count, recipe = case
    scored = [token for window in cut_windows(count, recipe) for token in range(window.scored, window.end)]
    assert len(scored) == len(set(scored))
    if recipe.bos == "window":
        assert scored == list(range(count))
    elif recipe.stride < recipe.content:
        assert scored == list(range(1, count))
    else:  # windows that do not overlap: the first token of each has no context
        assert scored == [token for token in range(count) if token % recipe.stride]


@given(recipes(), st.integers(1, 5))
def test_the_model_is_given_what_predicts_the_scored_tokens(case: tuple[int, Recipe], size: int) -> None:
    count, recipe = case
    tokens = np.arange(1, count + 1)
    windows = cut_windows(count, recipe)
    groups = list(batches(windows, size))
    assert [window for group in groups for window in group] == windows
    for group in groups:
        given_tokens = model_input(tokens, group, recipe)
        assert given_tokens.shape[0] <= size
        assert given_tokens.shape[1] <= recipe.window
        for row, window in zip(given_tokens, group, strict=True):
            chosen = scored_positions(window, recipe)
            assert chosen.start >= 0
            # the token before each scored one, or begin-of-text (0) where a window starts with the scored one
            scored = range(window.scored, window.end)
            assert row[chosen].tolist() == [tokens[place - 1] if place > window.begin else 0 for place in scored]


def test_windows_as_the_documentation_of_transformers_makes_them() -> None:
    windows = cut_windows(23, Recipe(8, 4))
    assert windows == [Window(0, 8, 1), Window(4, 12, 8), Window(8, 16, 12), Window(12, 20, 16), Window(16, 23, 20)]


def test_defaults() -> None:
    assert choose_recipe(None, None, "none", None, 512, 10000) == Recipe(512, 256)
    assert choose_recipe(None, None, "none", None, None, 10000) == Recipe(1024, 512)
    assert choose_recipe(64, 64, "none", 1, 128, 64) == Recipe(64, 64)
    assert choose_recipe(64, None, "window", 1, 128, 64) == Recipe(64, 32, "window", 1)


@pytest.mark.parametrize(
    ("window", "stride", "bos", "positions", "count"),
    [
        (129, None, "none", 128, 1000),
        (64, 65, "none", 128, 1000),
        (64, 64, "window", 128, 1000),
        (64, None, "none", 128, 63),
        (2, None, "window", 128, 1000),
    ],
)
def test_what_does_not_fit(window: int, stride: int | None, bos: str, positions: int, count: int) -> None:
    with refused(UsageProblem):
        choose_recipe(window, stride, bos, 0, positions, count)


def test_no_begin_of_text_token() -> None:
    with refused(UsageProblem):
        choose_recipe(8, None, "window", None, None, 100)


def test_the_recipe_in_words() -> None:
    text = Recipe(8, 4, "window", 0).describe()
    assert "Windows of 8 tokens start every 4 tokens" in text
    assert "starts with the begin-of-text token" in text


@given(st.lists(st.integers(0, 2), max_size=6), st.sampled_from([0, None]))
def test_leading_counts_a_token_at_the_beginning_alone(tokens: list[int], token: int | None) -> None:
    found = leading(np.array(tokens, np.int64), token)
    assert all(one == token for one in tokens[:found])
    assert found == len(tokens) or tokens[found] != token
