"""Audio files: what is read of WAV and FLAC, and files that are none."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.plugins.speech.test_transcribe import write_wav
from tests.texts import refused

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.stream.audio import read_audio

SAMPLES = np.sin(np.arange(16_000) / 20).astype(np.float32) / 2


@pytest.fixture
def flac(tmp_path: Path) -> Path:
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.FLAC"
    soundfile.write(path, (SAMPLES * 32767).astype("<i2"), 16_000)
    return path


@pytest.mark.readers
def test_flac_holds_what_wav_holds(flac: Path, tmp_path: Path) -> None:
    wav = tmp_path / "a.wav"
    write_wav(wav, SAMPLES)
    for part in ((0.0, None), (0.25, 0.5), (0.5, None)):
        (one, rate), (other, same) = read_audio(flac, *part), read_audio(wav, *part)
        assert rate == same == 16_000
        assert np.array_equal(one, other)
        assert len(one) == (16_000 if part == (0.0, None) else 8000)
    assert len(read_audio(flac, most=100)[0]) == 100


@pytest.mark.readers
def test_files_that_are_no_flac(flac: Path, tmp_path: Path) -> None:
    import soundfile

    cut, stereo = tmp_path / "cut.flac", tmp_path / "stereo.flac"
    cut.write_bytes(b"fLaC" + bytes(40))
    soundfile.write(stereo, np.zeros((800, 2), np.int16), 16_000)
    for path, offset, duration in ((cut, 0, None), (stereo, 0, None), (flac, 1.5, None), (flac, 0.5, 1.0)):
        with refused(UsageProblem):
            read_audio(path, offset, duration)


def test_a_wav_that_was_cut_is_refused_and_one_from_a_pipe_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, SAMPLES)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    assert len(read_audio(path, 0.25, 0.5)[0]) == 8000
    for part in ((0.0, None), (0.5, 0.5)):
        with refused(UsageProblem):
            read_audio(path, *part)
    path.write_bytes(whole[:40] + b"\xff" * 4 + whole[44:])
    assert np.array_equal(read_audio(path)[0], (SAMPLES * 32767).astype("<i2").astype(np.float32) / 2**15)


def test_flac_needs_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with refused(ComponentMissing):
        read_audio(tmp_path / "a.flac")
