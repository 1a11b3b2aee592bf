"""The backend of docs/extending.md, installed as a package: it serves every command, or is refused by name."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.in_app import stderr_of, stdout_of, trtw

from trt_workbench.evaluate.embedded import dataset as embedded
from trt_workbench.runs.records import read_records

EXAMPLE = Path(__file__).parents[1] / "examples" / "backend"
MODEL = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.fixture(autouse=True)
def new_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_package: Callable[..., None]) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    outside_package(project["entry-points"], EXAMPLE, name=project["name"])
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 8)


def test_bench_and_report(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2}\n"
        "models: {detector: {embedded: shapes-yolov10}}\n"
        "runtimes: [{backend: ort-cpu}, {backend: my-runtime, threads: [1, 2]}]\n"
        "scenarios: {arrays: {kind: arrays}, boxes: {kind: image-to-boxes, imgsz: [96, 128]}}\n"
    )
    run = tmp_path / "run"
    stdout_of("bench", config, "--output", run)
    assert {(one.backend, one.status) for one in read_records(run / "records.jsonl")} == {
        ("ort-cpu", "ok"), ("my-runtime", "ok"),
    }  # fmt: skip
    assert trtw("report", run, "--output", tmp_path / "overview").exit_code == 0
    assert "my-runtime" in (run / "report.html").read_text()
    assert "my-runtime" in (tmp_path / "overview" / "overview.md").read_text()


def test_eval_coco_and_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stdout_of("eval-coco", "--backend", "my-runtime", "--limit", 4, "--output", run, "--json")
    assert json.loads((run / "metrics.json").read_text())["backend"] == "my-runtime"
    assert json.loads((run / "env.json").read_text())["packages"]["trtw-my-runtime"] == "1.0"
    assert trtw("report", run, "--output", tmp_path / "overview").exit_code == 0
    assert "my-runtime" in (run / "report.html").read_text()


def test_infer_engine(tmp_path: Path) -> None:
    for more in ((), ("--json",)):
        stdout_of("infer-engine", MODEL, "--backend", "my-runtime", "--output", tmp_path / "run", *more)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["backend"] == "my-runtime"


def test_profile_and_language_models_refuse_it_by_name() -> None:
    assert "Backend my-runtime has no profiler by layer" in stderr_of("profile", MODEL, "--backend", "my-runtime")
    assert "my-runtime" in stderr_of("partitions", MODEL, "--backend", "my-runtime")


def test_language_models_are_asked_of_the_backend_itself() -> None:
    from trt_workbench.pipeline.llm.opening import parse_backends

    assert [str(one) for one in parse_backends("my-runtime,torch")] == ["my-runtime:fp32", "torch:fp32"]
