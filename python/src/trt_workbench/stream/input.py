"""The stream that a model is evaluated on: features or audio of a file, random features, or the embedded code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.array_files import load_arrays, numpy_dtype
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.hashing import hash_file
from trt_workbench.stream.audio import AUDIO_SUFFIXES, read_audio
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import holds_samples, noise
from trt_workbench.stream.contract.front_ends import front_end
from trt_workbench.stream.contract.log_mel import BINS, HOP, SAMPLE_RATE, log_mel
from trt_workbench.stream.settings import CODE, RANDOM

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
        samples[start * SYMBOL_SAMPLES : (start + len(block)) * SYMBOL_SAMPLES] = sounds(block, random)
    return CodeAudio(samples, symbols, answers_of(symbols))


def sounds(
    symbols: NDArray[np.int64], random: np.random.Generator, noise_db: tuple[float, float] = (20, 40)
) -> NDArray[np.float32]:
    """Return the audio of symbols, with noise that is so far below them."""
    count = len(symbols)
    pitches = _LOWEST * (_HIGHEST / _LOWEST) ** (symbols / (SYMBOLS - 1))
    times = np.arange(SYMBOL_SAMPLES, dtype=np.float32) / SAMPLE_RATE
    phases = random.uniform(0, 2 * np.pi, (count, 1)).astype(np.float32)
    loudness = _LOUDNESS * 10 ** (random.uniform(-6, 6, (count, 1)) / 20)
    tones = loudness * np.sin(2 * np.pi * pitches[:, None].astype(np.float32) * times + phases)
    fade = np.minimum(1, np.minimum(np.arange(SYMBOL_SAMPLES), np.arange(SYMBOL_SAMPLES)[::-1]) / _FADE)
    noise = random.standard_normal((count, SYMBOL_SAMPLES), np.float32)
    noise *= _LOUDNESS * 10 ** (-random.uniform(*noise_db) / 20)
    return (tones * fade + noise).astype(np.float32).ravel()


def answers_of(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answer to each symbol: the one that came before it by the lag that it asks for; -1 for none."""
    sources = np.arange(len(symbols)) - np.asarray(LAGS)[symbols % len(LAGS)]
    return np.where(sources >= 0, symbols[np.maximum(sources, 0)], -1)


# Seeds of streams on which faults are planted: no other draws them.
HELD_OUT = 1_000_003
# Of a stream that is drawn: 2 GiB of float32.
_MOST_NUMBERS = 2**29


@dataclass(frozen=True)
class StreamInput:
    """A stream.

    Attributes:
        signal: shaped as the contract's signal for one stream (or its fixed batch), all frames along the time axis.
        record: where it is from.
    """

    signal: NDArray[Any]
    record: Mapping[str, Any]


def open_stream(contract: Contract, source: str, frames: int, seed: int) -> StreamInput:
    """Return the stream that `source` names, of at most `frames` frames.

    Args:
        contract: says what the signal is.
        source: "random", "code", or a path that ends in .npy, .wav or .flac.
        frames: that are needed; a file may have fewer.
        seed: of what is drawn.

    Raises:
        UsageProblem: the file cannot be read or does not fit the signal, or its sample rate is another.
    """
    if source in (RANDOM, CODE) and math.prod(_shape(contract, frames)) > _MOST_NUMBERS:
        raise UsageProblem(
            f"A stream of {frames} frames needs more memory than the limit for random input; pass fewer --chunks."
        )
    if source == RANDOM:
        drawn = np.random.default_rng(seed).standard_normal(_shape(contract, frames), np.float32)
        return StreamInput(noise(contract, drawn), {"kind": RANDOM, "seed": seed})
    if source == CODE:
        samples = code_audio(-(-frames * HOP // SYMBOL_SAMPLES), seed).samples
        return StreamInput(
            signal_of_audio(contract, samples, SAMPLE_RATE, "the code", frames), {"kind": CODE, "seed": seed}
        )
    path = Path(source)
    readers = {".npy": _features, **dict.fromkeys(AUDIO_SUFFIXES, _audio)}
    if path.suffix.lower() not in readers:
        raise UsageProblem(f"The input must be random, code, or a .npy, .wav or .flac file, not: {source}")
    require_file("input file", path)
    signal = readers[path.suffix.lower()](contract, path, frames)
    return StreamInput(signal, {"kind": path.suffix[1:].lower(), "path": str(path), "sha256": hash_file(path)})


def held_out(contract: Contract, stream: StreamInput, frames: int) -> StreamInput:
    """Return another stream of the same kind: another seed's, or a file's second half before its first."""
    if "seed" in stream.record:
        return open_stream(contract, stream.record["kind"], frames, stream.record["seed"] + HELD_OUT)
    axis = contract.signal[1].time_axis
    turned = np.roll(stream.signal, stream.signal.shape[axis] // 2, axis)
    return StreamInput(turned, {**stream.record, "order": "second half first"})


def _shape(contract: Contract, frames: int) -> tuple[int, ...]:
    """Return the shape of one stream's signal."""
    name, signal = contract.signal
    chunk = next(contract.chunks(1))
    try:
        shape = list(contract.shape(name, contract.chunk_values(chunk)))
    except ValueError as error:
        raise UsageProblem(f"The shape of {name} is not known from the contract: {error}.") from error
    shape[signal.time_axis] = frames
    return tuple(shape)


def _dtype(contract: Contract) -> np.dtype[Any]:
    return numpy_dtype(contract.signal[1].dtype)


def _features(contract: Contract, path: Path, frames: int) -> NDArray[Any]:
    name, signal = contract.signal
    array = load_arrays(path)[""]
    wanted = _shape(contract, 0)
    if array.ndim == len(wanted) - 1 and signal.batch_axis is not None:
        array = np.expand_dims(array, signal.batch_axis)
    rest = [size for axis, size in enumerate(wanted) if axis != signal.time_axis]
    found = [size for axis, size in enumerate(array.shape) if axis != signal.time_axis]
    if array.dtype.kind != _dtype(contract).kind or array.ndim != len(wanted) or rest != found:
        shown = [*wanted[: signal.time_axis], "frames", *wanted[signal.time_axis + 1 :]]
        raise UsageProblem(
            f"Signal {name} is {signal.dtype} [{', '.join(map(str, shown))}], "
            f"this file has {array.dtype} {list(array.shape)}: {path}"
        )
    if not array.shape[signal.time_axis]:
        raise UsageProblem(f"The file has no frames: {path}")
    array = np.take(array, range(min(frames, array.shape[signal.time_axis])), signal.time_axis).astype(_dtype(contract))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageProblem(f"The file holds NaN or infinity: {path}")
    return array


def _audio(contract: Contract, path: Path, frames: int) -> NDArray[Any]:
    # the samples that the frames are made of, or more
    samples, rate = read_audio(path, most=frames * max(HOP, math.prod(_shape(contract, 1))))
    return signal_of_audio(contract, samples, rate, str(path), frames)


def require_rate(contract: Contract, rate: int, source: str) -> int:
    """Return the sample rate of a contract. Raises UsageProblem unless audio of a source has it."""
    wanted = contract.chunking.sample_rate
    if wanted is None:
        raise UsageProblem(
            f"The contract has no chunking.sample_rate, so audio cannot be read; pass features (.npy): {source}"
        )
    if rate != wanted:
        raise UsageProblem(f"The audio has {rate} samples/s, but the contract says {wanted}; resample it: {source}")
    return wanted


def signal_of_audio(
    contract: Contract, samples: NDArray[np.float32], rate: int, source: str, frames: int
) -> NDArray[Any]:
    """Return the signal that audio makes: samples, by themselves or in frames, or log-mel features such as ours.

    Args:
        contract: says what the signal is.
        samples: between -1 and 1.
        rate: samples in a second.
        source: of the audio, for messages.
        frames: at most.

    Raises:
        UsageProblem: the contract says another sample rate, its signal is none of these, or there is no frame.
    """
    name, signal = contract.signal
    wanted, said = require_rate(contract, rate, source), contract.chunking
    shape = _shape(contract, 0)
    others = [axis for axis in range(len(shape)) if axis not in (signal.time_axis, signal.batch_axis)]
    size = math.prod(shape[axis] for axis in others)
    seconds = said.frame_seconds or 1 / wanted
    dtype = _dtype(contract)
    real, one_axis = dtype.kind in "fV", sum(shape[axis] > 1 for axis in others) <= 1
    mels = real and rate == SAMPLE_RATE and abs(seconds * rate - HOP) < 1e-6
    if mels and said.features:
        found = front_end(said.features, samples[: frames * HOP], size).T
    elif (real or holds_samples(contract)) and one_axis and abs(seconds * wanted - size) < 1e-6:
        found = samples[: len(samples) // size * size].reshape(-1, size)[:frames]
        found = found if real else np.rint(found * np.float32(2**15))  # as 16-bit PCM
    elif mels and [shape[axis] for axis in others] == [BINS]:
        found = log_mel(samples[: frames * HOP]).T
    else:
        raise UsageProblem(
            f"Audio becomes samples, a frame of them, or {BINS} log-mel features every 10 ms at 16 kHz, and {name} is "
            f"none of them by its shape and chunking.frame_seconds; make its features yourself and pass them as .npy: "
            f"{source}"
        )
    if not found.size:
        raise UsageProblem(f"The audio is shorter than a frame: {source}")
    # frames first, then what a frame holds
    # the position of the frames in one stream's signal, without the batch axis
    place = signal.time_axis - (signal.batch_axis is not None and signal.batch_axis < signal.time_axis)
    found = np.moveaxis(found.reshape(len(found), *(shape[axis] for axis in others)), 0, place)
    if signal.batch_axis is not None:
        found = np.repeat(np.expand_dims(found, signal.batch_axis), shape[signal.batch_axis], signal.batch_axis)
    return found.astype(dtype)
