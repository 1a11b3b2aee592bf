"""A published model of voice activity on recorded speech: silero-vad's package, and the samples of Debian's alsa-utils.

Skipped where one of them is missing; `TRTW_SPEECH` names another folder of the samples.
"""

import importlib.util
import json
import os
import shutil
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.in_app import json_of, stdout_of
from tests.plugins.speech.test_transcribe import write_wav

from trt_workbench.backends.registry import load_reference
from trt_workbench.stream import StreamPool, read_contract
from trt_workbench.stream.audio import read_audio
from trt_workbench.stream.contract.front_ends import front_end

SAMPLES = Path(os.environ.get("TRTW_SPEECH", "/usr/share/sounds/alsa"))
SPOKEN = ("Front_Left", "Rear_Center", "Side_Right")  # two words each
CHUNK, CONTEXT, RATE = 512, 64, 16_000


def _model() -> Path | None:
    found = importlib.util.find_spec("silero_vad")  # importing it would import torchaudio
    places = list(found.submodule_search_locations or ()) if found else []
    paths = [Path(place) / "data" / "silero_vad_16k_op15.onnx" for place in places]
    return next((path for path in paths if path.is_file()), None)


pytestmark = [
    pytest.mark.skipif(_model() is None, reason="the package silero-vad is not installed"),
    pytest.mark.skipif(not (SAMPLES / "Noise.wav").is_file(), reason=f"no samples of alsa-utils in {SAMPLES}"),
]


def recorded(name: str) -> NDArray[np.float32]:
    """Return a sample at 16 kHz; they have 48 kHz."""
    signal = pytest.importorskip("scipy.signal")
    with wave.open(str(SAMPLES / f"{name}.wav")) as file:
        assert (file.getframerate(), file.getnchannels()) == (48_000, 1)
    samples, _ = read_audio(SAMPLES / f"{name}.wav")
    return signal.resample_poly(samples, 1, 3).astype(np.float32)


@pytest.fixture(scope="module")
def silero(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The model and its contract, drafted; what no file says is answered."""
    model = _model()
    assert model is not None
    folder = tmp_path_factory.mktemp("silero")
    path = Path(shutil.copy(model, folder / "vad.onnx"))
    drafted = folder / "vad.json"
    words = ("--first", CHUNK + CONTEXT, "--later", CHUNK + CONTEXT, "--left-context", CONTEXT)
    said = stdout_of("make-contract", path, "--output", drafted, *words)
    assert "1 TODO left" in said  # whether it runs at 8 or 16 kHz
    document = json.loads(drafted.read_text())
    document["inputs"]["sr"] |= {"role": "constant", "value": RATE}
    document["chunking"] |= {"sample_rate": RATE, "frame_seconds": 1 / RATE}
    drafted.write_text(json.dumps(document))
    return path, drafted


def plainly(path: Path, samples: NDArray[np.float32]) -> list[float]:
    """Return the probability of each chunk by a loop as its authors write it."""
    state, context, found = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32), []
    with load_reference(path) as session:
        for start in range(0, len(samples) - CHUNK + 1, CHUNK):
            piece = samples[start : start + CHUNK]
            feed = {"input": np.concatenate([context, piece])[None], "state": state, "sr": np.array(RATE)}
            outputs = session.run(feed)
            state, context = outputs["stateN"], piece[-CONTEXT:]
            found.append(float(outputs["output"][0, 0]))
    return found


@pytest.mark.parametrize("name", SPOKEN)
def test_bands_of_speech_are_kaldis(name: str) -> None:
    knf = pytest.importorskip("kaldi_native_fbank")
    options = knf.FbankOptions()
    options.frame_opts.dither, options.frame_opts.snip_edges = 0, False
    options.mel_opts.num_bins, options.mel_opts.high_freq = 80, -400
    bank, samples = knf.OnlineFbank(options), recorded(name)
    bank.accept_waveform(RATE, samples.tolist())
    bank.input_finished()
    expected = np.stack([bank.get_frame(frame) for frame in range(bank.num_frames_ready)])
    found = front_end("kaldi", samples, 80)
    assert found.shape == expected.T.shape
    heard = expected.T > -10  # below, kaldi's own sums are rounding
    assert heard.mean() > 0.3
    assert np.abs(found - expected.T)[heard].max() < 1e-2


def test_it_keeps_its_contract(silero: tuple[Path, Path], tmp_path: Path) -> None:
    path, contract = silero
    speech = tmp_path / "speech.npy"
    np.save(speech, np.concatenate([recorded(name) for name in SPOKEN])[None])
    found = json_of("check-contract", contract, path, "--input", speech, "--output", tmp_path / "run")
    verdicts = {one["name"]: one["verdict"] for one in found["checks"]}
    assert "failed" not in verdicts.values()
    assert (verdicts["live state"], verdicts["batch"]) == ("passed", "passed")


def test_streams_hear_words_where_they_are(silero: tuple[Path, Path]) -> None:
    path, contract = silero
    sounds = [recorded(name) for name in (*SPOKEN, "Noise")]
    expected = [plainly(path, one) for one in sounds]
    found: list[list[float]] = [[] for _ in sounds]
    with load_reference(path) as session, StreamPool(session, read_contract(contract), capacity=4) as pool:
        streams = [pool.open() for _ in sounds]
        for start in range(0, max(map(len, sounds)), CHUNK):
            going = [place for place, one in enumerate(sounds) if start + CHUNK <= len(one)]
            if not going:
                break
            chunks = [sounds[place][start : start + CHUNK][None] for place in going]
            for place, outputs in zip(going, pool.push([streams[place] for place in going], chunks), strict=True):
                found[place].append(float(outputs["output"][0, 0]))
    for one, other in zip(found, expected, strict=True):
        assert np.abs(np.subtract(one, other)).max() < 1e-4
    *spoken, noise = found
    assert max(noise) < 0.1
    for one in spoken:
        loud = np.array(one) > 0.5
        assert 0.4 < loud.mean() < 0.95
        assert np.count_nonzero(np.diff(loud.astype(int)) == 1) >= 2  # "rear", "center"


def test_faults_of_its_state_are_caught_on_speech(silero: tuple[Path, Path], tmp_path: Path) -> None:
    path, contract = silero
    speech = tmp_path / "speech.wav"
    write_wav(speech, np.concatenate([recorded(name) for name in SPOKEN]))
    found: dict[str, Any] = json_of(
        "eval-stream", path, "--contract", contract, "--backend", "ort-cpu", "--mode", "closed-loop", "--input", speech,
        "--chunks", 130, "--faults", "--no-report", "--output", tmp_path / "run",
    )  # fmt: skip
    assert found["passed"]
    caught = {one["fault"]: one["caught_by"] for one in found["faults"]["planted"] if one["lane"]}
    assert {"stale state", "NaN"} <= caught.keys()
    assert all(caught.values())
