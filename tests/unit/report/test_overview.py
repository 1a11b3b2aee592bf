"""One page over runs of several commands: accuracy beside speed, who wins where."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trt_workbench.bench.records import Record
from trt_workbench.errors import UsageProblem
from trt_workbench.report.overview import write_overview

ENVIRONMENT: dict[str, Any] = {
    "schema_version": 1,
    "command_line": ["trtw"],
    "cpu": {"model": "a processor"},
    "driver": {"gpus": []},
}


def write_run(folder: Path, command: str, **files: Any) -> Path:
    folder.mkdir()
    run = {"schema_version": 1, "command": command, "run_id": folder.name, "status": "complete"}
    for name, document in {"run": run, "env": ENVIRONMENT, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def write_bench(folder: Path) -> Path:
    draw = random.Random(0)
    run = write_run(folder, "bench", config={"schema_version": 1, "title": "t", "repetitions": 9})
    with (run / "records.jsonl").open("w", encoding="utf-8") as file:
        for repetition in range(9):
            for runtime, base in {"slow <b>": 2.0, "fast": 1.0}.items():
                p50 = base * draw.gauss(1, 0.001)
                record = Record(
                    key=runtime, scenario="arrays", kind="arrays", model="m", model_sha256=None, work="m b1", batch=1,
                    dims={}, runtime=runtime, backend="trt", precision="fp32", repetition=repetition, status="ok",
                    latency_ms={"p50": p50, "count": 1, "p90": p50, "p95": p50, "p99": p50}, items_per_s=1 / p50,
                )  # fmt: skip
                file.write(record.model_dump_json() + "\n")
    return run


def test_runs_of_every_command_together(tmp_path: Path, make_run: Callable[..., Path]) -> None:
    llm = write_run(
        tmp_path / "llm",
        "eval-llm",
        metrics={
            "model": {"path": "models/tiny-lm"},
            "backends": [
                {"backend": "torch", "precision": "fp32", "perplexity": 29.65, "relative_difference": 0.0},
                {"backend": "trt", "precision": "fp16", "perplexity": 29.7, "relative_difference": 0.0017},
            ],
        },
    )
    profile = write_run(tmp_path / "profile", "profile")
    runs = [write_bench(tmp_path / "bench"), make_run(), llm, profile]
    (runs[1] / "run.json").write_text(
        json.dumps({"schema_version": 1, "command": "eval-coco", "run_id": "c", "status": "complete"})
    )
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    text = (tmp_path / "all" / "overview.md").read_text(encoding="utf-8")
    for part in ("AP 0.5000", "perplexity 29.6500", "perplexity 29.7000", "relative_difference 0.0017", "fp16"):
        assert part in page
        assert part in text
    assert "slow &lt;b&gt;" in page
    assert "<b>" not in page
    assert re.search(r"arrays, m b1: fast is fastest, \d\.\d{3} ms .*; slow <b> takes 2\.00 times as long", text)
    for run in runs:
        assert f'href="../{run.name}/report.html"' in page


def test_works_of_several_runs_are_told_apart(tmp_path: Path) -> None:
    runs = [write_bench(tmp_path / name) for name in ("before", "after")]
    page = write_overview(runs, tmp_path / "all").read_text(encoding="utf-8")
    for name in ("before", "after"):
        assert f"{name}: arrays, m b1" in page
        assert f"{name}: arrays: m b1" in page


def test_a_run_that_was_cut_short_is_named(tmp_path: Path) -> None:
    run = write_bench(tmp_path / "bench")
    (run / "env.json").write_text('{"schema')
    with pytest.raises(UsageProblem, match=r"cut short or was changed.*env\.json"):
        write_overview([run], tmp_path / "all")
    assert not (tmp_path / "all").exists()
