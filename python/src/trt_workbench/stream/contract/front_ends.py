"""Features of 16 kHz audio as other projects' encoders take them: log-mel bands of kaldi, WeNet, NeMo and Whisper.

None is scaled by a whole utterance except Whisper's, whose bands end 80 dB below the loudest: `chunking.normalize` says
what NeMo does after it. Equal to kaldi-native-fbank, and to the feature extractors of transformers, up to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trt_workbench.stream.contract.log_mel import HOP, PREEMPHASIS, SAMPLE_RATE, WINDOW, slaney

Floats = NDArray[np.float32]
_KALDI_FFT, _NEMO_FFT, _WHISPER_FFT = 512, 512, 400
_NEMO_FLOOR = 2.0**-24
_KALDI_FLOOR = float(np.finfo(np.float32).eps)
_ICEFALL_HIGH = SAMPLE_RATE / 2 - 400
SILENCE = {"kaldi": math.log(_KALDI_FLOOR), "wenet": math.log(_KALDI_FLOOR), "nemo": math.log(_NEMO_FLOOR)}
"""What a feature of silence is."""
SPEECH = {"kaldi": (-7.0, 3.5), "wenet": (14.0, 3.5), "nemo": (-11.0, 3.0)}
"""About the mean and deviation of features of speech."""
_BLOCK = 1000


def front_end(kind: str, samples: Floats, bins: int) -> Floats:
    """Return the features of audio, [bins, frames], one every 10 ms.

    Args:
        kind: `kaldi`, `wenet`, `nemo` or `whisper`.
        samples: [N], between -1 and 1.
        bins: mel bands.
    """
    return _FRONT_ENDS[kind](samples, bins) if samples.size else np.zeros((bins, 0), np.float32)


def _kaldi(samples: Floats, bins: int) -> Floats:
    """Frames centred on their 10 ms, mirrored at the ends (`snip_edges` off); 20 Hz to 7.6 kHz as icefall has them."""
    count = (len(samples) + HOP // 2) // HOP
    edge = WINDOW
    mirrored = np.pad(samples, edge, mode="symmetric") if len(samples) >= edge else _mirrored(samples, edge)
    first = edge + HOP // 2 - WINDOW // 2
    frames = np.lib.stride_tricks.sliding_window_view(mirrored, WINDOW)[first::HOP][:count]
    return _bands(frames, _kaldi_filters(bins, _ICEFALL_HIGH))


def _wenet(samples: Floats, bins: int) -> Floats:
    """Kaldi's of numbers of 16 bits, whole windows alone, up to 8 kHz: what torchaudio gives WeNet."""
    if len(samples) < WINDOW:
        return np.zeros((bins, 0), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(samples * np.float32(2**15), WINDOW)[::HOP]
    return _bands(frames, _kaldi_filters(bins, SAMPLE_RATE / 2))


def _bands(frames: Floats, filters: NDArray[np.float64]) -> Floats:
    """Return kaldi's log energies of windows, [bins, frames]."""
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / (WINDOW - 1))) ** 0.85

    def prepared(some: Floats) -> NDArray[np.float64]:
        still = some.astype(np.float64) - some.mean(1, keepdims=True, dtype=np.float64)
        before = np.concatenate([still[:, :1], still[:, :-1]], 1)
        return np.asarray((still - PREEMPHASIS * before) * window)

    energy = _energies(frames, prepared, _KALDI_FFT, filters)
    return np.log(np.maximum(energy, _KALDI_FLOOR)).astype(np.float32)


def _mirrored(samples: Floats, edge: int) -> Floats:
    """Return audio that is shorter than its mirrored ends: they go back and forth."""
    places = np.arange(-edge, len(samples) + edge) % (2 * len(samples))
    return samples[np.minimum(places, 2 * len(samples) - 1 - places)]


def _nemo(samples: Floats, bins: int) -> Floats:
    """Pre-emphasis of the whole, windows of 25 ms in the middle of 32 ms, silence before and after."""
    sharp = np.concatenate([samples[:1], samples[1:] - np.float32(PREEMPHASIS) * samples[:-1]])
    window = np.pad(np.hanning(WINDOW), (_NEMO_FFT - WINDOW) // 2)
    frames = _centred(np.pad(sharp, _NEMO_FFT // 2), _NEMO_FFT, len(samples) // HOP)
    energy = _energies(frames, lambda some: some * window, _NEMO_FFT, slaney(bins, _NEMO_FFT))
    return np.log(energy + _NEMO_FLOOR).astype(np.float32)


def _whisper(samples: Floats, bins: int) -> Floats:
    """Frames mirrored at the ends, in powers of ten, from the loudest down to 80 dB below it."""
    window = np.hanning(_WHISPER_FFT + 1)[:-1]
    half = _WHISPER_FFT // 2
    padded = np.pad(samples, half, mode="reflect") if len(samples) > half else np.pad(samples, half)
    frames = _centred(padded, _WHISPER_FFT, len(samples) // HOP)
    energy = _energies(frames, lambda some: some * window, _WHISPER_FFT, slaney(bins, _WHISPER_FFT))
    found = np.log10(np.maximum(energy, 1e-10))
    return np.asarray((np.maximum(found, found.max(initial=-10.0) - 8) + 4) / 4, np.float32)


def _centred(padded: Floats, size: int, count: int) -> Floats:
    return np.lib.stride_tricks.sliding_window_view(padded, size)[::HOP][:count]


def _energies(
    frames: Floats, prepared: Callable[[Floats], NDArray[np.float64]], fft: int, filters: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the energy of each band, [bins, frames]."""
    found = np.empty((len(filters), len(frames)))
    for start in range(0, len(frames), _BLOCK):  # spectra take 25 times the memory of features
        spectra = np.fft.rfft(prepared(frames[start : start + _BLOCK]), fft)
        found[:, start : start + _BLOCK] = filters @ (spectra.real**2 + spectra.imag**2).T
    return found


@functools.cache
def _kaldi_filters(bins: int, high: float) -> NDArray[np.float64]:
    """Return the weights of kaldi's bands, triangles on the mel scale, [bins, 257]; the last bin has none."""
    edges = np.linspace(_mel(20.0), _mel(high), bins + 2)
    places = _mel(np.arange(_KALDI_FFT // 2) * SAMPLE_RATE / _KALDI_FFT)
    low, centre, top = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    inside = np.clip(np.minimum((places - low) / (centre - low), (top - places) / (top - centre)), 0, None)
    return np.pad(inside, ((0, 0), (0, 1)))


def _mel(hertz: float | NDArray[np.float64]) -> NDArray[np.float64]:
    return 1127 * np.log1p(np.asarray(hertz) / 700)


_FRONT_ENDS: dict[str, Callable[[Floats, int], Floats]] = {
    "kaldi": _kaldi,
    "wenet": _wenet,
    "nemo": _nemo,
    "whisper": _whisper,
}
