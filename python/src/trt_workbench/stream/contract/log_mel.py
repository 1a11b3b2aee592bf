"""Log-mel features of 16 kHz audio: what streaming encoders take."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
HOP, WINDOW, FFT, BINS = 160, 400, 512, 80
PREEMPHASIS = 0.97
_FLOOR = 2.0**-24
_MEAN, _SCALE = -9.0, 4.0
_BLOCK = 1000


def log_mel(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return features of audio, one frame every 10 ms.

    Frame t sees the samples 160t to 160t+399 (zeros after the end), under a Hann window, after pre-emphasis of 0.97.
    The bands are Slaney's: equal on the mel scale, each triangle of equal area. What is used of each power p is
    log(p + 2^-24), shifted and scaled by constants, so that a feature does not depend on later audio.

    Args:
        samples: [N], between -1 and 1, at 16 kHz.

    Returns:
        [80, N // 160], float32.
    """
    count = len(samples) // HOP
    audio = np.concatenate([samples, np.zeros(WINDOW, np.float32)])
    audio[1:] -= PREEMPHASIS * audio[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(audio, WINDOW)[: count * HOP : HOP]
    window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    features, filters = np.empty((BINS, count), np.float32), slaney(BINS, FFT).astype(np.float32)
    for start in range(0, count, _BLOCK):  # spectra take 25 times the memory of features
        spectra = np.fft.rfft(frames[start : start + _BLOCK] * window, FFT)
        power = (spectra.real**2 + spectra.imag**2).astype(np.float32)
        features[:, start : start + _BLOCK] = (np.log(filters @ power.T + _FLOOR) - _MEAN) / _SCALE
    return features


@functools.cache
def slaney(bins: int, fft: int) -> NDArray[np.float64]:
    """Return the weights of Slaney's bands, [bins, fft / 2 + 1]."""
    # Slaney's scale: linear below 1 kHz, which is at 15, logarithmic above
    mel = np.linspace(0, 15 + np.log(SAMPLE_RATE / 2 / 1000) * 27 / np.log(6.4), bins + 2)
    edges = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    places = np.linspace(0, SAMPLE_RATE / 2, fft // 2 + 1)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.clip(np.minimum((places - low) / (centre - low), (high - places) / (high - centre)), 0, None)
    return np.asarray(triangles * 2 / (high - low))
