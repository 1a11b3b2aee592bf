"""How a text becomes windows of tokens, and which tokens each window scores: the recipe behind a perplexity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem

Bos = Literal["none", "window"]
LARGEST_DEFAULT_WINDOW = 1024


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a perplexity besides the model, the tokenizer and the text.

    Attributes:
        window: tokens that the model sees at once, the begin-of-text token included.
        stride: tokens from one window's start to the next one's.
        bos: whether every window starts with the begin-of-text token.
        bos_id: that token.
    """

    window: int
    stride: int
    bos: Bos = "none"
    bos_id: int | None = None

    @property
    def content(self) -> int:
        """Tokens of the text in a window."""
        return self.window - (self.bos == "window")

    def describe(self) -> str:
        """Return the recipe in one sentence."""
        start = "starts with the begin-of-text token" if self.bos == "window" else "has no begin-of-text token"
        first = "" if self.bos == "window" else ", except one with no token before it in its window"
        return (
            f"Windows of {self.window} tokens start every {self.stride} tokens of the text, which is tokenised as a "
            f"whole; each window {start}; it scores the tokens that no earlier window scored{first}; the last "
            f"window ends with the text. Perplexity is exp of the mean negative log likelihood in nats per token."
        )


@dataclass(frozen=True)
class Window:
    """Tokens `begin` to `end` of the text, of which those from `scored` on count."""

    begin: int
    end: int
    scored: int


def choose_recipe(
    window: int | None, stride: int | None, bos: Bos, bos_id: int | None, positions: int | None, count: int
) -> Recipe:
    """Fill in defaults and check that the recipe fits the model and the text.

    Args:
        window: None for the model's positions, at most 1024.
        stride: None for half the window.
        bos: whether windows start with the begin-of-text token.
        bos_id: that token, if the tokenizer has one.
        positions: longest sequence of the model, None if unknown.
        count: tokens of the text.

    Raises:
        UsageProblem: the window is longer than the model or the text allows, the stride leaves tokens out, or there is
            no begin-of-text token.
    """
    chosen = window or min(positions or LARGEST_DEFAULT_WINDOW, LARGEST_DEFAULT_WINDOW)
    if positions and chosen > positions:
        raise UsageProblem(
            f"The model has {positions} positions, so a window cannot have {chosen} tokens; pass a smaller --window."
        )
    if bos == "window" and bos_id is None:
        raise UsageProblem("The tokenizer has no begin-of-text token; pass --bos none.")
    recipe = Recipe(chosen, stride or max(1, chosen // 2), bos, bos_id if bos == "window" else None)
    if recipe.content < 2:
        raise UsageProblem(f"A window of {chosen} tokens leaves nothing to predict; pass a larger --window.")
    if recipe.stride > recipe.content:
        raise UsageProblem(
            f"A stride of {recipe.stride} leaves tokens out of windows of {recipe.content}; pass a smaller --stride."
        )
    if count < recipe.content:
        raise UsageProblem(
            f"The text has {counted(count, 'token')}, fewer than one window of {recipe.content}; "
            f"give a longer text or pass --window {max(count, 2)} or less."
        )
    return recipe


def leading(tokens: NDArray[np.int64], token: int | None) -> int:
    """Return how many tokens at the beginning of a text are `token`, such as a begin-of-text token in the text itself.

    Args:
        tokens: int64 [N].
        token: None for one that the tokenizer does not have.
    """
    return next((place for place, one in enumerate(tokens.tolist()) if one != token), len(tokens))


def cut_windows(count: int, recipe: Recipe) -> list[Window]:
    """Return the windows over a text of `count` tokens; together they score every token that has a context."""
    windows, done = [], 0
    for begin in range(0, count, recipe.stride):
        end = min(begin + recipe.content, count)
        windows.append(Window(begin, end, max(done, begin + (recipe.bos == "none"))))
        done = end
        if end == count:
            break
    return [window for window in windows if window.scored < window.end]


def batches(windows: Sequence[Window], size: int) -> Iterator[list[Window]]:
    """Yield up to `size` windows of equal length at a time, in order."""
    batch: list[Window] = []
    for window in windows:
        if batch and (len(batch) == size or window.end - window.begin != batch[0].end - batch[0].begin):
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def model_input(tokens: NDArray[np.int64], batch: Sequence[Window], recipe: Recipe) -> NDArray[np.int64]:
    """Return what the model is given for windows of equal length, int64 [B,S]."""
    rows = np.stack([tokens[window.begin : window.end] for window in batch])
    if recipe.bos_id is None:
        return rows
    return np.concatenate([np.full((len(rows), 1), recipe.bos_id, np.int64), rows], axis=1)


def scored_positions(window: Window, recipe: Recipe) -> slice:
    """Return which positions of a window's logits predict the tokens that it scores."""
    shift = (recipe.bos == "window") - 1 - window.begin
    return slice(window.scored + shift, window.end + shift)
