"""A backend that only the registry names serves every command, or is refused by name."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trt_workbench.backends import registry
from trt_workbench.bench import worker
from trt_workbench.cli.app import app
from trt_workbench.runs.records import read_records

# What the protocols ask for and nothing more: a provenance that says nothing, no device, no precision.
NEW = """
from trt_workbench.backends.base import Availability, Backend, Session
from trt_workbench.backends.ort_cpu import OrtCpuBackend

class NewSession(Session):
    def __init__(self, inner):
        self._inner = inner
        self.inputs, self.outputs, self.metadata = inner.inputs, inner.outputs, inner.metadata
        self.provenance = {}

    def _infer(self, inputs):
        return self._inner.run(inputs)

    def _close(self):
        self._inner.close()

class NewBackend(Backend):
    name = "brand-new"
    file_kinds = (".onnx",)

    def availability(self):
        return Availability(ok=True)

    def _load(self, model, options):
        return NewSession(OrtCpuBackend().load(model))
"""
WORKER = """
from trt_workbench.backends import registry
from trt_workbench.bench import worker
registry._BACKENDS["brand-new"] = registry._Entry("new_backend", "NewBackend")
worker.main()
"""
MODEL = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


def trtw(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def new_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "new_backend.py").write_text(NEW)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setitem(registry._BACKENDS, "brand-new", registry._Entry("new_backend", "NewBackend"))
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r})\n{WORKER}"
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def test_bench_and_report(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2}\n"
        "models: {detector: {embedded: shapes-yolov10}}\n"
        "runtimes: [{backend: ort-cpu}, {backend: brand-new, precision: [fp32, none]}]\n"
        "scenarios: {arrays: {kind: arrays}, boxes: {kind: image-to-boxes, imgsz: [96, 128]}}\n"
    )
    run = tmp_path / "run"
    result = trtw("bench", config, "--output", run)
    assert result.exit_code == 0, result.output
    assert {(one.backend, one.status) for one in read_records(run / "records.jsonl")} == {
        ("ort-cpu", "ok"), ("brand-new", "ok"),
    }  # fmt: skip
    assert trtw("report", run, "--output", tmp_path / "overview").exit_code == 0
    assert "brand-new" in (run / "report.html").read_text()
    assert "brand-new" in (tmp_path / "overview" / "overview.md").read_text()


def test_eval_coco_and_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = trtw("eval-coco", "--backend", "brand-new", "--limit", 4, "--output", run, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads((run / "metrics.json").read_text())["backend"] == "brand-new"
    assert trtw("report", run, "--output", tmp_path / "overview").exit_code == 0
    assert "brand-new" in (run / "report.html").read_text()


def test_infer_engine(tmp_path: Path) -> None:
    for more in ((), ("--json",)):
        result = trtw("infer-engine", MODEL, "--backend", "brand-new", "--output", tmp_path / "run", *more)
        assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["backend"] == "brand-new"


def test_profile_and_language_models_refuse_it_by_name() -> None:
    refused = trtw("profile", MODEL, "--backend", "brand-new")
    assert refused.exit_code == 2
    assert "Backend brand-new has no profiler by layer" in refused.stderr
    refused = trtw("partitions", MODEL, "--backend", "brand-new")
    assert refused.exit_code == 2
    assert "brand-new" in refused.stderr


def test_language_models_are_asked_of_the_backend_itself() -> None:
    from trt_workbench.pipeline.llm.opening import parse_backends

    assert [str(one) for one in parse_backends("brand-new,torch")] == ["brand-new:fp32", "torch:fp32"]
