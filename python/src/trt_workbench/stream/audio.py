"""Audio files: WAV, and FLAC by an optional package."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.counts import counted
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.input_files import open_regular
from trt_workbench.core.launcher import repair

_FLAC = ".flac"
AUDIO_SUFFIXES = (".wav", _FLAC)
# Who writes a WAV into a pipe does not know its end, and says about as many samples as the header can.
_OPEN_END = 2**30 - 2**16


class _Part(NamedTuple):
    """What was read: samples of a part between -1 and 1, how many a second has, and how many the file has."""

    samples: NDArray[np.float32]
    rate: int
    whole: int


def read_audio(
    path: Path, offset: float = 0.0, duration: float | None = None, most: int = 2**40
) -> tuple[NDArray[np.float32], int]:
    """Return samples between -1 and 1, and how many there are in a second.

    Args:
        path: of a file with one channel: FLAC, where it is called so, else WAV of 16-bit PCM.
        offset: seconds from its start.
        duration: in seconds; to its end by default.
        most: samples.

    Raises:
        UsageProblem: it is no such file, or it ends before the part that is asked for.
        ComponentMissing: FLAC needs a package that is not there.
    """
    is_flac = path.suffix.lower() == _FLAC
    if is_flac:
        # raise ComponentMissing unless soundfile can be imported, which is an optional package
        try:
            import soundfile  # noqa: F401
        except (ImportError, OSError) as error:  # the latter where its library is not there
            fix = repair("Run `pip install 'trt-workbench[audio]'`.")
            reason = f"FLAC needs the package soundfile, which cannot be imported ({error})."
            raise ComponentMissing(f"{reason} {fix} Or convert the files to WAV.") from error
    try:
        with open_regular(path) as file:
            part = (_flac if is_flac else _wav)(file, path, offset, duration, most)
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        kind = "FLAC" if is_flac else "WAV"
        raise UsageProblem(
            f"The file cannot be read as {kind} ({str(error) or 'it ends too early'}); audio is WAV of 16-bit PCM, or "
            f"FLAC in a file called .flac: {path}"
        ) from error
    start, count = _part(offset, duration, part.rate, part.whole)
    # a duration is written with a few digits
    if (start and start >= part.whole) or (duration is not None and start + count > part.whole + 0.01 * part.rate):
        end = "its end" if duration is None else f"{offset + duration:g} s"
        raise UsageProblem(
            f"The audio ends at {part.whole / part.rate:.2f} s, and the part from {offset:g} s to {end} was asked for: "
            f"{path}"
        )
    return part.samples, part.rate


def _part(offset: float, duration: float | None, rate: int, whole: int) -> tuple[int, int]:
    """Return the first sample and how many there are of a part."""
    start = round(offset * rate)
    return start, whole - start if duration is None else round(duration * rate)


def _wav(opened: BinaryIO, path: Path, offset: float, duration: float | None, most: int) -> _Part:
    with wave.open(opened, "rb") as file:
        rate, width = file.getframerate(), file.getsampwidth()
        channels, whole = file.getnchannels(), file.getnframes()
        if width != 2 or channels != 1:
            raise UsageProblem(
                f"Audio must be 16-bit PCM with one channel; this file has {8 * width} bits and "
                f"{counted(channels, 'channel')}: {path}"
            )
        start, count = _part(offset, duration, rate, whole)
        if 0 < start < whole:
            file.setpos(start)
        wanted = min(count, whole - start, most) if start < whole else 0
        data = file.readframes(wanted) if wanted > 0 else b""
    if len(data) < 2 * wanted and whole < _OPEN_END:
        raise EOFError
    return _Part(np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / np.float32(2**15), rate, whole)


def _flac(opened: BinaryIO, path: Path, offset: float, duration: float | None, most: int) -> _Part:
    import soundfile

    with soundfile.SoundFile(opened) as file:
        if file.channels != 1:
            raise UsageProblem(f"Audio must have one channel; this file has {file.channels}: {path}")
        start, count = _part(offset, duration, file.samplerate, file.frames)
        if start >= file.frames:
            return _Part(np.zeros(0, np.float32), file.samplerate, file.frames)
        file.seek(start)
        return _Part(file.read(min(count, most), dtype="float32"), file.samplerate, file.frames)
