"""Features are those of kaldi-native-fbank, and of the feature extractors of transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.streaming_models import contract_of
from tests.unit.stream.test_stream_input import write_wav

from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.feeding import normalize
from trt_workbench.stream.contract.front_ends import SILENCE, SPEECH, front_end
from trt_workbench.stream.input import code_audio, open_stream

# Of kaldi-native-fbank 1.23.0 with snip_edges off, no dither and high_freq -400: BANDS of FRAMES of AUDIO.
AUDIO = code_audio(15, 3).samples[:18123]
FRAMES, BANDS = (0, 1, 56, 111, 112), (0, 20, 40, 60, 79)
KALDI = [
    [-15.4695, -6.6213, -6.0750, -0.6598, -2.7675],
    [-15.1171, -6.4379, -5.7470, -2.9751, -3.4480],
    [-13.6800, -9.1384, -4.4536, -3.1773, -2.1426],
    [-11.5412, -3.0424, -6.0685, -4.6589, -2.5456],
    [-8.3441, -0.0583, -5.2240, -2.9094, -2.5512],
]


# The same of numbers of 16 bits with snip_edges and high_freq 0, as torchaudio has them.
WENET = [
    [6.2278, 14.1156, 15.4113, 17.8169, 18.1702],
    [7.3725, 12.2707, 15.2495, 17.8455, 18.4655],
    [6.9853, 11.5018, 14.8436, 16.9082, 18.7337],
    [8.8373, 12.5463, 13.9847, 17.9541, 18.3067],
    [10.3096, 15.2417, 13.0042, 16.8587, 18.1255],
]


@pytest.mark.parametrize(
    ("kind", "frames", "right"), [("kaldi", FRAMES, KALDI), ("wenet", (0, 1, 56, 109, 110), WENET)]
)
def test_kaldis_bands(kind: str, frames: tuple[int, ...], right: list[list[float]]) -> None:
    found = front_end(kind, AUDIO, 80)
    assert (found.shape, found.dtype) == ((80, frames[-1] + 1), np.float32)
    assert np.abs(found[np.ix_(BANDS, frames)].T - right).max() < 1e-3  # kaldi's own sums are float32


@pytest.mark.parametrize("kind", SILENCE)
def test_silence_is_what_padding_is(kind: str) -> None:
    found = front_end(kind, np.zeros(1600, np.float32), 80)
    assert np.abs(found - SILENCE[kind]).max() < 1e-5


@pytest.mark.parametrize("bins", [80, 128])
def test_whispers_bands(bins: int) -> None:
    extractors = pytest.importorskip("transformers")
    extractor = extractors.WhisperFeatureExtractor(feature_size=bins)
    given = extractor(AUDIO, sampling_rate=16_000, padding="do_not_pad", return_tensors="np")
    found = front_end("whisper", AUDIO, bins)
    assert np.abs(given.input_features[0] - found).max() < 1e-4


def test_nemos_bands() -> None:
    extractors, _ = pytest.importorskip("transformers"), pytest.importorskip("torch")
    given = extractors.ParakeetFeatureExtractor(feature_size=80)(AUDIO, sampling_rate=16_000, return_tensors="pt")
    count = int(given["attention_mask"].sum())
    found = front_end("nemo", AUDIO, 80)
    assert found.shape == (80, count)
    document: Any = contract_of("attention")
    document["chunking"]["normalize"] = "window"
    normalize(Contract.model_validate({**document, "schema_version": 3}), found, count)
    assert np.abs(given["input_features"][0, :count].numpy().T - found).max() < 1e-3


@pytest.mark.parametrize("kind", SPEECH)
def test_random_features_are_in_the_range_of_speech(kind: str) -> None:
    document: Any = contract_of("attention")
    document["symbols"]["F"] = 80
    document["chunking"] |= {"sample_rate": 16_000, "frame_seconds": 0.01, "features": kind}
    drawn = open_stream(Contract.model_validate({**document, "schema_version": 3}), "random", 200, 0).signal
    spoken = front_end(kind, AUDIO, 80)
    assert abs(drawn.mean() - spoken.mean()) < 3
    assert 0.5 < drawn.std() / spoken.std() < 2


@pytest.mark.parametrize("kind", ["kaldi", "wenet", "nemo", "whisper"])
@pytest.mark.parametrize("count", [0, 160, 161, 399, 1600])
def test_short_audio_has_its_frames(kind: str, count: int) -> None:
    found = front_end(kind, AUDIO[:count], 40)
    whole = (count - 400) // 160 + 1 if count >= 400 else 0
    assert found.shape == (40, {"kaldi": (count + 80) // 160, "wenet": whole}.get(kind, count // 160))
    assert np.isfinite(found).all()


def test_a_contract_names_its_front_end(tmp_path: Path) -> None:
    document: Any = contract_of("attention")
    document["symbols"]["F"] = 80
    document["chunking"] |= {"sample_rate": 16_000, "frame_seconds": 0.01, "features": "kaldi"}
    path = write_wav(tmp_path / "a.wav", AUDIO)
    found = open_stream(Contract.model_validate({**document, "schema_version": 3}), str(path), 50, 0).signal
    assert found.shape == (1, 80, 50)
    assert np.abs(found[0, :, :49] - front_end("kaldi", AUDIO, 80)[:, :49]).max() < 0.3  # 16 bits
