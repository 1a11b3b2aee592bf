"""Commands that measure or score refuse a TensorRT engine that is wrong or not verified; on the double of the core."""

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.engines.common import DOUBLES, write_model
from tests.in_app import stderr_of, trtw
from tests.texts import held, refused
from typer.testing import Result

from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.records import Record, read_records
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.verdicts import keep_verdict, kept_verdict
from trt_workbench.verify.gate import BenchGate

pytestmark = pytest.mark.usefixtures("doubled_core", "blank_pictures")
TRT = ("--backend", "trt", "--no-report")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are wrong from batch 2 on."""
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "2")


def metrics(coco: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((coco.output / "metrics.json").read_text())
    return document


def test_eval_coco_verifies_the_engine_of_a_model_once_at_the_shapes_it_uses(coco: Any, tmp_path: Path) -> None:
    first = coco.invoke(*TRT, "--batch", "3")
    assert first.exit_code == 0, first.output
    assert "Verifying the engine against" in first.stderr
    mark = metrics(coco)["verification"]
    assert mark["verdict"] == "right"
    assert mark["allowed"] is False
    assert f"Engine: {mark['text']}" in first.stdout
    assert (Path(mark["evidence"]) / "verify.json").is_file()
    assert json.loads((coco.output / "run.json").read_text())["verification"] == mark
    kept = kept_verdict(read_manifest(Path(metrics(coco)["provenance"]["plan"])))
    assert kept
    assert [next(iter(one.shapes.values()))[0] for one in kept.shapes] == [3, 1, 2]  # 4 images: 3 and 1 come first
    second = coco.invoke(*TRT, "--batch", "3")
    assert "Verifying" not in second.stderr
    assert len([*(tmp_path / "out" / "verify").iterdir()]) == 1
    assert metrics(coco)["verification"] == mark


@pytest.mark.usefixtures("faulty")
def test_eval_coco_refuses_a_wrong_engine_unless_it_is_allowed(coco: Any) -> None:
    refused = coco.invoke(*TRT, "--batch", "2")
    assert refused.exit_code == 1, refused.output
    assert "The engine is wrong: " in refused.stderr
    assert "row 1 of 2 is wrong, the others right" in refused.stderr
    assert "--allow-unverified" in refused.stderr
    assert not coco.output.exists()
    allowed = coco.invoke(*TRT, "--batch", "2", "--allow-unverified")
    assert allowed.exit_code == 0, allowed.output
    assert allowed.stderr.splitlines()[0].startswith("--allow-unverified: ")
    assert allowed.stdout.splitlines()[0].startswith(
        "Not verified, accepted by --allow-unverified: engine.plan is wrong"
    )
    run = json.loads((coco.output / "run.json").read_text())
    assert run["allow_unverified"] is True
    assert run["verification"]["verdict"] == "wrong"


def test_eval_coco_refuses_a_plan_that_nobody_verified(coco: Any, tmp_path: Path) -> None:
    (tmp_path / "of mine").mkdir()
    plan = tmp_path / "of mine" / "d.plan"
    assert trtw("build-engine", coco.model, "--max-batch", 2, "-o", plan, "--verify", "off").exit_code == 0
    refused = coco.invoke(*TRT, "--model", str(plan), "--batch", "2")
    assert refused.exit_code == 1, refused.output
    text = " ".join(refused.stderr.split())
    assert "The engine is unverified: its manifest has no verdict. Verify it with `trtw verify " in text
    allowed = coco.invoke(*TRT, "--model", str(plan), "--allow-unverified")
    assert allowed.exit_code == 0, allowed.output
    assert metrics(coco)["settings"]["batch"] == 2  # all that the engine takes
    assert allowed.stdout.splitlines()[0].startswith("Not verified, accepted by --allow-unverified: d.plan")
    proposed = re.findall("`trtw (.+?)`", refused.stderr.replace("\n", " "))[0].replace("MODEL.onnx", str(coco.model))
    assert trtw(*shlex.split(proposed), "--quick").exit_code == 0
    assert coco.invoke(*TRT, "--model", str(plan), "--batch", "2").exit_code == 0
    # an altered plan that is loaded on trust has no verdict, whatever the manifest says
    other = tmp_path / "other.plan"
    assert trtw("build-engine", coco.model, "--max-batch", 3, "-o", other).exit_code == 0
    plan.write_bytes(other.read_bytes())
    trusted = coco.invoke(*TRT, "--model", str(plan), "--batch", "2", "--option", "trust=true")
    assert trusted.exit_code == 1
    assert "The engine is unverified: it has no manifest" in trusted.stderr


@pytest.mark.long
def test_the_page_of_an_evaluation_bears_the_mark(coco: Any) -> None:
    assert coco.invoke("--backend", "trt", "--batch", "2").exit_code == 0
    page = (coco.output / "report.html").read_text()
    assert "Engine verified: " in page
    link = f"{os.path.relpath(metrics(coco)['verification']['evidence'], coco.output)}/verify.json"
    assert f'<a href="{link}"><span class="pill good" title="' in page
    # what was accepted comes first
    words = ("--backend", "trt", "--batch", "2", "--option", "force=true", "--allow-unverified")
    assert coco.invoke(*words).exit_code == 0
    page = (coco.output / "report.html").read_text()
    assert "<b>Engine not verified, accepted with --allow-unverified.</b>" in page
    assert "accepted by --allow-unverified: engine.plan is unverified" in page.split("reaches AP")[0]


def test_eval_coco_takes_other_runtimes_as_they_are(coco: Any) -> None:
    assert coco.invoke("--backend", "ort-cpu", "--no-report").exit_code == 0
    assert metrics(coco)["verification"] is None


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bench of a small network on the double, in processes of its own."""
    path = os.pathsep.join([str(DOUBLES), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    write_model(tmp_path / "net.onnx", "batch")
    file = tmp_path / "bench.yaml"
    file.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 0, duration_s: 0.01, slices: 1}\n"
        f"models: {{net: {{path: {tmp_path / 'net.onnx'}}}}}\n"
        "runtimes: [{backend: trt}, {backend: ort-cpu}]\n"
        "scenarios: {arrays: {kind: arrays, batch: [1, 2]}}\n"
    )
    return file


def bench(config: Path, *words: object) -> tuple[Result, list[Record]]:
    run = config.parent / "run"
    return trtw("bench", config, "--output", run, *words), read_records(run / "records.jsonl")


@pytest.mark.long
def test_bench_verifies_engines_outside_of_the_measured_process(config: Path, tmp_path: Path) -> None:
    result, records = bench(config)
    assert result.exit_code == 0, result.output
    marks = {(one.backend, one.batch): one.verification for one in records}
    for batch in (1, 2):
        mark = marks["trt", batch]
        assert mark
        assert (mark["verdict"], mark["allowed"]) == ("right", False)
        assert marks["ort-cpu", batch] is None
    assert (tmp_path / "run" / "logs" / "verify.log").is_file()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["allow_unverified"] is False
    link = f"{os.path.relpath(str(marks['trt', 1]['evidence']), tmp_path / 'run')}/verify.json"
    assert f'<a href="{link}"><span class="pill good" title="' in (tmp_path / "run" / "report.html").read_text()
    assert "right (quick, 1 of 1 shapes compared with ort-cpu" in (tmp_path / "run" / "report.md").read_text()
    assert trtw("report", tmp_path / "run", "--output", tmp_path / "all").exit_code == 0
    assert '">right</span></a>' in (tmp_path / "all" / "overview.html").read_text()
    assert "right (quick, 1 of 1 shapes compared with ort-cpu" in (tmp_path / "all" / "overview.md").read_text()


@pytest.mark.long
@pytest.mark.usefixtures("faulty")
def test_bench_does_not_measure_a_wrong_engine(config: Path) -> None:
    result, records = bench(config)
    assert result.exit_code == 1
    status = {(one.backend, one.batch): one.status for one in records}
    assert status == {("trt", 1): "ok", ("trt", 2): "wrong", ("ort-cpu", 1): "ok", ("ort-cpu", 2): "ok"}
    assert all("The engine is wrong: " in str(one.error) for one in records if one.status == "wrong")


@pytest.mark.parametrize(("fault", "said"), [("crash", "it crashed: The GPU failed."), ("abort", "SIGABRT")])
def test_bench_calls_an_engine_that_crashes_wrong(
    fault: str, said: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = config.parent / "net.plan"
    assert (
        trtw("build-engine", config.parent / "net.onnx", "--max-batch", 2, "-o", plan, "--verify", "off").exit_code == 0
    )
    manifest = read_manifest(plan)
    assert manifest
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", fault)
    provenance = {"plan": str(plan), "plan_sha256": manifest.engine.sha256, "gpu": "GPU 9.0", "manifest": {}}
    with BenchGate().opened(config.parent / "log", 60) as check, refused(CheckFailed):
        check(provenance, config.parent / "net.onnx", {"x": (1, 3), "y": (1, 3)}, 0)
    kept = kept_verdict(read_manifest(plan))
    assert kept.verdict == "wrong"
    assert said in kept.reason


@pytest.mark.long
def test_bench_measures_a_plan_that_nobody_verified_only_if_it_is_allowed(config: Path, tmp_path: Path) -> None:
    plan = tmp_path / "net.plan"
    assert trtw("build-engine", tmp_path / "net.onnx", "--max-batch", 2, "-o", plan, "--verify", "off").exit_code == 0
    only = ("--model", f"net={plan}", "--only", "*/trt*")
    refused, records = bench(config, *only)
    assert refused.exit_code == 1
    assert {one.error_kind for one in records} == {"Unverified"}
    allowed, records = bench(config, *only, "--allow-unverified")
    assert allowed.exit_code == 0, allowed.output
    assert allowed.stderr.splitlines()[0].startswith("--allow-unverified: ")
    assert allowed.stdout.splitlines()[0].startswith("Not verified, accepted by --allow-unverified: net.plan is")
    assert all(one.verification and one.verification["allowed"] for one in records)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["allow_unverified"] is True
    assert "accepted by --allow-unverified" in (tmp_path / "run" / "report.md").read_text().split("## ")[0]


class OnEngine:
    """A language model that says that an engine executes it."""

    def __init__(self, model: Any, plan: Path) -> None:
        self._model, self._plan = model, plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def provenance(self) -> dict[str, Any]:
        manifest = read_manifest(self._plan)
        engine = {"plan": str(self._plan), "plan_sha256": manifest.engine.sha256, "manifest": {}, "gpu": "GPU 9.0"}
        return {**self._model.provenance, **engine}


def test_eval_llm_keeps_agreement_as_the_verdict_and_refuses_what_is_wrong(
    llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trt_workbench.llm import generation_check as llm_generation

    plan, folder, out = tmp_path / "net.plan", llm_folder("llama"), tmp_path / "run"
    words = ("build-engine", write_model(tmp_path / "net.onnx"), "-o", plan, "--verify", "off")
    assert trtw(*words).exit_code == 0
    real = llm_generation.open_logits

    def opened(choice: Any, *arguments: Any) -> Any:
        model = real(choice, *arguments)
        return OnEngine(model, plan) if choice.name == "ort-cpu" else model

    monkeypatch.setattr(llm_generation, "open_logits", opened)
    asked = ("eval-llm", folder, "--text", __file__, "--modes", "generate", "--prompt", "6", "--new-tokens", "2")
    run = (*asked, "--no-report", "--output", out)
    assert trtw(*run).exit_code == 0
    torch, ort = json.loads((out / "metrics.json").read_text())["generation"]
    assert torch["verification"] == []
    (mark,) = ort["verification"]
    assert mark["text"].startswith("right (agreement, compared with torch")
    kept = kept_verdict(read_manifest(plan))
    assert (kept.mode, kept.evidence) == ("agreement", str(out))
    assert keep_verdict(plan, kept.model_copy(update={"verdict": "wrong", "reason": "row 1 is wrong"}))
    held(" ".join(stderr_of(*run, code=1).split()))
    allowed = trtw(*run, "--allow-unverified")
    assert allowed.exit_code == 0, allowed.output
    assert allowed.stderr.splitlines()[0].startswith("--allow-unverified: ")
    held(allowed.stdout.splitlines()[0])
    assert json.loads((out / "run.json").read_text())["allow_unverified"] is True
