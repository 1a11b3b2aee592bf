"""`trtw decide` of a streaming encoder: word error rates of candidates whose ranges come from utterances."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.copies import copied
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.plugins.speech.test_transcribe import write_manifest, write_wav
from tests.texts import held

from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.model.opened import Model
from trt_workbench.quantize import CalibrationSettings, calibration_data
from trt_workbench.quantize.data import batches
from trt_workbench_speech.scoring import WordsTask
from trt_workbench_speech.spoken import Spoken
from trt_workbench_speech.spoken_code import CALIBRATION_UTTERANCES, HELD_OUT_UTTERANCES, utterance

pytestmark = pytest.mark.usefixtures("blank_pictures")

MODEL = embedded_model(ENCODER)
QUICK = ("decide", "--backends", "ort-cpu", "--no-search")


@pytest.fixture(scope="module", autouse=True)
def _own_candidates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        yield


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Manifests of utterances to score and of others to calibrate on."""
    found = []
    for name, seeds in (("scored", HELD_OUT_UTTERANCES[:8]), ("others", CALIBRATION_UTTERANCES[:8])):
        folder, lines = tmp_path_factory.mktemp(name), []
        for number, seed in enumerate(seeds):
            said = utterance(seed)
            write_wav(folder / f"{number}.wav", said.samples)
            lines.append({"audio": f"{number}.wav", "text": said.text})
        found.append(write_manifest(folder, *lines))
    return found[0], found[1]


@pytest.mark.long
def test_precisions_of_the_embedded_encoder_are_compared_by_their_words(tmp_path: Path) -> None:
    words = (
        "--precisions",
        "fp32,fp16,int8",
        "--limit",
        6,
        "--samples",
        16,
        "--repetitions",
        0,
        "--max-loss",
        0.05,
    )
    found = json_of(*QUICK, MODEL, *words, "--keep", "AP,token_error_rate", "--output", tmp_path / "run")
    assert (found["task"], found["figure"], found["unit"]) == ("transcription", "WER", "utterances")
    assert (found["keep"], found["samples"], found["data"]) == (["WER", "token_error_rate"], 6, "code")
    fp32, fp16, int8 = found["rows"]
    assert fp32["score"]["value"] < 0.05
    for row in (fp16, int8):
        assert row["score"]["loss"] == row["score"]["value"] - fp32["score"]["value"]
        low, high = row["score"]["loss_ci95"]
        assert low <= row["score"]["loss"] <= high
        assert row["score"]["others"]["token_error_rate"]["loss"] <= 0.05
    assert int8["calibrated"]
    assert int8["score"]["value"] < 0.1, "ranges of noise give 0.78"
    assert found["passed"]
    written = json.loads((tmp_path / "run" / fp32["directory"] / "words.json").read_text())
    assert sum(written["word_errors"]) / sum(written["words"]) == fp32["score"]["value"]
    assert "Further scores" in (tmp_path / "run" / "report.html").read_text()


def _spoiled(folder: Path, gain: float) -> tuple[Path, Path]:
    """An encoder with a contract of its own, whose precisions cannot be told from noise of this size."""
    copied(MODEL.parent, folder)
    path = folder / "other.onnx"
    document = onnx.load(MODEL)
    document.doc_string = "not the embedded file"
    weights = next(one for one in document.graph.initializer if one.name == "blocks.2.norm.weight")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * np.float32(gain), weights.name))
    onnx.save(document, path)
    return path, folder / "contract.json"


@pytest.mark.long
def test_a_manifest_and_a_contract_of_ones_own(tmp_path: Path, spoken: tuple[Path, Path]) -> None:
    model, contract = _spoiled(tmp_path / "model", 1.0)
    words = (
        "--contract",
        contract,
        "--precisions",
        "fp32,int8",
        "--samples",
        16,
        "--max-loss",
        1,
    )
    scored, others = spoken
    data = ("--data", scored, "--calibration", others, "--repetitions", 2)
    found = json_of(*QUICK, model, *words, *data, "--output", tmp_path / "run")
    assert found["rows"][0]["speed"]["outputs"] == "matched"
    assert not any("were also scored" in doubt for doubt in found["recommendation"]["doubts"])
    resumed = (*QUICK, model, *words, *data, "--output")
    taken, changed = (shutil.copytree(tmp_path / "run", tmp_path / name) for name in ("taken", "changed"))
    json_of(*resumed, taken)
    audio = (scored.parent / "0.wav").read_bytes()
    write_wav(scored.parent / "0.wav", utterance(CALIBRATION_UTTERANCES[9]).samples)
    json_of(*resumed, changed)
    (scored.parent / "0.wav").write_bytes(audio)
    first, again, other = (
        json.loads((run / "scores" / "fp32" / "ort-cpu" / "words.json").read_text())
        for run in (tmp_path / "run", taken, changed)
    )
    assert again == first  # with its times
    assert other["found"][0] != first["found"][0]
    same = json_of(*QUICK, model, *words, "--data", scored, "--repetitions", 0, "--output", tmp_path / "same")
    assert any("calibration utterances were also scored" in doubt for doubt in same["recommendation"]["doubts"])


@pytest.mark.long
def test_a_precision_that_loses_words_fails_the_gate(tmp_path: Path) -> None:
    """Noise as calibration: ranges that speech exceeds."""
    words = ("--precisions", "fp32,int8", "--limit", 4, "--repetitions", 0, "--calibration", "random")
    said = trtw(*QUICK, MODEL, *words, "--output", tmp_path / "run")
    assert said.exit_code == 1
    assert "no lower precision keeps WER within 0.005" in said.output
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    assert not document["rows"][1]["calibrated"]
    assert document["rows"][1]["score"]["loss"] > 0.1
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Texts that change most" in page


@pytest.mark.long
def test_calibration_feeds_the_states_that_a_stream_reaches(spoken: tuple[Path, Path]) -> None:
    settings = CalibrationSettings(calibration="code", samples=12)
    data = calibration_data(Model.open(MODEL), settings)
    calls = list(batches(data, 99))
    assert data.whole
    assert len(calls) == len(data.names) == 12
    assert all(one.size == 1 and one.inputs["audio_signal"].shape == (1, 80, 65) for one in calls)
    filled = [int(one.inputs["cache_last_channel_len"][0]) for one in calls]
    assert len(set(filled)) == 1 or max(filled) > 0
    many = calibration_data(Model.open(MODEL), CalibrationSettings(calibration=str(spoken[1]), samples=80))
    fed = {int(one.inputs["cache_last_channel_len"][0]): one for one in batches(many, 1)}
    assert min(fed) == 0
    assert max(fed) == 70  # the whole memory
    late = fed[70]
    assert np.abs(late.inputs["cache_last_channel"]).min(axis=(0, 1, 3)).max() > 0


@pytest.mark.long
def test_a_manifest_gives_ranges_and_a_score(tmp_path: Path, spoken: tuple[Path, Path]) -> None:
    model, contract = _spoiled(tmp_path / "model", 1.0)
    words = (model, "--to", "int8", "--calibration", spoken[1], "--contract", contract, "--samples", 16)
    found = json_of("quantize", *words, "--output", tmp_path / "m.onnx")
    assert found["calibration"]["samples"] == 16
    assert found["calibration"]["available"] > 16 * 5
    assert found["calibration"]["transform"] == "chunks with their states"
    said = stderr_of("sensitivity", *words, "--score", "wer", "--output", tmp_path / "run")  # halves of 8
    held(said.splitlines()[-1])


@pytest.mark.long
def test_a_search_is_by_words(tmp_path: Path) -> None:
    few = ("--samples", 8, "--keep", "/blocks.1/*", "--keep", "/blocks.2/*")
    words = ("--to", "int8", "--calibration", "code", *few)
    stdout_of("quantize", MODEL, *words, "--keep-score", 1, "--output", tmp_path / "m.onnx")
    found = json.loads((tmp_path / "m.search" / "search.json").read_text())["evidence"]
    assert (found["figure"], found["unit"], found["samples"]) == ("WER", "utterances", len(CALIBRATION_UTTERANCES) // 2)
    assert found["chosen"]["kept"] == 0


def test_what_cannot_be_asked_of_utterances(tmp_path: Path, spoken: tuple[Path, Path]) -> None:
    model, contract = _spoiled(tmp_path / "model", 1.0)
    said: list[str] = []

    def refused(*words: Any) -> None:
        said.append(
            stderr_of("decide", *words, "--output", tmp_path / "run").splitlines()[-1].replace(str(tmp_path), "")
        )

    for more in (
        ("--annotations", "a.json", "--data", spoken[0]),
        ("--split", "val", "--data", spoken[0]),
        ("--score", "cosine"),
        ("--keep", "f1@0.25"),
        ("--data", "none.jsonl"),
        ("--calibration", "none.jsonl", "--limit", 2, "--precisions", "fp32,int8"),
    ):
        refused(MODEL, *more)
    refused(model, "--contract", contract)
    refused("--keep", "WER")
    refused("--score", "wer")
    said.append(stderr_of("quantize", MODEL, "--to", "int8", "--calibration", "code", "--score", "cosine",
                          "--keep-score", 0.1, "--output", tmp_path / "m.onnx").splitlines()[-1])  # fmt: skip
    held(*said)


def test_utterances_are_compared_as_a_model_is_fed_them(tmp_path: Path) -> None:
    document = json.loads(embedded_contract().read_text())
    document["chunking"]["normalize"] = "window"
    (tmp_path / "c.json").write_text(json.dumps(document))
    shutil.copy(embedded_contract().with_name("tokens.txt"), tmp_path)
    task = WordsTask(Spoken(tmp_path / "c.json", "code"), limit=2)
    pieces = [one["audio_signal"] for one in task.samples_of(Model.open(embedded_model(ENCODER)))]
    assert len(pieces) > 20
    assert max(abs(float(one.mean())) for one in pieces) < 1e-3
    assert task.sizes() == {"kind": "stream"}
