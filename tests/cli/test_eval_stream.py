"""`trtw eval-stream` as a program: exit codes, files, its report."""

import json
import signal
import wave
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.fork_server import ForkServer
from tests.in_app import stderr_of, stdout_of, trtw
from tests.streaming_models import attention, contract_of, lstm, write_contract
from tests.texts import held
from tests.waiting import ended

from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    return [str(attention(tmp_path)), "--contract", str(contract), "--backend", "ort-cpu"]


def refused(tmp_path: Path, words: Sequence[object], *texts: str) -> None:
    said = stderr_of("eval-stream", *words, "--output", tmp_path / "run")
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    for text in texts:
        assert text in error
    assert not list(tmp_path.glob("**/run")) + list(tmp_path.glob("**/.run*staging"))


def test_the_embedded_encoder_needs_no_arguments(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--chunks", 10, "--backend", "ort-cpu", "--mode", "closed-loop", "--faults", "--output", run)
    printed = stdout_of("eval-stream", *words)
    assert "10 chunks, 5.6 s of audio, ort-cpu compared with ort-cpu" in printed
    assert "Nothing to compare." in printed
    assert {path.name for path in run.iterdir()} == {
        "env.json", "metrics.json", "plots", "records.jsonl", "report.html", "run.json", "work.json",
    }  # fmt: skip
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["input"]["kind"] == "code"
    assert metrics["memory_chunks"] == 35
    assert len(metrics["faults"]["planted"]) == 9
    assert metrics["faults"]["missed"] == []
    assert json.loads((run / "run.json").read_text())["passed"] is True
    page = (run / "report.html").read_text()
    for text in ("Planted faults by gate", "creeping gain", "cache_last_time_next", "data:image/png"):
        assert text in page


@pytest.mark.long
def test_streams_in_real_time_are_compared_then_timed_and_shown(model: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--mode", "closed-loop", "--chunks", 6, "--streams", "1,3", "--hop-ms", 20, "--seconds", 0.1)
    printed = stdout_of("eval-stream", *model, *words, "--output", run)
    assert "fp32 streams in batches of 1, 2, 3 compared with each alone: " in printed
    assert "Time of a chunk after one of the other size, compared with one after its own size: first " in printed
    assert "One chunk per stream every 20 ms" in printed
    assert "on the host" in printed
    (paced,) = json.loads((run / "metrics.json").read_text())["streams"]
    assert [level["streams"] for level in paced["levels"]] == [1, 3]
    assert paced["check"]["passed"]
    assert paced["switch"]["rounds"] >= 5
    assert (run / "plots" / "streams-fp32.svg").is_file()
    page = (run / "report.html").read_text()
    said = ("after one of the other size", "real-time factor", "within a hop at p99", "state p50, ms")
    for text in ("Streams in real time: fp32", *said):
        assert text in page


@pytest.mark.usefixtures("doubled_core")
def test_an_engine_of_a_model_has_a_profile_for_each_number_of_rows(model: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--mode", "closed-loop", "--chunks", 6, "--streams", "1,3", "--hop-ms", 20, "--seconds", 0.1)
    stdout_of("eval-stream", *model[:3], "--backend", "trt", *words, "--no-report", "--output", run)
    metrics = json.loads((run / "metrics.json").read_text())
    (paced,), (lane,) = metrics["streams"], metrics["lanes"]
    assert (paced["on_device"], paced["buckets"], paced["check"]["passed"]) == (True, [1, 2, 3], True)
    profiles = lane["provenance"]["manifest"]["options"]["profiles"]
    assert [one.partition("cache:")[2].partition("x")[0] for one in profiles] == ["1", "2", "3"]


@pytest.mark.long
def test_its_report_can_be_made_again_and_is_in_the_overview(model: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--mode", "closed-loop", "--chunks", 20, "--no-report", "--output", run)
    assert trtw("eval-stream", *model, *words).exit_code == 0
    assert not (run / "report.html").exists()
    stdout_of("report", run, "--output", tmp_path / "all")
    assert "attention" in (run / "report.html").read_text()
    assert "eval-stream" in (tmp_path / "all" / "overview.html").read_text()


def test_json_is_one_document(model: list[str], tmp_path: Path) -> None:
    result = trtw("eval-stream", *model, "--chunks", 20, "--no-report", "--json", "--output", tmp_path / "run")
    document = json.loads(result.stdout)
    assert document["directory"] == str(tmp_path / "run")
    assert [lane["name"] for lane in document["lanes"]] == ["fp32 functional", "fp32 closed-loop"]


def test_a_gate_that_fails_is_exit_code_1_with_chunk_tensor_and_gate(model: list[str], tmp_path: Path) -> None:
    capped = ("cache_len_next = Min(longer, capacity)", "cache_len_next = Min(longer, two)")
    wrong = attention(tmp_path, capped, name="x")
    run = tmp_path / "run"
    result = trtw("eval-stream", wrong, *model[1:], "--model", model[0], "--chunks", 20, "--no-report", "--output", run)
    assert result.exit_code == 1, result.output
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "gate integers: cache_len_next is not equal to the reference's from chunk" in error
    assert str(run / "metrics.json") in error
    assert json.loads((run / "run.json").read_text())["passed"] is False
    assert "FAILED" in result.stdout


def test_a_reference_of_another_run_and_of_another_model(model: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record"
    words = (*model, "--chunks", 12, "--no-report")
    assert trtw("eval-stream", *words, "--record", "--output", record).exit_code == 0
    assert trtw("eval-stream", *words, "--reference", record, "--output", tmp_path / "two").exit_code == 0
    for place in (record, tmp_path):
        said = stderr_of("eval-stream", *words, "--reference", record, "--output", place)
        held(said)
    assert (record / "reference" / "record.json").is_file()
    other = lstm(tmp_path)
    contract = write_contract(tmp_path / "lstm.json", contract_of("lstm"))
    words = (other, "--contract", contract, "--reference", record)
    refused(tmp_path, words, "The record is of another model", str(other))


def test_audio_of_another_sample_rate(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 44_100, 0, "NONE", ""))
        file.writeframes(b"\0" * 44_100)
    refused(tmp_path, ("--input", path), "44100 samples/s, but the contract says 16000", str(path))


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--mode", "open-loop"], ["no mode 'open-loop'", "closed-loop"]),
        (["--precision", "fp16"], ["ort-cpu", "fp16"]),
        (["--mode", "device"], ["keeps no state on a device"]),
        (["--input", "noise"], ["random, code, or a .npy, .wav or .flac file"]),
        (["--chunk", "8"], ["does not fit the contract"]),
        (["--chunk", "41"], ["outside every profile"]),
        (["--chunk", "2147483647"], ["needs more memory than the limit"]),
        (["--streams", "1,0"], ["--streams takes numbers of streams from 1 to 4096"]),
        (["--streams", "4"], ["no chunking.frame_seconds", "--hop-ms"]),
        (["--reference", "nowhere"], ["no backend called 'nowhere'"]),
        (["--reference", "some/where"], ["The reference does not exist", "some/where"]),
        (["--contract", "nowhere.json"], ["nowhere.json"]),
    ],
)
def test_bad_usage_leaves_nothing(words: list[str], texts: list[str], model: list[str], tmp_path: Path) -> None:
    refused(tmp_path, (*model, *words), *texts)


def test_a_model_without_its_contract(model: list[str], tmp_path: Path) -> None:
    refused(tmp_path, model[:1], "--contract", "make-contract")


def test_a_contract_with_a_state_pair_missing(tmp_path: Path, model: list[str]) -> None:
    document = contract_of("attention")
    document["state"] = document["state"][:1]
    path = write_contract(tmp_path / "bad.json", document)
    refused(tmp_path, (model[0], "--contract", path), "cache_len", "no state pair")


@pytest.mark.long
def test_the_embedded_model_by_its_path_needs_no_contract_either(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.random.default_rng(0).standard_normal((80, 400)).astype(np.float32))
    words = [embedded_model(ENCODER), "--input", tmp_path / "f.npy", "--backend", "ort-cpu", "--no-report"]
    stdout_of("eval-stream", *words, "--chunk", 17, "--chunks", 30, "--output", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["contract"]["path"] == str(embedded_contract())
    assert (metrics["chunks"], metrics["hop_seconds"]) == (30, 0.08)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_same_command_goes_on_with_a_run_that_was_ended(
    model: list[str], tmp_path: Path, fork_server: ForkServer, ending: signal.Signals
) -> None:
    run = tmp_path / "run"
    words = ("eval-stream", *model, "--chunks", 500, "--no-report", "--output")
    often = "from trt_workbench.stream import run; run._EVERY_S = 0; from trt_workbench.main import main; main()"
    code, said = ended(fork_server, run, "part/chunks.npz", ending, *words, run, program=often)
    assert code == (-ending if ending == signal.SIGKILL else 130), said
    if ending != signal.SIGKILL:
        assert f"continue with `… --output {run}`" in said
        assert json.loads((run / "run.json").read_text())["status"] == "partial"
        held(stderr_of("report", run))
    other = trtw(*words, run, "--seed", 3)
    assert "The run in this folder is not continued: settings.seed was 0 there and is 3 here." in other.stderr
    assert len((run / "records.jsonl").read_text().splitlines()) == 1000
    assert not (run / "part").exists()
    assert not list(tmp_path.glob(".run.*"))


def test_a_run_that_goes_on_says_so(model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("eval-stream", *model, "--chunks", 12, "--faults", "--no-report", "--output")
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.stream.run.StreamEvaluation._self_test", interrupt)
        ended = trtw(*words, tmp_path / "run")
    assert ended.exit_code == 130
    assert "continue with" in ended.stderr
    assert "Continuing the run in this folder" in trtw(*words, tmp_path / "run").stderr
    stdout_of(*words, tmp_path / "one")
    found, whole = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("run", "one"))
    assert found["lanes"][0]["tensors"] == whole["lanes"][0]["tensors"]
    assert found["lanes"][0]["latency_ms"]["total"]["count"] == 12
    assert len(json.loads((tmp_path / "run" / "env.json").read_text())["earlier"]) == 1


def lost(folder: Path, name: str) -> None:
    """Leave the first lines or bytes of a file, as a machine may that lost its power."""
    file = folder / name
    file.write_bytes(file.read_bytes()[:600] if name.endswith("npz") else file.read_bytes().splitlines(True)[0])


def another(folder: Path, _: str) -> None:
    np.savez(folder / "part" / "chunks.npz", other=np.zeros(3))


@pytest.mark.parametrize(
    ("damage", "name"), [(lost, "records.jsonl"), (lost, "part/chunks.npz"), (another, "part/chunks.npz")]
)
def test_a_damaged_run_that_would_be_continued_is_named_with_what_to_do(
    model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path, str], None], name: str
) -> None:
    words = ("eval-stream", *model, "--chunks", 12, "--faults", "--no-report", "--output", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.stream.run.StreamEvaluation._self_test", interrupt)
        assert trtw(*words).exit_code == 130
    damage(tmp_path / "run", name)
    again = trtw(*words)
    assert again.exit_code == 2, again.output
    assert f"The unfinished run is damaged; remove {tmp_path / 'run'}" in again.stderr


def test_a_run_that_was_killed_while_it_first_kept_its_chunks_begins_again(
    model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("eval-stream", *model, "--chunks", 12, "--no-report", "--output", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("trt_workbench.stream.run.save_arrays", interrupt)
        assert "continue with" not in trtw(*words).stderr
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # what a process that is killed leaves
        assert trtw(*words).exit_code == 130
    assert list(tmp_path.glob(".run.*/part"))
    assert trtw(*words).exit_code == 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
