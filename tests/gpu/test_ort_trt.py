"""ONNX Runtime's TensorRT provider on a GPU: commands on the embedded models, engines, profiles, state, CUDA graphs.

With TensorRT 8.6 the provider is of an older ONNX Runtime, which needs PYTHONPATH=tests/old_onnxruntime.
"""

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of
from tests.onnx_text import write_onnx

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import availability, get_backend
from trt_workbench.backends.tf32 import VARIABLE
from trt_workbench.core.workspace import CLASSIFIER, DETECTOR, embedded_model
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.run import StreamEvaluation
from trt_workbench.stream.settings import MODES, StreamSettings

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900), pytest.mark.usefixtures("own_output")]


@functools.cache
def fast() -> dict[str, Any]:
    """Options for short builds; TensorRT 8.6 needs no library of CUDA's for them."""
    version = int(availability("ort-trt").versions.get("tensorrt", 0))
    off = {"trt_tactic_sources": "-CUBLAS,-CUBLAS_LT,-CUDNN"} if version < 100000 else {}
    return {"trt_builder_optimization_level": 1, **off}


@pytest.fixture(autouse=True)
def _provider(monkeypatch: pytest.MonkeyPatch) -> None:
    if "old_onnxruntime" in os.environ.get("PYTHONPATH", ""):
        monkeypatch.setenv("TRTW_STACK", "")  # which the tests take from it, too
    found = availability("ort-trt")
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")


def words(**more: Any) -> list[str]:
    return ["--backend", "ort-trt", *(f"--option={name}={value}" for name, value in {**fast(), **more}.items())]


def load(model: Path, precision: str = "fp32", **extra: Any) -> Session:
    return get_backend("ort-trt").load(model, SessionOptions(precision=precision, extra={**fast(), **extra}))


def convolution(path: Path, batch: int | str) -> Path:
    rng = np.random.default_rng(0)
    weights = {"a": rng.standard_normal((16, 3, 3, 3)) / 5, "b": rng.standard_normal((8, 16, 3, 3)) / 12}
    graph = f"""g (float[{batch},3,16,16] x) => (float[{batch},8,12,12] y) {{
      c = Conv(x, a) r = Relu(c) d = Conv(r, b) y = Sigmoid(d)
    }}"""
    return write_onnx(path, graph, {name: array.astype(np.float32) for name, array in weights.items()})


def images(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((rows, 3, 16, 16)).astype(np.float32)}


def expected(model: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    with get_backend("ort-cpu").load(model) as session:
        return session.run(inputs)["y"]


def engines(session: Session) -> dict[str, int]:
    """Return the engines that the session's folder holds, with the time at which each was written."""
    folder = Path(session.provenance["provider_options"]["trt_engine_cache_path"])
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*.engine")}


@pytest.mark.parametrize(("precision", "loss"), [("fp32", 0.002), ("fp16", 0.01)])
def test_the_embedded_detector_scores_as_on_the_cpu(precision: str, loss: float) -> None:
    asked = ["eval-coco", "--limit", "60", "--no-report"]
    here = json_of(*asked, *words(), "--precision", precision)
    reference = json_of(*asked, "--backend", "ort-cpu")
    assert here["provenance"]["nodes_by_provider"]["TensorrtExecutionProvider"]
    assert here["provenance"]["fallback_nodes"] == []
    assert abs(here["AP"] - reference["AP"]) < loss


def test_the_embedded_classifier_scores_as_on_the_cpu_in_batches() -> None:
    asked = ["eval-vision", CLASSIFIER, "--limit", "50", "--no-report"]  # the last batch is smaller
    here, reference = json_of(*asked, *words()), json_of(*asked, "--backend", "ort-cpu")
    assert abs(here["top1"] - reference["top1"]) <= 1 / 50
    assert here["provenance"]["provider_options"]["trt_profile_max_shapes"]


def test_arrays_give_what_the_model_says(tmp_path: Path) -> None:
    model, inputs = convolution(tmp_path / "m.onnx", 2), images(2)
    np.save(tmp_path / "x.npy", inputs["x"])
    (tmp_path / "right").mkdir()
    np.save(tmp_path / "right" / "y.npy", expected(model, inputs))
    asked = ["infer-engine", model, "--input", tmp_path / "x.npy", "--expect", tmp_path / "right", "--rtol", "1e-4"]
    assert json_of(*asked, *words())["passed"]


def test_verify_finds_it_right_at_every_batch(tmp_path: Path) -> None:
    document = json_of("verify", convolution(tmp_path / "m.onnx", "batch"), "--quick", *words())
    assert document["verdict"].startswith("right")
    assert document["precision"] == "fp32"


def test_bench_compares_its_outputs_with_those_of_other_runtimes(tmp_path: Path) -> None:
    others = [name for name in ("trt", "ort-cuda") if availability(name).ok]
    options = {"ort-trt": fast(), "trt": {"optimization_level": 0}}
    runtimes = [{"backend": name, "options": options.get(name, {})} for name in ("ort-trt", *others)]
    (tmp_path / "bench.yaml").write_text(json.dumps({
        "repetitions": 3,
        "measure": {"warmup_ms": 20, "duration_s": 0.1},
        "models": {"net": {"path": str(convolution(tmp_path / "m.onnx", "batch"))}},
        "runtimes": runtimes,
        "scenarios": {"arrays": {"kind": "arrays", "batch": [1, 4]}},
    }))  # fmt: skip
    json_of("bench", tmp_path / "bench.yaml", "--output", tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert {line["runtime"] for line in lines} == {"ort-trt", *others}
    assert {line["outputs"]["state"] for line in lines if line["runtime"] == "ort-trt"} == {"matched"}


def test_partitions_are_what_the_provider_took(tmp_path: Path) -> None:
    document = json_of("partitions", convolution(tmp_path / "m.onnx", 1), "--backend", "ort-trt")
    assert document["nodes_by_provider"] == {"TensorrtExecutionProvider": 4}


def test_the_second_session_reads_the_engine_of_the_first() -> None:
    model = embedded_model(DETECTOR)
    rows = {"images": np.zeros((1, 3, 320, 320), np.float32)}
    took, found = list[float](), list[dict[str, int]]()
    for _ in range(2):
        started = time.perf_counter()
        with load(model) as session:
            session.run(rows)  # an engine for a free batch is built when it is known
            took.append(time.perf_counter() - started)
            found.append(engines(session))
    assert found[0] == found[1]
    assert len(found[0]) == 1
    assert took[1] < took[0] / 2, took


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_no_batch_within_the_range_builds_again(tmp_path: Path, precision: str) -> None:
    model = convolution(tmp_path / "m.onnx", "batch")
    with load(model, precision, max_batch=8) as session:
        before = engines(session)
        assert len(before) == 1
        for rows in (8, 1, 3, 8, 5):
            inputs = images(rows, rows)
            atol = 1e-5 if precision == "fp32" else 5e-3
            np.testing.assert_allclose(session.run(inputs)["y"], expected(model, inputs), rtol=0, atol=atol)
        assert engines(session) == before


def test_a_cuda_graph_replays_with_new_values(tmp_path: Path) -> None:
    model = convolution(tmp_path / "m.onnx", 2)
    with load(model, cuda_graph=True) as session:
        for seed in range(4):
            np.testing.assert_allclose(session.run(images(2, seed))["y"], expected(model, images(2, seed)), atol=1e-5)


def test_state_stays_on_the_device(tmp_path: Path) -> None:
    graph = """g (float[4,4096] x, float[1,4096] h) => (float[4,4096] y, float[1,4096] h_next) {
      halved = Mul(h, half) mean = ReduceMean<axes = [0], keepdims = 1>(x) h_next = Add(halved, mean) y = Sub(h_next, x)
    }"""
    model = write_onnx(tmp_path / "m.onnx", graph, {"half": np.float32([0.5])})
    rng = np.random.default_rng(0)
    with load(model, state={"h_next": "h"}) as session:
        for _ in range(2):
            h = np.zeros((1, 4096), np.float32)
            for _ in range(5):
                x = rng.standard_normal((4, 4096)).astype(np.float32)
                h = h / 2 + x.mean(0, keepdims=True)
                np.testing.assert_allclose(session.run({"x": x})["y"], h - x, rtol=1e-4, atol=1e-4)
            session.reset_state()  # type: ignore[attr-defined]
        assert session.memory_bytes()["device_state"] == 2 * 4096 * 4


def test_the_embedded_encoder_passes_in_every_mode(tmp_path: Path) -> None:
    asked = StreamSettings(backend="ort-trt", precision=("fp32",), options=fast(), mode=MODES, chunks=60)
    with OpenedStream(asked, lambda _: None) as opened:
        found = StreamEvaluation(opened).run(tmp_path, lambda *_: None)
    assert found.failures == []


def test_quantised_nodes_run_in_int8(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-127, 127, (8, 3, 3, 3)).astype(np.int8),
        "s": np.float32(0.03),
        "t": np.full(8, 0.002, np.float32),
        "z": np.int8(0),
        "zs": np.zeros(8, np.int8),
    }
    graph = """g (float[1,3,16,16] x) => (float[1,8,14,14] y) {
      q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
      v = DequantizeLinear<axis = 0>(w, t, zs) c = Conv<kernel_shape = [3, 3]>(d, v) y = Relu(c)
    }"""
    model, inputs = write_onnx(tmp_path / "m.onnx", graph, weights), images(1)
    with load(model, "int8") as session:
        assert "int8" in session.record()["precision_ran"]["text"]
        np.testing.assert_allclose(session.run(inputs)["y"], expected(model, inputs), rtol=1e-3, atol=1e-3)


_ERROR = """
import sys
import numpy as np
from pathlib import Path
from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import availability, get_backend
model, tf32, before, extra = Path(sys.argv[1]), sys.argv[2] == "True", sys.argv[3], eval(sys.argv[4])
x = np.random.default_rng(0).standard_normal((256, 1024)).astype("f4")
if before and availability(before).ok:
    get_backend(before).load(model).run({"x": x})
with get_backend("ort-trt").load(model, SessionOptions(tf32=tf32, extra=extra)) as session:
    found = session.run({"x": x})["y"]
weights = np.random.default_rng(1).standard_normal((1024, 256)).astype("f4")
right = x.astype("f8") @ weights.astype("f8")
print(np.abs(found - right).max() / np.abs(right).max())
"""


def test_tf32_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    """In a process of its own each: NVIDIA's variable is for a whole process, and libraries read it when they start."""
    weights = {"w": np.random.default_rng(1).standard_normal((1024, 256)).astype(np.float32)}
    model = write_onnx(tmp_path / "m.onnx", "g (float[256,1024] x) => (float[256,256] y) { y = MatMul(x, w) }", weights)

    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}

    def error(*, allowed: bool, before: str = "") -> float:
        command = [sys.executable, "-c", _ERROR, str(model), str(allowed), before, repr(fast())]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(done.stdout.split()[-1])

    assert error(allowed=False) < 1e-5
    assert error(allowed=True) > 1e-5
    assert error(allowed=False, before="ort-cuda") < 1e-5  # which has opened cuBLAS by then
