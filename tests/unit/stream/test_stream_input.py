"""The stream that a model is evaluated on, and files that cannot be one."""

import os
import struct
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest
from tests.streaming_models import contract_of
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_contract
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.log_mel import log_mel
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.input import LAGS, SYMBOLS, answers_of, code_audio, held_out, open_stream


@pytest.fixture(scope="module")
def contract() -> Contract:
    return read_contract(embedded_contract())


def write_wav(path: Path, samples: np.ndarray, rate: int = 16_000, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 2**15).astype("<i2").tobytes())
    return path


def test_audio_becomes_features(contract: Contract, tmp_path: Path) -> None:
    samples = np.round(code_audio(5, 0).samples * 2**15) / 2**15
    path = write_wav(tmp_path / "a.wav", samples)
    stream = open_stream(contract, str(path), 10**6, 0)
    assert np.array_equal(stream.signal, log_mel(samples.astype(np.float32))[None])
    assert stream.record["kind"] == "wav"
    assert open_stream(contract, str(path), 7, 0).signal.shape == (1, 80, 7)


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16_000, 2)])
def test_audio_of_another_kind_is_refused(rate: int, channels: int, contract: Contract, tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", np.zeros(4000), rate, channels)
    with refused(UsageProblem):
        open_stream(contract, str(path), 100, 0)


def test_audio_needs_a_sample_rate_and_known_features(contract: Contract, tmp_path: Path) -> None:
    path = str(write_wav(tmp_path / "a.wav", np.zeros(4000)))
    with refused(UsageProblem):
        open_stream(Contract.model_validate(contract_of("attention")), path, 100, 0)
    slower = contract.model_dump(mode="json")
    slower["chunking"]["frame_seconds"] = 0.02
    with refused(UsageProblem):
        open_stream(Contract.model_validate(slower), path, 100, 0)


@pytest.mark.parametrize(
    ("shape", "time_axis", "frame", "expected"),
    [
        (["B", 1, "T"], 2, 1, (1, 1, 60)),
        (["B", "T", 1], 1, 1, (1, 60, 1)),
        (["B", "T", 8], 1, 8, (1, 12, 8)),
        (["B", 8, "T"], 2, 8, (1, 8, 12)),
    ],
)
def test_channels_and_frames_of_samples(
    shape: list[str | int], time_axis: int, frame: int, expected: tuple[int, ...], tmp_path: Path
) -> None:
    """As convolutions and models that take a frame of audio have them."""
    document = contract_of("lstm")
    document["inputs"]["x"] |= {"shape": shape, "time_axis": time_axis}
    document["chunking"] |= {"sample_rate": 16_000, "frame_seconds": frame / 16_000}
    contract = Contract.model_validate(document)
    samples = np.arange(100) / 2**15
    found = open_stream(contract, str(write_wav(tmp_path / "a.wav", samples)), 60, 0).signal
    assert found.shape == expected
    assert np.array_equal(np.moveaxis(found, time_axis, 1).reshape(-1), samples[: found.size].astype(np.float32))
    document["chunking"]["frame_seconds"] = 2 * frame / 16_000
    with refused(UsageProblem):
        open_stream(Contract.model_validate(document), str(tmp_path / "a.wav"), 60, 0)


def test_a_model_of_samples_gets_samples(tmp_path: Path) -> None:
    document = contract_of("lstm")
    signal = next(one for one in document["inputs"].values() if one["role"] == "signal")
    signal["shape"] = ["B", "T"]
    signal |= {"batch_axis": 0, "time_axis": 1}
    document["symbols"] |= {"B": None, "T": None}
    document["chunking"] |= {"sample_rate": 16_000}
    samples = np.arange(100) / 2**15
    path = write_wav(tmp_path / "a.wav", samples)
    stream = open_stream(Contract.model_validate(document), str(path), 60, 0)
    assert np.array_equal(stream.signal, samples[None, :60].astype(np.float32))


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00"])
def test_a_damaged_wav_is_refused(content: bytes, contract: Contract, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with refused(UsageProblem):
        open_stream(contract, str(path), 100, 0)


def test_features_of_a_file(contract: Contract, tmp_path: Path) -> None:
    path, features = tmp_path / "f.npy", np.random.default_rng(0).standard_normal((80, 300)).astype(np.float32)
    for array in (features, features[None], features.astype(np.float64)):
        np.save(path, array)
        stream = open_stream(contract, str(path), 200, 0)
        assert stream.signal.dtype == np.float32
        assert np.array_equal(stream.signal, features[None, :, :200])


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((40, 300), np.float32),
        np.zeros((80, 300), np.int64),
        np.zeros((80, 0), np.float32),
        np.full((80, 10), np.nan, np.float32),
        np.zeros(5, np.float32),
    ],
)
def test_features_that_do_not_fit_are_refused(array: np.ndarray, contract: Contract, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", array)
    with refused(UsageProblem):
        open_stream(contract, str(tmp_path / "f.npy"), 200, 0)


def test_other_files_are_refused(contract: Contract, tmp_path: Path) -> None:
    for source in ("speech.mp3", str(tmp_path / "none.wav")):
        with refused(UsageProblem):
            open_stream(contract, source, 100, 0)


def test_a_stream_beyond_all_bounds_is_refused(contract: Contract) -> None:
    for source in ("random", "code"):
        with refused(UsageProblem):
            open_stream(contract, source, 2**30, 0)


def test_tokens_are_not_drawn_at_random(contract: Contract) -> None:
    document = contract.model_dump(mode="json")
    document["inputs"]["audio_signal"]["dtype"] = "int64"
    with refused(UsageProblem):
        open_stream(Contract.model_validate(document), "random", 100, 0)


def test_streams_of_seeds_differ_and_repeat(contract: Contract) -> None:
    for source in ("random", "code"):
        one, again, other = (open_stream(contract, source, 50, seed) for seed in (0, 0, 1))
        assert one.signal.shape == (1, 80, 50)
        assert np.array_equal(one.signal, again.signal)
        assert not np.array_equal(one.signal, other.signal)
        assert not np.array_equal(held_out(contract, one, 50).signal, one.signal)


def test_the_held_out_part_of_a_file_is_its_second_half_first(contract: Contract, tmp_path: Path) -> None:
    features = np.arange(80 * 10, dtype=np.float32).reshape(80, 10)
    np.save(tmp_path / "f.npy", features)
    stream = open_stream(contract, str(tmp_path / "f.npy"), 10, 0)
    assert np.array_equal(held_out(contract, stream, 10).signal[0], np.roll(features, 5, 1))


def test_the_answer_is_the_symbol_that_the_lag_says() -> None:
    symbols = code_audio(3000, 7).symbols
    answers = answers_of(symbols)
    assert set(symbols) == set(range(SYMBOLS))
    for place in (0, LAGS[-1], 2999):
        source = place - LAGS[symbols[place] % 4]
        assert answers[place] == (symbols[source] if source >= 0 else -1)
    assert (answers[: LAGS[0]] == -1).all()


@pytest.mark.parametrize("seconds", [1, 4096])
def test_of_a_long_file_only_what_is_needed_is_read(seconds: int, contract: Contract, tmp_path: Path) -> None:
    size = 32_000 * seconds
    form = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
    data = b"fmt \x10\0\0\0" + form + b"data" + struct.pack("<I", size)
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", size + 36) + b"WAVE" + data)
    os.truncate(path, size + 44)
    tracemalloc.start()
    assert open_stream(contract, str(path), 20, 0).signal.shape == (1, 80, 20)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5e6
