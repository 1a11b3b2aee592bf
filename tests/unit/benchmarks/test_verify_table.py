"""tasks/benchmarks/verify/measure.py: the table, records, processes that end badly, the report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.in_process_worker import InProcessWorker

FOLDER = Path(__file__).parents[3] / "tasks" / "benchmarks" / "verify"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def measure(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "measure.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_holds_what_verify_must_show() -> None:
    from zoo.table import entries

    names = [entry.name for entry in entries()]
    assert len(set(names)) == len(names)
    assert sum(entry.group == "generated" for entry in entries()) == 200
    for wanted in ("resnet50", "vit", "bert", "segformer", "swin", "detr", "whisper-encoder", "fastconformer"):
        assert wanted in names
    for family in ("llama", "opt"):
        assert {f"{family}-step", f"{family}-step-row-masks"} <= set(names)
    assert {entry.ranges[entry.batch] for entry in entries()} == {(1, 2, 4)}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one model in two precisions."""
    folder = tmp_path_factory.mktemp("first")
    ran = measure("run", *places(folder), "--only", "generated-001", "--precisions", "fp32", "fp16")
    assert ran.returncode == 0, ran.stderr
    return folder


def places(folder: Path) -> list[object]:
    return ["--work", folder / "work", "--output", folder / "records", "--backend", "ort-cpu", "--jobs", 2]


@pytest.mark.long
def test_a_run_goes_on_where_it_stopped_and_makes_its_report(first: Path, tmp_path: Path) -> None:
    from zoo.summary import write_report
    from zoo.table import entries

    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    lines = (tmp_path / "records" / "records.jsonl").read_text().splitlines()
    verdicts = {(one["model"], one["precision"]): one["verdict"] for one in map(json.loads, lines)}
    assert verdicts == {
        ("generated-001", "fp32"): "consistent",
        ("generated-001", "fp16"): "not run",  # ort-cpu has the precision of the file
    }
    again = measure("run", *places(tmp_path), "--only", "generated-00[12]", "--precisions", "fp32", "fp16")
    assert again.returncode == 0, again.stderr
    assert "3 of 3 jobs" in again.stdout  # what could not be run is tried again
    assert len((tmp_path / "records" / "records.jsonl").read_text().splitlines()) == len(lines) + 3
    reported = measure("report", "--output", tmp_path / "records")
    assert reported.returncode == 0, reported.stderr
    page = (tmp_path / "records" / "README.md").read_text()
    assert "| generated graphs | 2 consistent | 2 not run |" in page
    assert f"4 of the {2 * len(entries())} jobs of the table have a record." in page
    assert "measure.py run --work" in page  # the commands
    assert "## Undecided" not in page
    (tmp_path / "records" / "records.jsonl").write_text(json.dumps(_undecided(lines[0])) + "\n")
    page = write_report(tmp_path / "records").read_text()
    assert "| ort-cpu, a free batch, fp32 | 3 of 24 outputs |" in page


def _undecided(record: str) -> dict[str, Any]:
    return json.loads(record) | {"precision": "fp32", "verdict": "undecided", "undecided": 3, "outputs": 24}


@pytest.mark.long
def test_what_was_wrong_and_is_not_any_more_is_said_so(first: Path, tmp_path: Path) -> None:
    from zoo.summary import write_report

    shutil.copytree(first / "records", tmp_path, dirs_exist_ok=True)
    records = tmp_path / "records.jsonl"
    (fp32,) = (one for one in map(json.loads, records.read_text().splitlines()) if one["precision"] == "fp32")
    wrong = fp32 | {"verdict": "wrong", "failures": ["batch=2, output out0: once"]}
    records.write_text(json.dumps(wrong) + "\n")
    bisected = measure("bisect", "--work", tmp_path / "work", "--output", tmp_path)
    assert bisected.returncode == 0, bisected.stderr
    assert json.loads((tmp_path / "bisected.jsonl").read_text())["verdict"] == "consistent"
    page = write_report(tmp_path).read_text()
    assert "| wrong | batch=2, output out0: once |" in page
    assert "the verdict was consistent this time" in page


def test_a_fixed_batch_is_verified_at_that_batch(tmp_path: Path) -> None:
    from zoo.jobs import Job, run

    record = run(Job("generated-002", "ort-cpu", "fp32", batch=3), tmp_path)
    assert (record["verdict"], record["cases"]) == ("consistent", ["fixed shapes"])


@pytest.mark.long
def test_a_wrong_one_keeps_its_model_inputs_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]
) -> None:
    from tests import faulty_backend
    from zoo import jobs

    from trt_workbench.core import workers

    monkeypatch.setattr(workers, "WorkerProcess", InProcessWorker)
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)
    monkeypatch.setattr(jobs, "_options", lambda _: {"fault": "rows after the first"})
    record = jobs.run(jobs.Job("generated-001", "faulty", "fp32"), tmp_path, bisect_s=30.0)
    assert record["verdict"] == "wrong"
    assert "row 1 of 2 is wrong" in record["failures"][0]
    kept = tmp_path / "wrong" / "generated-001-faulty-fp32"
    assert (kept / "generated-001.onnx").is_file()
    assert (kept / "verify.json").is_file()
    assert list((kept / "failures" / "001" / "inputs").glob("*.npy"))
    assert (record["bisect"]["complete"], len(record["bisect"]["nodes"])) == (
        True,
        1,
    )  # every node of it is wrong there
    assert (kept / "bisect" / "minimal.onnx").is_file()


@pytest.mark.parametrize(
    ("script", "limit_s", "reason"),
    [
        ("import os; os.abort()", 30, "the process ended with exit code -6"),
        ("import time; time.sleep(60)", 1, "it took longer than 1 s"),
    ],
)
def test_a_process_that_ends_badly_is_a_record(
    script: str, limit_s: float, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo import pool
    from zoo.jobs import Job

    bad = tmp_path / "bad.py"
    bad.write_text(script)
    monkeypatch.setattr(pool, "SCRIPT", bad)
    found: list[dict[str, Any]] = []
    workers = [pool.Worker(tmp_path, share, {}, tmp_path / "log") for share in pool.shares(1)]
    jobs = [Job("bert", "trt", "fp32"), Job("vit", "trt", "fp32")]
    assert pool.work_through(jobs, workers, found.append, seconds=90, limit_s=limit_s) == 0
    assert [(one["model"], one["verdict"], one["reason"]) for one in found] == [
        ("bert", "not run", reason),
        ("vit", "not run", reason),
    ]


def test_when_the_time_is_over_what_runs_is_cut_off_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo import pool
    from zoo.jobs import Job

    bad = tmp_path / "bad.py"
    bad.write_text("import time; time.sleep(1000)")
    monkeypatch.setattr(pool, "SCRIPT", bad)
    monkeypatch.setattr(pool, "_TO_END_S", 0.5)
    found: list[dict[str, Any]] = []
    workers = [pool.Worker(tmp_path, share, {}, tmp_path / "log") for share in pool.shares(1)]
    jobs = [Job("bert", "trt", "fp32"), Job("vit", "trt", "fp32")]
    assert pool.work_through(jobs, workers, found.append, seconds=0.5, limit_s=50) == 2
    assert found == []
