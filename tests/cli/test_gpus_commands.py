"""`--gpus` of eval-llm, eval-stream and bench. Here the workers run on the processor, which users are refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_bench import TWO_SWEEPS, write_config
from tests.cli.test_llm_shards import TEXT, without_shards
from tests.cli.test_stream_shards import without_times
from tests.in_app import json_of, measured, stderr_of, stdout_of, trtw
from tests.texts import held

from trt_workbench.backends import on_gpus
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_files import done_before, read_shards
from trt_workbench.core.shard_workers import Device

pytestmark = pytest.mark.usefixtures("blank_pictures")

STREAM = ("eval-stream", "--backend", "torch", "--precision", "fp32,bf16", "--chunks", 12)


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpus, "gpu_devices", lambda _: [Device(f"GPU {index}", {}) for index in range(2)])


@pytest.mark.usefixtures("two_devices", "llm_output")
def test_a_language_model_on_two_devices_scores_as_in_one_process(
    llm_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    words = ("eval-llm", llm_folder("gpt2"), "--text", TEXT, "--limit", 300, "--batch", 2, "--backends", "torch")
    one = json_of(*words, "--no-report", "--output", tmp_path / "one")
    two = json_of(*words, "--gpus", "all", "--output", tmp_path / "two")
    assert without_shards(two) == without_shards(one)
    records = [(tmp_path / name / "records.jsonl").read_bytes() for name in ("one", "two")]
    assert records[0] == records[1]
    assert two["shards"]["count"] == 2
    assert "Merged from 2 shards" in (tmp_path / "two" / "report.html").read_text()
    assert not (tmp_path / "two-shards").exists()


@pytest.mark.usefixtures("two_devices")
def test_precisions_of_a_stream_on_two_devices(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # in a process of its own, too: what ran before in this one decides how PyTorch shares out a sum
    words = [
        sys.executable,
        "-c",
        "from trt_workbench.main import main; main()",
        *map(str, STREAM),
        "--no-report",
        "--json",
    ]
    one = json.loads(subprocess.run([*words, "--output", tmp_path / "one"], check=True, stdout=subprocess.PIPE).stdout)
    two = json_of(*STREAM, "--gpus", "0,1", "--no-report", "--output", tmp_path / "two")
    assert without_times(two) == without_times(one)
    assert two["shards"]["missing"] == []


@pytest.mark.long
@pytest.mark.usefixtures("two_devices")
def test_sweeps_on_two_devices(tmp_path: Path, outside_backend: Callable[..., None]) -> None:
    outside_backend("crashing", "tests.crashing_backend:CrashingBackend", Path(__file__).parents[2])
    path = write_config(tmp_path, "{backend: crashing}", TWO_SWEEPS)
    stdout_of("bench", path, "--gpus", "all", "--output", tmp_path / "two")
    listed = stdout_of("bench", path, "--dry-run").splitlines()
    assert {f"{one.scenario}/{one.work}/{one.runtime}" for one in measured(tmp_path / "two")} == {*listed}
    run = json.loads((tmp_path / "two" / "run.json").read_text())
    assert (run["status"], run["shards"]["count"]) == ("complete", 2)


@pytest.mark.usefixtures("two_devices")
def test_a_precision_that_fails_is_named_and_the_other_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = (*STREAM[:3], "--precision", "fp32,none", "--chunks", 6, "--gpus", "all", "--output", tmp_path / "run")
    said = trtw(*words)
    assert said.exit_code == 2
    held(*(line for line in said.stderr.splitlines() if not line.startswith("[")))  # progress, by the clock
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["status"], metrics["shards"]["missing"]) == ("partial", [1])
    assert {lane["precision"] for lane in metrics["lanes"]} == {"fp32"}


@pytest.mark.long
@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("deadly", ["fp16", "all"])
def test_a_precision_that_kills_workers_is_named(
    tmp_path: Path, outside_backend: Callable[..., None], deadly: str
) -> None:
    outside_backend("crashing", "tests.crashing_backend:CrashingBackend", Path(__file__).parents[2])
    only = ("--option", "precision=fp16") if deadly == "fp16" else ()
    words = ("eval-stream", "--backend", "crashing", "--option", "crash=abort", *only, "--precision", "fp32,fp16")
    said = trtw(*words, "--chunks", 6, "--gpus", "all", "--no-report", "--output", tmp_path / "run")
    assert said.exit_code == 4, said.output
    held(*(line for line in said.stderr.splitlines() if not line.startswith("[")))
    if deadly == "fp16":
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert {lane["precision"] for lane in metrics["lanes"]} == {"fp32"}


def test_precisions_that_end_workers_are_left_out_and_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trt_workbench.core.workspace import ENCODER, embedded_model
    from trt_workbench.stream import shard_worker
    from trt_workbench.stream.settings import StreamSettings

    settings = StreamSettings(backend="torch", precision=("fp32", "bf16"), chunks=6)
    job = shard_worker.job_of(settings, embedded_model(ENCODER))
    asked = {**job.request, "shard": {"index": 0, "count": 1}, "journal": str(tmp_path / "journal")}
    shard_worker.evaluate({**asked, "place": str(tmp_path / "0"), "skipped": [0]})
    assert (tmp_path / "journal").read_bytes() == b"\x02"
    assert not done_before(tmp_path / "0", Shard(0, 1), job.command, job.asked)
    (tmp_path / "merged").mkdir()
    found = job.merge(read_shards([tmp_path / "0"], partial=True), tmp_path / "merged", ["Shard 0/1 failed."], True)
    held(*found["notes"][-3:])
    assert {lane["precision"] for lane in found["lanes"]} == {"bf16"}


@pytest.mark.usefixtures("llm_output")
def test_batches_that_end_workers_are_left_out_and_named(llm_folder: Callable[[str], Path], tmp_path: Path) -> None:
    from trt_workbench.llm import shard_worker
    from trt_workbench.llm.run import LlmRequest
    from trt_workbench.llm.settings import REFERENCE

    request = LlmRequest(model=llm_folder("gpt2"), text=TEXT, limit=300, batch=2, backends=(REFERENCE,))
    job = shard_worker.job_of(request)
    asked = {**job.request, "shard": {"index": 0, "count": 1}, "journal": str(tmp_path / "journal")}
    shard_worker.attempt({**asked, "skipped": []})
    count = len((tmp_path / "journal").read_bytes())
    shard_worker.evaluate({**asked, "place": str(tmp_path / "0"), "skipped": [1]})
    assert (tmp_path / "journal").read_bytes() == b"\x02" * (count - 1)
    (tmp_path / "merged").mkdir()
    found = job.merge(read_shards([tmp_path / "0"], partial=True), tmp_path / "merged", [], True)
    held(*found["notes"])
    assert found["status"] == "partial"


def test_what_is_refused() -> None:
    pytest.importorskip("torch")
    for words in (
        ("eval-llm", "--backends", "torch,ort-cpu", "--gpus", "all"),
        ("eval-llm", "--backends", "torch", "--gpus", "all", "--device", "cuda:1"),
        ("eval-stream", "--backend", "ort-cpu", "--gpus", "0"),
        ("eval-stream", "--backend", "torch", "--gpus", "0", "--faults"),
        ("bench", "smoke", "--gpus", "all"),
    ):
        held(stderr_of(*words))
    for name in ("eval-llm", "eval-stream", "bench"):
        held(stderr_of(name, "--gpus", "all", "--shard", "0/2"))
