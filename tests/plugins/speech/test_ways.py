"""Other ways to hear the same audio: chunks of other sizes, and models that have none."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.in_app import json_of, stderr_of
from tests.speech_decoders import lstm_parts, stateless_parts, write_tokens
from tests.speech_exports import parakeet_tdt, parakeet_unified, zipformer
from tests.streaming_models import contract_of
from tests.texts import held, refused
from tests.unit.stream.test_stream_input import write_wav

from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream import Contract
from trt_workbench.stream.input import code_audio
from trt_workbench_speech.ways import in_chunks, whole


def attention(**chunking: Any) -> Contract:
    document = contract_of("attention")
    document["chunking"] |= chunking
    return Contract.model_validate(document)


def test_the_first_chunk_grows_as_the_later_ones_do() -> None:
    contract = attention()
    before = contract.chunking
    more = contract.chunking.later.hop
    made = in_chunks(contract, before.later.size + more)
    assert (made.chunking.first.size, made.chunking.later.size) == (before.first.size + more, before.later.size + more)
    assert made.chunking.later.left_context == before.later.left_context
    assert made.profiles_for(made.chunk_values(next(made.chunks(1))))
    batch = contract.batch_symbol
    assert batch
    assert made.profiles[0].symbols[batch][2] == max(one.symbols[batch][2] for one in contract.profiles)


@pytest.mark.parametrize("frames", [1, 17, 100, 1001])
def test_a_whole_utterance_is_one_chunk(frames: int) -> None:
    made = whole(attention(), frames)
    (chunk,) = made.chunks(frames)
    assert chunk.new == frames
    assert made.chunk_values(chunk)


def test_windows_that_look_ahead_have_a_contract_each() -> None:
    with refused(UsageProblem):
        in_chunks(attention(right_context=4), 64)


def _encoder(folder: Path, export: Any, *words: object) -> tuple[Path, Path]:
    """An encoder with its decoder and a drafted contract."""
    model = export(folder)
    write_tokens(folder)
    _ = stateless_parts(folder) if export is zipformer else lstm_parts(folder, ())
    for part in ("decoder", "joiner"):
        (folder / f"{part}.onnx").rename(folder / model.name.replace("encoder", part))
    assert json_of("make-contract", model, "-o", folder / "c.json", *words)["undecided"] == {}
    return model, folder / "c.json"


def test_an_offline_encoder_hears_whole_utterances(tmp_path: Path) -> None:
    """Windows and the whole are of one encoder; features that are normalised over other frames change words."""
    for name in ("windows", "offline"):
        (tmp_path / name).mkdir()
    model, contract = _encoder(tmp_path / "windows", parakeet_unified)
    offline, its = _encoder(tmp_path / "offline", parakeet_tdt, "--first", 240)
    lines = []
    for number, count in enumerate((12, 30)):
        write_wav(tmp_path / f"{number}.wav", code_audio(count, number).samples)
        lines.append(json.dumps({"audio": f"{number}.wav", "text": "a bad cab"}))
    manifest = tmp_path / "m.jsonl"
    manifest.write_text("\n".join(lines))
    words = ("eval-speech", model, "--contract", contract, "--backend", "ort-cpu", "--no-report", "--data", manifest)
    found = json_of(*words, "--also", f"{offline}={its}", "--output", tmp_path / "run")
    (way,) = found["ways"]
    assert way["model"] == str(offline)
    assert way["hop_seconds"] is None
    assert way["word_delay_ms"]["count"] > 0
    said = [stderr_of(*words, "--also", asked).splitlines()[-1] for asked in ("whole", "800")]
    (tmp_path / "zipformer").mkdir()
    model, contract = _encoder(tmp_path / "zipformer", zipformer)
    words = ("eval-speech", model, "--contract", contract, "--backend", "ort-cpu", "--no-report", "--data", manifest)
    said.append(stderr_of(*words, "--also", 77).splitlines()[-1])
    held(*said)
