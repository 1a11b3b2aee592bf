"""Utterances of the embedded code with their texts: what the embedded encoder, decoder and joiner transcribe.

The answer to each symbol (`stream/input.py`) is read as writing. 12 to 15 begin a word with one of its letters, 0 to 11
add a letter to the word, 16 to 19 are a pause. A letter depends on how many the word has, so a predictor that loses
its state writes other letters; odd letters and pauses skip answers, so a decoder that ignores durations writes more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.stream.input import LAGS, SYMBOLS, answers_of, sounds

LETTERS = "abcdefghijkl"
TOKENS = ("▁", *LETTERS)
"""By id: the beginning of a word, then the letters; the blank comes after them."""
BLANK = len(TOKENS)
DURATIONS = (0, 1, 2, 3, 4)
_WORD, _PAUSE = len(LETTERS), 16
# Letters of a word from which on a further one is written alike, and what each before it adds.
_MOST_SHIFTS, _SHIFT = 3, 3
_LEAST, _MOST = 70, 126
_NOISE_DB = (8.0, 40.0)
HELD_OUT_UTTERANCES = range(3_000_000, 3_000_048)
"""Seeds of those that are transcribed: training draws and watches others."""
CALIBRATION_UTTERANCES = range(4_000_000, 4_000_064)
"""Seeds of those that ranges are found on."""


class Step(NamedTuple):
    """What is written at an answer: a token or the blank, and how many answers on the next step is."""

    place: int
    token: int
    duration: int


class SpokenCode(NamedTuple):
    """Audio of 5.6 to 10 s, [N] float32 at 16 kHz, its answers, and its text."""

    samples: NDArray[np.float32]
    answers: NDArray[np.int64]
    text: str


def steps(answers: Sequence[int] | NDArray[np.int64]) -> Iterator[Step]:
    """Yield what is written, from the first answer to the last."""
    place, letters = 0, 0
    while place < len(answers):
        answer = int(answers[place])
        if _WORD <= answer < _PAUSE:
            yield Step(place, 0, 0)
            token, duration, letters = 1 + answer - _WORD, 1, 1
        elif 0 <= answer < _WORD and letters:
            shifted = (answer + _SHIFT * min(letters, _MOST_SHIFTS)) % len(LETTERS)
            token, duration, letters = 1 + shifted, 1 + answer % 2, letters + 1
        else:
            token, duration = BLANK, 1 + max(answer - _PAUSE, 0)
        yield Step(place, token, duration)
        place += duration


def utterance(seed: int) -> SpokenCode:
    """Return the utterance of a seed: its symbols, loudness, and noise of 8 to 40 dB below it."""
    random = np.random.default_rng(seed)
    symbols = np.array([random.choice(_known_at(place)) for place in range(random.integers(_LEAST, _MOST))])
    answers = answers_of(symbols)
    written = "".join(TOKENS[one.token] for one in steps(answers) if one.token != BLANK)
    return SpokenCode(sounds(symbols, random, _NOISE_DB), answers, written.replace(TOKENS[0], " ").strip())


def _known_at(place: int) -> NDArray[np.int64]:
    """Return the symbols whose answer has sounded before a place; all of them at the very start."""
    symbols = np.arange(SYMBOLS)
    return symbols if place < min(LAGS) else symbols[np.asarray(LAGS)[symbols % len(LAGS)] <= place]
