"""Log-mel features: what a band hears, and that a frame knows nothing of later audio."""

import numpy as np
import pytest

from trt_workbench.stream.contract.log_mel import BINS, HOP, SAMPLE_RATE, WINDOW, log_mel


def tone(hertz: float, seconds: float = 0.5) -> np.ndarray:
    times = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.3 * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def test_a_frame_every_ten_milliseconds() -> None:
    features = log_mel(tone(440, 1.0))
    assert (features.shape, features.dtype) == ((BINS, 100), np.float32)
    assert log_mel(np.zeros(HOP - 1, np.float32)).shape == (BINS, 0)


@pytest.mark.parametrize(("hertz", "band"), [(300, 7), (1000, 26), (4000, 62)])
def test_a_tone_is_loudest_in_its_band(hertz: float, band: int) -> None:
    # Slaney's scale has 15 mel below 1 kHz and 45.245 below 8 kHz: centres lie 45.245 / 81 mel apart
    mel = hertz * 3 / 200 if hertz < 1000 else 15 + np.log(hertz / 1000) * 27 / np.log(6.4)
    assert round(mel / (45.2452 / 81)) - 1 == band
    assert set(log_mel(tone(hertz))[:, 5:40].argmax(0)) <= {band - 1, band, band + 1}


def test_silence_is_the_floor_and_louder_is_more() -> None:
    assert np.ptp(log_mel(np.zeros(4000, np.float32))) == 0
    assert (log_mel(2 * tone(440)) >= log_mel(tone(440)) - 1e-6).all()


def test_a_frame_does_not_depend_on_audio_after_its_window() -> None:
    audio = np.random.default_rng(0).standard_normal(SAMPLE_RATE).astype(np.float32)
    frames = (SAMPLE_RATE // 2 - WINDOW) // HOP + 1
    cut = audio.copy()
    cut[SAMPLE_RATE // 2 :] = 0
    assert np.array_equal(log_mel(audio)[:, :frames], log_mel(cut)[:, :frames])
    assert not np.array_equal(log_mel(audio)[:, frames], log_mel(cut)[:, frames])


def test_long_audio_is_worked_off_in_blocks_without_a_seam() -> None:
    audio = np.random.default_rng(0).standard_normal(12 * SAMPLE_RATE).astype(np.float32)
    whole, from_five = log_mel(audio), log_mel(audio[5 * SAMPLE_RATE - 1 :][1:])
    assert np.allclose(whole[:, 501:1199], from_five[:, 1:699], atol=1e-5)
