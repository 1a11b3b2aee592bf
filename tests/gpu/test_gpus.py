"""`--gpus`: what one process finds, from a shard on each GPU; on one GPU, from one worker."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.core.gpu import visible_gpus
from trt_workbench.core.records import read_records

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]


def test_two_gpus_find_what_one_finds(tmp_path: Path) -> None:
    if (count := len(visible_gpus())) < 2:
        pytest.skip(f"needs 2 GPUs; this process sees {count}")
    fixed = ("--backend", "trt", "--option", "optimization_level=0", "--limit", "64", "--no-report")
    for gpus in ("0", "0,1"):
        words = ["eval-coco", *fixed, "--gpus", gpus, "--output", str(tmp_path / gpus)]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    one, two = (tmp_path / gpus for gpus in ("0", "0,1"))
    assert (one / "predictions.json").read_bytes() == (two / "predictions.json").read_bytes()
    assert json.loads((two / "metrics.json").read_text())["shards"]["count"] == 2
    assert not (tmp_path / "0,1-shards").exists()


def run(output: Path, *words: object) -> dict[str, Any]:
    """Run a command into a folder without and with `--gpus`, on as many GPUs as there are, two at most."""
    gpus = ",".join(map(str, range(min(2, len(visible_gpus())))))
    for name, more in (("one", ()), ("spread", ("--gpus", gpus))):
        asked = [str(word) for word in (*words, "--output", output / name, *more)]
        done = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    shards = json.loads((output / "spread" / "run.json").read_text())["shards"]
    assert (shards["count"], shards["missing"]) == (len(gpus.split(",")), [])
    return {name: json.loads((output / name / "run.json").read_text()) for name in ("one", "spread")}


def test_a_language_model_scores_as_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    runs = run(tmp_path, "eval-llm", "--backends", "torch", "--limit", 2000, "--batch", 2, "--no-report")
    assert runs["one"]["tokens"] == runs["spread"]["tokens"]
    found = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in runs]
    assert found[0]["perplexity"] == pytest.approx(found[1]["perplexity"], rel=1e-5)


def test_precisions_of_a_stream_pass_as_in_one_process(tmp_path: Path) -> None:
    fast = ("--option", "optimization_level=0")
    runs = run(tmp_path, "eval-stream", "--backend", "trt", "--precision", "fp32,fp16", "--chunks", 8, *fast)
    assert runs["one"]["passed"] is runs["spread"]["passed"] is True
    found = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in runs]
    assert [lane["name"] for lane in found[0]["lanes"]] == [lane["name"] for lane in found[1]["lanes"]]


def test_sweeps_of_a_bench_are_all_measured(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text(
        "repetitions: 1\nmeasure: {warmup_ms: 50, duration_s: 0.1}\n"
        "models: {detector: {embedded: shapes-yolov10}}\n"
        "runtimes: [{backend: trt, options: {optimization_level: 0}}]\n"
        "scenarios: {one: {kind: arrays, batch: [1]}, two: {kind: arrays, batch: [2]}}\n"
    )
    run(tmp_path, "bench", tmp_path / "bench.yaml")
    found = [read_records(tmp_path / name / "records.jsonl") for name in ("one", "spread")]
    assert {one.key for one in found[0]} == {one.key for one in found[1]}
    assert {one.status for one in found[1]} == {"ok"}
