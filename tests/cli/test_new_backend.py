"""The backend of docs/extending.md, installed as a package: it serves every command, or is refused by name."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.in_process_worker import InProcessWorker
from tests.onnx_text import write_onnx
from tests.streaming_models import attention, contract_of, write_contract
from tests.texts import held

from trt_workbench.backends.profiling import Operation
from trt_workbench.core import workers
from trt_workbench.core.records import read_records
from trt_workbench.profile.document import read_records as read_profile
from trt_workbench.vision.scenes import dataset as embedded

pytestmark = pytest.mark.usefixtures("blank_pictures")

EXAMPLE = Path(__file__).parents[1] / "examples" / "backend"
MODEL = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.fixture(autouse=True)
def new_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_package: Callable[..., None]) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    outside_package(project["entry-points"], EXAMPLE, name=project["name"])
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 8)


@pytest.mark.long
def test_bench_and_report(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2, slices: 2}\n"
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


@pytest.mark.long
def test_eval_coco_and_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stdout_of("eval-coco", "--backend", "my-runtime", "--limit", 4, "--output", run, "--json")
    assert json.loads((run / "metrics.json").read_text())["backend"] == "my-runtime"
    assert json.loads((run / "env.json").read_text())["packages"]["trtw-my-runtime"] == "1.0"
    assert trtw("report", run, "--output", tmp_path / "overview").exit_code == 0
    assert "my-runtime" in (run / "report.html").read_text()


def infer_engine(model: Path, run: Path, *words: str) -> Any:
    stdout_of("infer-engine", model, "--backend", "my-runtime", "--output", run, "--duration", 0, *words)
    return json.loads((run / "metrics.json").read_text())


@pytest.mark.long
def test_infer_engine(tmp_path: Path) -> None:
    for more in ((), ("--json",)):
        assert infer_engine(MODEL, tmp_path / "run", *more)["backend"] == "my-runtime"


@pytest.mark.long
def test_profile(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stdout_of("profile", MODEL, "--backend", "my-runtime", "--iterations", 3, "--warmup", 1, "--output", run)
    side = json.loads((run / "run.json").read_text())["sides"]["target"]
    assert side["own_ms"] > 0
    assert side["profiled_ms"] > 0
    assert side["precision_ran"]["text"].startswith("fp32")
    assert side["inputs"] == {"images": [1, 3, 320, 320]}
    operations = [one for one in read_profile(run / "records.jsonl") if isinstance(one, Operation)]
    assert sum(one.share or 0 for one in operations) == pytest.approx(1)
    assert any(one.onnx_nodes for one in operations)
    assert trtw("report", run).exit_code == 0
    assert "my-runtime" in (run / "report.html").read_text()


def test_partitions(tmp_path: Path) -> None:
    found = json_of("partitions", MODEL, "--backend", "my-runtime", "--output", tmp_path / "run", "--json")
    assert {node["provider"] for node in found["nodes"]} == {"my-runtime"}


@pytest.mark.parametrize("wrong", [False, True])
def test_verify_and_its_script(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_onnx(tmp_path / "m.onnx", "g (float[2,3] x) => (float[2,3] y) { r = Relu(x) y = Exp(r) }")
    if wrong:
        import my_runtime

        right = my_runtime.MySession._infer
        monkeypatch.setattr(my_runtime.MySession, "_infer", lambda *given: {k: v * 2 for k, v in right(*given).items()})
        monkeypatch.setattr(workers, "WorkerProcess", InProcessWorker)
    words = ("--backend", "my-runtime", "--quick", "--output", tmp_path / "run")
    result = trtw("verify", model, *words, *(["--bisect"] if wrong else []))
    assert result.exit_code == wrong, result.stderr
    if wrong:
        script = tmp_path / "run" / "bisect" / "reproduce.py"
        assert "Needs onnxruntime and numpy" in script.read_text()
        # the runtime alone is right: what is wrong is the session above
        assert subprocess.run([sys.executable, script], check=False).returncode == 0


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    weights = {"w": np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)}
    return write_onnx(tmp_path / "m.onnx", "g (float[n,16] x) => (float[n,16] y) { y = MatMul(x, w) }", weights)


def test_quantize(classifier: Path, tmp_path: Path) -> None:
    made = tmp_path / "int8.onnx"
    stdout_of("quantize", classifier, "--to", "int8", "--calibration", "random", "-o", made)
    document = infer_engine(made, tmp_path / "run")
    assert document["provenance"]["precision_ran"]["label"].startswith("int8")


def test_decide(classifier: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(6)
    for name in ("scored.npy", "calibration.npy"):
        np.save(tmp_path / name, generator.standard_normal((32, 16)).astype(np.float32))
    data = ("--data", tmp_path / "scored.npy", "--calibration", tmp_path / "calibration.npy", "--score", "top1")
    wanted = ("--precisions", "fp32,int8", "--backends", "my-runtime", "--repetitions", 0, "--max-loss", 1)
    run = tmp_path / "run"
    printed = stdout_of("decide", classifier, *data, *wanted, "--output", run)
    exact, lower = json.loads((run / "decision.json").read_text())["rows"]
    assert (exact["backend"], exact["state"], exact["score"]["loss"]) == ("my-runtime", "scored", 0)
    assert (lower["backend"], lower["state"], lower["precision"]) == ("my-runtime", "scored", "int8")
    assert lower["score"]["loss"] < 0.5
    assert "int8 on my-runtime" in printed


def test_eval_stream(tmp_path: Path) -> None:
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    run = tmp_path / "run"
    words = ("--contract", contract, "--backend", "my-runtime", "--chunks", 10, "--streams", "1,2", "--hop-ms", 20)
    stdout_of("eval-stream", attention(tmp_path), *words, "--seconds", 0.1, "--output", run)
    metrics = json.loads((run / "metrics.json").read_text())
    assert json.loads((run / "run.json").read_text())["passed"] is True
    assert [level["streams"] for level in metrics["streams"][0]["levels"]] == [1, 2]
    assert "my-runtime" in (run / "report.html").read_text()


def test_eval_llm(llm_folder: Callable[[str], Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--limit", 100, "--modes", "perplexity,generate-cached", "--prompt", 6, "--new-tokens", 4)
    wanted = ("--backends", "torch,my-runtime", "--text", Path(__file__), "--output", run)
    stdout_of("eval-llm", llm_folder("llama"), *words, *wanted)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["status"] == "complete"
    assert {row["backend"] for row in metrics["generation"]} == {"torch", "my-runtime"}
    assert all(row["agreement"]["first_difference"] is None for row in metrics["generation"])
    assert "my-runtime" in (run / "report.html").read_text()


def test_backends_and_predict(tmp_path: Path) -> None:
    assert "my-runtime" in stdout_of("backends")
    image = tmp_path / "grey.png"
    cv2.imwrite(str(image), np.full((96, 128, 3), 128, np.uint8))
    found = json_of("predict", MODEL, image, "--backend", "my-runtime", "--output", tmp_path / "run", "--json")
    assert "my-runtime" in json.dumps(found)


def test_what_a_backend_does_not_offer_is_refused_by_its_name(outside_backend: Callable[..., None]) -> None:
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    held(stderr_of("profile", MODEL, "--backend", "faulty"))
    held(stderr_of("partitions", MODEL, "--backend", "faulty"))


def test_language_models_are_asked_of_the_backend_itself() -> None:
    from trt_workbench.llm.opening import parse_backends

    assert [str(one) for one in parse_backends("my-runtime,torch")] == ["my-runtime:fp32", "torch:fp32"]
