"""`trtw eval-speech`: words, their error rates, gates, and manifests that are none."""

import json
import shutil
import wave
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.copies import copied
from tests.in_app import json_of, stderr_of, stdout_of
from tests.texts import held

from trt_workbench.core.documents import read_lines
from trt_workbench.core.workspace import ENCODER, embedded_model
from trt_workbench_speech.document import TranscriptRecord
from trt_workbench_speech.run import Transcription
from trt_workbench_speech.spoken_code import BLANK, HELD_OUT_UTTERANCES, TOKENS, steps, utterance

QUICK = ("eval-speech", "--backend", "ort-cpu", "--no-report")


def write_wav(path: Path, samples: Any, rate: int = 16_000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def write_manifest(folder: Path, *lines: Any) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three utterances as WAV files, and two of them in one file."""
    folder = tmp_path_factory.mktemp("spoken")
    said = [utterance(seed) for seed in HELD_OUT_UTTERANCES[:3]]
    for number, one in enumerate(said):
        write_wav(folder / f"{number}.wav", one.samples)
    write_wav(folder / "two.wav", np.concatenate([said[0].samples, said[1].samples]))
    return folder


@pytest.mark.long
def test_a_bare_machine_has_an_error_rate(tmp_path: Path) -> None:
    run = tmp_path / "run"
    printed = stdout_of(*QUICK, "--faults", "--output", run)
    found = json.loads((run / "metrics.json").read_text())
    reference, fp32 = found["sides"]
    assert (found["utterances"], found["words"], found["source"]) == (48, 679, {"kind": "code"})
    assert 0 < fp32["wer"]["value"] < 0.03
    assert fp32["wer"] == reference["wer"]
    assert fp32["wer"]["ci95"][0] <= fp32["wer"]["value"] <= fp32["wer"]["ci95"][1]
    assert 0 < fp32["token_error_rate"]["value"] < fp32["wer"]["value"]
    assert found["differences"]["fp32"]["utterances_changed"] == 0
    assert 0 < fp32["real_time_factor"] < 1
    assert fp32["word_latency_ms"]["count"] > 600
    assert [(one["fault"], one["caught"]) for one in found["faults"]] == [
        ("stale predictor state", True),
        ("predictor not fed", True),
        ("blank off by one", True),
        ("duration ignored", True),
        ("frame late", True),
    ]
    for words in ("Word error rate: 48 utterances, 679 words", "stale predictor state", "latency of a word"):
        assert words in printed
    records: list[TranscriptRecord] = read_lines(run / "transcripts.jsonl", TranscriptRecord)
    wrong = sum(one.errors["fp32"] for one in records)
    assert wrong / 679 == fp32["wer"]["value"]
    assert wrong == fp32["substitutions"] + fp32["deletions"] + fp32["insertions"]


@pytest.mark.long
def test_a_manifest_gives_what_the_code_gives(tmp_path: Path, spoken: Path) -> None:
    texts = [utterance(seed).text for seed in HELD_OUT_UTTERANCES[:3]]
    seconds = len(utterance(HELD_OUT_UTTERANCES[0]).samples) / 16_000
    manifest = write_manifest(
        spoken,
        {"audio": "0.wav", "text": texts[0]},
        {"audio_filepath": "1.wav", "text": texts[1], "duration": None, "speaker": 7},
        {"audio": "two.wav", "text": texts[0].upper(), "duration": seconds},
        {"audio": "two.wav", "text": texts[1], "offset": seconds},
        {"audio": "2.wav", "text": ""},
        {"audio": "2.wav", "text": "\N{SNOWMAN}"},
    )
    found = json_of(*QUICK, "--data", manifest, "--normalize", "--output", tmp_path / "run")
    assert found["settings"]["normalize"]
    assert "1 text of the manifest is empty: any word is an error." in found["notes"]
    assert found["notes"][0].endswith("which 1 text of the manifest has: each is an error.")
    records: list[TranscriptRecord] = read_lines(tmp_path / "run" / "transcripts.jsonl", TranscriptRecord)
    heard = [one.found["fp32"] for one in records]
    assert heard[0] == heard[2]
    assert heard[1] == heard[3]
    assert [one.errors["fp32"] for one in records[:4]] == [0] * 4
    assert records[4].errors["fp32"] == len(heard[4].split()) > 5
    plain = json_of(*QUICK, "--data", manifest, "--utterances", 3, "--output", tmp_path / "plain")
    side = plain["sides"][0]
    assert side["wer"]["value"] > 0.2  # the upper case
    assert side["plain_wer"] == 0
    assert "The vocabulary cannot write" in plain["notes"][0]


@pytest.mark.long
def test_gates_end_with_1(tmp_path: Path) -> None:
    words = (*QUICK, "--utterances", 24, "--max-wer", 0, "--output", tmp_path / "run")
    held(stderr_of(*words, code=1).splitlines()[-1])


@pytest.mark.long
def test_a_precision_that_writes_other_words_fails(tmp_path: Path) -> None:
    """The target's head is spoiled, not the reference's: only the words show it where no tensor's gate is on."""
    folder = copied(embedded_model(ENCODER).parent, tmp_path / "model")
    document = onnx.load(folder / "streaming-encoder.onnx")
    weights = next(one for one in document.graph.initializer if one.name == "blocks.2.norm.weight")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * np.float32(0.3), weights.name))
    onnx.save(document, folder / "spoiled.onnx")
    contract = json.loads((folder / "contract.json").read_text())
    contract["gates"] = {"fp32": {"rel_l2_max": 9}, "head_agreement_min": None}
    (folder / "contract.json").write_text(json.dumps(contract))
    manifest = write_manifest(tmp_path, *_written(tmp_path, 4))
    words = ("--contract", folder / "contract.json", "--model", embedded_model(ENCODER), "--data", manifest)
    found = json_of(*QUICK, folder / "spoiled.onnx", *words, "--output", tmp_path / "run", code=1)
    (failure,) = found["failures"]
    assert failure.startswith("fp32: gate wer_loss: WER is +")
    changed = found["changes"]["fp32"]
    assert changed
    assert found["differences"]["fp32"]["utterances_changed"] == len(changed)
    assert all(one["found"] != one["reference"] for one in changed)
    stdout_of("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<h3>Texts that changed: fp32</h3>" in page
    assert changed[0]["found"] in page


@pytest.mark.long
def test_the_same_audio_in_other_chunks_and_whole(tmp_path: Path) -> None:
    """A causal encoder hears the same in chunks of any size; what differs is how long a word waits."""
    offline = copied(embedded_model(ENCODER).parent, tmp_path / "offline")
    contract = json.loads((offline / "contract.json").read_text())
    contract["chunking"]["later"] = contract["chunking"]["first"] = {"size": 121, "left_context": 9}
    (offline / "large.json").write_text(json.dumps(contract))
    asked = ("17", "121", "whole", str(offline / "large.json"))
    asked = (*asked, f"{offline / 'streaming-encoder.onnx'}={offline / 'contract.json'}")
    words = [word for one in asked for word in ("--also", one)]
    printed = stdout_of(*QUICK, "--utterances", 6, *words, "--report", "--output", tmp_path / "run")
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    reference, ways = found["sides"][0], found["ways"]
    assert [one["name"] for one in ways] == [
        "chunks of 17 frames",
        "chunks of 121 frames",
        "whole utterances",
        asked[3],
        f"{asked[4]}, whole utterances",
    ]
    assert {one["utterances_changed"] for one in ways} == {0}
    assert {one["difference"]["value"] for one in ways} == {0}
    assert {one["wer"]["value"] for one in ways} == {reference["wer"]["value"]}
    assert [one["hop_seconds"] for one in ways] == [0.08, 1.12, None, 1.12, None]
    least, large, whole, same, offline_too = (one["word_delay_ms"]["p50"] for one in ways)
    assert least < reference["word_delay_ms"]["p50"] < large < whole
    assert 200 < reference["word_delay_ms"]["p50"] < 700
    assert abs(same - large) < 200
    assert offline_too > 1000
    assert "The same audio heard in other ways" in printed
    assert "The same audio heard in other ways" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.long
def test_faults_of_a_vocabulary_that_leaves_out_the_blank(tmp_path: Path) -> None:
    """NeMo's does: a fault writes a token that it lacks, which is an error in the words and none of the run."""
    folder = copied(embedded_model(ENCODER).parent, tmp_path / "model")
    pieces = (folder / "tokens.txt").read_text().splitlines()
    (folder / "tokens.txt").write_text("\n".join(one for one in pieces if not one.startswith("<")) + "\n")
    words = ("--contract", folder / "contract.json", "--utterances", 6, "--faults")
    found = json_of(*QUICK, *words, "--output", tmp_path / "run")
    assert {one["fault"]: one["caught"] for one in found["faults"]}["blank off by one"]


def test_other_ways_that_there_are_not(tmp_path: Path) -> None:
    silent = tmp_path / "c.json"
    contract = json.loads((embedded_model(ENCODER).parent / "contract.json").read_text())
    silent.write_text(json.dumps({name: one for name, one in contract.items() if name != "decoding"}))
    said = []
    for way in ("0", "9", "18", "half", "none.json", "m.plan=c.json", silent, f"none.onnx={silent}"):
        said.append(stderr_of(*QUICK, "--utterances", 2, "--also", way).splitlines()[-1])
    held(*said)


def _written(folder: Path, count: int) -> list[dict[str, str]]:
    for number, seed in enumerate(HELD_OUT_UTTERANCES[:count]):
        write_wav(folder / f"{number}.wav", utterance(seed).samples)
    return [{"audio": f"{n}.wav", "text": utterance(s).text} for n, s in enumerate(HELD_OUT_UTTERANCES[:count])]


@pytest.mark.parametrize(
    "lines",
    [
        [{"text": "a"}],
        [{"audio": "0.wav"}],
        [{"audio": "none.wav", "text": "a"}],
        [{"audio": "0.wav", "text": "a", "offset": 99}],
        [{"audio": "0.wav", "text": "a", "duration": 99}],
        [{"audio": "0.wav", "text": "a", "duration": 0}],
        [{"audio": "8k.wav", "text": "a"}],
        [{"audio": "stereo.wav", "text": "a"}],
        [{"audio": "manifest.jsonl", "text": "a"}],
        [{"audio": "empty.wav", "text": "a"}],
        [{"audio": "0.wav", "text": " "}],
        [],
        ["a.wav a b c"],
        ["[1]"],
    ],
    ids=[
        *("no audio", "no text", "absent audio", "late offset", "long duration", "no duration", "other rate", "stereo"),
        *("no wav", "no samples", "no words", "empty", "no JSON", "no object"),
    ],
)
def test_manifests_that_cannot_be_used(tmp_path: Path, spoken: Path, lines: list[Any]) -> None:
    shutil.copy(spoken / "0.wav", tmp_path)
    write_wav(tmp_path / "8k.wav", np.zeros(8000), 8000)
    write_wav(tmp_path / "empty.wav", np.zeros(0))
    with wave.open(str(tmp_path / "stereo.wav"), "wb") as file:
        file.setparams((2, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(64_000))
    held(stderr_of(*QUICK, "--data", write_manifest(tmp_path, *lines)).splitlines()[-1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # and the rate is what is wrong with it
        ({"audio": "8k.wav", "duration": 99}, "The audio has 8000 samples/s, but the contract says 16000; resample it"),
        ({"audio": "tiny.wav"}, "The audio is shorter than a frame: tiny.wav"),
        ({"audio": "0.wav", "constants": {"language": "en"}}, "The contract has no constant language"),
    ],
    ids=["other rate", "no frame", "no constant"],
)
def test_what_cannot_be_heard_is_refused_before_anything_runs(
    tmp_path: Path, spoken: Path, monkeypatch: pytest.MonkeyPatch, line: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(Transcription, "run", None)
    shutil.copy(spoken / "0.wav", tmp_path)
    write_wav(tmp_path / "8k.wav", np.zeros(8000), 8000)
    write_wav(tmp_path / "tiny.wav", np.zeros(100))
    lines = {"audio": "0.wav", "text": "a"}, {**line, "text": "a"}
    assert said in stderr_of(*QUICK, "--data", write_manifest(tmp_path, *lines), code=2)


def test_texts_of_punctuation_have_no_word_without_it(tmp_path: Path, spoken: Path) -> None:
    manifest = write_manifest(tmp_path, {"audio": str(spoken / "0.wav"), "text": "…"})
    said = stderr_of(*QUICK, "--data", manifest, "--normalize", code=2)
    assert "The manifest has no text but case and punctuation" in said


@pytest.mark.long
def test_settings_and_contracts_that_cannot_transcribe(tmp_path: Path) -> None:
    folder = copied(embedded_model(ENCODER).parent, tmp_path / "model")
    model, path = folder / "streaming-encoder.onnx", folder / "contract.json"
    contract = json.loads(path.read_text())
    said = []

    def refused(document: dict[str, Any], *words: object) -> None:
        path.write_text(json.dumps(document))
        lines = stderr_of(*QUICK, model, "--contract", path, *words).splitlines()
        said.append([line for line in lines if line.startswith("error: ")][-1])

    refused({name: one for name, one in contract.items() if name != "decoding"})
    refused({**contract, "schema_version": 2})
    for change in ({"frames": "encodde"}, {"frames": "cache_last_time_next"}, {"tokens": "none.txt"}, {"blank": 14}):
        refused({**contract, "decoding": {**contract["decoding"], **change}})
    refused({**contract, "chunking": {**contract["chunking"], "frame_seconds": None}})
    said.append(stderr_of(*QUICK, "--data", "none.jsonl").splitlines()[-1])
    other = shutil.copy(model, tmp_path / "other.onnx")
    document = onnx.load(other)
    document.doc_string = "another file"
    onnx.save(document, other)
    path.write_text(json.dumps(contract))
    said.append(stderr_of(*QUICK, other, "--contract", path).splitlines()[-1])
    record = tmp_path / "record"
    stdout_of("eval-stream", "--backend", "ort-cpu", "--chunks", 4, "--no-report", "--record", "--output", record)
    said.append(stderr_of(*QUICK, "--reference", record).splitlines()[-1])
    held(*said)


def test_texts_of_the_code_need_memory_and_durations() -> None:
    written = list(steps([0, 12, 0, 1, 5, 0, 0, 17, 9, 0, 15, 3]))
    assert [(one.place, "_" if one.token == BLANK else TOKENS[one.token], one.duration) for one in written] == [
        (0, "_", 1),
        (1, "▁", 0),
        (1, "a", 1),
        (2, "d", 1),
        (3, "h", 2),
        (5, "j", 1),
        (6, "j", 1),
        (7, "_", 2),
        (9, "j", 1),
        (10, "▁", 0),
        (10, "d", 1),
        (11, "g", 2),
    ]
