"""The audio that the embedded streaming encoder is trained and evaluated on: a code whose answer needs memory.

Every 80 ms a tone of one of 20 pitches sounds, in noise. The answer to a tone is the tone that sounded some time before
it; how long before is said by the tone itself. An encoder that forgets its past cannot know it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.stream.contract.log_mel import SAMPLE_RATE

SYMBOLS = 20
LAGS = (4, 16, 36, 60)
"""Symbols to look back, by the symbol's remainder modulo 4: 0.3 to 4.8 seconds."""
SYMBOL_SAMPLES = SAMPLE_RATE * 8 // 100
_LOWEST, _HIGHEST = 250.0, 6000.0
_FADE = 80
_LOUDNESS = 0.1
_BLOCK = 1000


class CodeAudio(NamedTuple):
    """Audio with its answers.

    Attributes:
        samples: [N], float32, at 16 kHz.
        symbols: what sounds, [N / 1280], below 20.
        answers: of each symbol; -1 where the audio begins too late to know.
    """

    samples: NDArray[np.float32]
    symbols: NDArray[np.int64]
    answers: NDArray[np.int64]


def code_audio(count: int, seed: int) -> CodeAudio:
    """Return `count` symbols of the code.

    Args:
        count: symbols of 80 ms.
        seed: of the symbols, their loudness (±6 dB), phases, and the noise (20 to 40 dB below, another every 80 s).
    """
    random = np.random.default_rng(seed)
    symbols = random.integers(SYMBOLS, size=count)
    samples = np.empty(count * SYMBOL_SAMPLES, np.float32)
    for start in range(0, count, _BLOCK):  # an hour has 58 million samples
        block = symbols[start : start + _BLOCK]
        samples[start * SYMBOL_SAMPLES : (start + len(block)) * SYMBOL_SAMPLES] = _sounds(block, random)
    return CodeAudio(samples, symbols, answers_of(symbols))


def _sounds(symbols: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float32]:
    """Return the audio of symbols."""
    count = len(symbols)
    pitches = _LOWEST * (_HIGHEST / _LOWEST) ** (symbols / (SYMBOLS - 1))
    times = np.arange(SYMBOL_SAMPLES, dtype=np.float32) / SAMPLE_RATE
    phases = random.uniform(0, 2 * np.pi, (count, 1)).astype(np.float32)
    loudness = _LOUDNESS * 10 ** (random.uniform(-6, 6, (count, 1)) / 20)
    tones = loudness * np.sin(2 * np.pi * pitches[:, None].astype(np.float32) * times + phases)
    fade = np.minimum(1, np.minimum(np.arange(SYMBOL_SAMPLES), np.arange(SYMBOL_SAMPLES)[::-1]) / _FADE)
    noise = random.standard_normal((count, SYMBOL_SAMPLES), np.float32)
    noise *= _LOUDNESS * 10 ** (-random.uniform(20, 40) / 20)
    return (tones * fade + noise).astype(np.float32).ravel()


def answers_of(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answer to each symbol: the one that came before it by the lag that it asks for; -1 for none."""
    sources = np.arange(len(symbols)) - np.asarray(LAGS)[symbols % len(LAGS)]
    return np.where(sources >= 0, symbols[np.maximum(sources, 0)], -1)
