"""`infer-engine` with a model instead of a plan, on every kind of backend."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.engines.common import infer, measuring, write_model
from tests.in_app import stderr_of, trtw
from tests.in_onnxruntime import outputs
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.backends.registry import availability

DETECTOR = Path(__file__).parents[3] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"
SESSIONS = ("ort-cpu", "torch")


def needs(backend: str) -> None:
    if not (found := availability(backend)).ok:
        pytest.skip(f"{found.reason} {found.fix}")


def outputs_of(document: dict[str, object]) -> Path:
    return next((Path(str(document["directory"])) / "outputs").iterdir())


@pytest.mark.parametrize("backend", SESSIONS)
def test_a_detector_says_what_onnx_runtime_says(backend: str, tmp_path: Path) -> None:
    needs(backend)
    images = np.random.default_rng(3).random((1, 3, 320, 320), np.float32)
    np.save(tmp_path / "images.npy", images)
    document = infer(DETECTOR, "--backend", backend, "-i", tmp_path / "images.npy")
    found = np.load(outputs_of(document) / "output0.npy")[:, :20]  # below, boxes with nearly one score change places
    want = outputs(DETECTOR, {"images": images})["output0"][:, :20]
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)
    assert document["benchmark"] is None
    assert document["model_sha256"] == hashlib.sha256(DETECTOR.read_bytes()).hexdigest()


@pytest.mark.parametrize("backend", [*SESSIONS, "trt"])
def test_inputs_by_name_in_order_and_from_folders(
    model: Path, arrays: dict[str, Path], tmp_path: Path, backend: str
) -> None:
    needs(backend)
    x, y = np.load(arrays["x"]), np.load(arrays["y"])
    (tmp_path / "samples").mkdir()
    np.savez(tmp_path / "samples" / "s.npz", y=y, x=x)
    want = outputs(model, {"x": x, "y": y})
    forms = ((f"y={arrays['y']}", f"x={arrays['x']}"), (arrays["x"], arrays["y"]), (tmp_path / "samples",))
    for form in forms:
        document = infer(model, "--backend", backend, *(word for source in form for word in ("-i", source)))
        assert document["backend"] == backend
        for name, array in want.items():
            np.testing.assert_allclose(np.load(outputs_of(document) / f"{name}.npy"), array, rtol=1e-6)


def test_one_backend_is_the_reference_of_the_next(model: Path, tmp_path: Path) -> None:
    needs("torch")
    first = infer(model, "--backend", "ort-cpu", "--no-bench", "--seed", "3")
    words = (model, "--backend", "torch", "--no-bench", "--expect", Path(first["directory"]) / "outputs")
    assert infer(*words, "--seed", "3")["passed"]
    said = stderr_of("infer-engine", *words, "--seed", "4", "--output", tmp_path / "run", code=1)
    held(said)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["passed"], run["backend"]) == (False, "torch")


@pytest.mark.parametrize("wrong", [np.nan, -np.inf, None], ids=["NaN", "infinity", "shape"])
def test_an_error_without_a_bound_is_no_zero(wrong: float | None, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[N] x) => (float[N] y) { y = Relu(x) }")
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    (tmp_path / "want" / "x").mkdir(parents=True)
    expected = np.ones(4, np.float32) if wrong is None else np.array([1, 1, wrong], np.float32)
    np.save(tmp_path / "want" / "x" / "y.npy", expected)
    words = ("-i", tmp_path / "x.npy", "--expect", tmp_path / "want", "--no-bench", "--output", tmp_path / "run")
    result = trtw("infer-engine", path, "--backend", "ort-cpu", *words)
    assert result.exit_code == 1
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())["outputs"]["y"]
    assert (found["max_abs_error"], found["max_rel_error"], found["min_cosine"]) == (None, None, None)


def test_nan_and_infinity_fail_the_check(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "zeros.npz", x=np.zeros((2, 3), np.float32), y=np.zeros((2, 3), np.float32))
    said = stderr_of(
        "infer-engine", model, "--backend", "ort-cpu", "-i", tmp_path / "zeros.npz", "--check-finite", code=1
    )
    held(said)


@pytest.mark.parametrize("backend", SESSIONS)
def test_measuring_keeps_every_call(model: Path, backend: str) -> None:
    needs(backend)
    document = infer(*measuring(model, "--backend", backend, "--percentiles", "75", "--cpu-threads", "1"))
    measured = document["benchmark"]
    assert measured["calls"] == measured["end_to_end_ms"]["count"] == 5
    assert measured["end_to_end_ms"]["min"] <= measured["end_to_end_ms"]["p50"] <= measured["end_to_end_ms"]["max"]
    assert measured["end_to_end_ms"]["p75"] is None, "five calls are too few to claim it"
    assert measured["throughput_qps"] == pytest.approx(5000 / measured["wall_ms"])
    assert document["memory"]["host_peak_bytes"] >= document["memory"]["host_bytes"] > 0
    assert min(document["load_s"], document["first_run_ms"]) > 0
    records = [json.loads(line) for line in (Path(document["directory"]) / "records.jsonl").read_text().splitlines()]
    assert [record["kind"] for record in records] == ["sample", *["call"] * 5]
    assert {record["via"] for record in records[1:]} == {"python"}
    assert json.loads((Path(document["directory"]) / "metrics.json").read_text())["provenance"]["precision"]


def test_percentiles_stand_in_order(model: Path) -> None:
    words = measuring(model, "--backend", "ort-cpu", "--percentiles", "99,99.9,5,75,50")
    said = trtw("infer-engine", *words, "--iterations", 700).output
    header = next(line for line in said.splitlines() if "mean" in line)
    assert header.split() == ["mean", "p5", "p50", "p75", "p90", "p95", "p99", "min", "max"]
    assert "700 calls are too few to claim p99.9" in said


def test_auto_is_told_and_recorded(model: Path) -> None:
    result = trtw("infer-engine", *measuring(model))
    assert result.exit_code == 0
    assert "was chosen by auto" in result.stderr
    assert "(chosen by auto)" in result.stdout
    assert "Precision: fp32" in result.stdout
    assert "Milliseconds over 5 calls" in result.stdout
    document = infer(model, "--no-bench")
    assert document["backend_requested"] == "auto"
    assert document["backend"].startswith("ort-")


def test_dynamic_dimensions_are_asked_for(tmp_path: Path) -> None:
    batch = write_model(tmp_path / "batch.onnx", "N")
    words = ("--backend", "ort-cpu", "--no-bench")
    assert infer(batch, *words)["inputs"]["first"]["x"]["shape"] == [1, 3]
    shapes = ("--shape", "x:4x3", "--shape", "y:4x3")
    assert infer(batch, *words, *shapes)["inputs"]["first"]["x"]["shape"] == [4, 3]
    text = "negative (float[1,length] tokens) => (float[1,length] out) { out = Neg(tokens) }"
    long = write_onnx(tmp_path / "long.onnx", text)
    held(stderr_of("infer-engine", long, *words))
    assert infer(long, *words, "--shape", "tokens:1x5")["passed"]


def test_numbers_alone_are_exchanged(tmp_path: Path) -> None:
    write_onnx(tmp_path / "text.onnx", "g (string[1] text) => (string[1] same) { same = Identity(text) }")
    held(stderr_of("infer-engine", tmp_path / "text.onnx", "--backend", "ort-cpu"))


def test_trt_builds_the_engine_and_runs_it_as_a_plan(tmp_path: Path) -> None:
    model = write_model(tmp_path / "dynamic.onnx", "N")
    words = measuring(model, "--backend", "trt", "--precision", "fp16", "--streams", "2")
    document = infer(*words, "--shape", "x:4x3", "--shape", "y:4x3", "--option", "optimization_level=2")
    assert document["inputs"]["first"]["x"]["shape"] == [4, 3]
    assert document["benchmark"]["queries"] == 200
    manifest = document["provenance"]["manifest"]
    assert manifest["options"]["precision"] == ["fp16"]
    assert manifest["options"]["optimization_level"] == 2
    assert manifest["options"]["profiles"] == ["x:4x3,y:4x3"]


@pytest.mark.parametrize(
    "words",
    [
        ("--streams", "1"),
        ("--threads",),
        ("--depth", "2"),
        ("--no-transfers",),
        ("--no-single-calls",),
        ("--export-times", "t.json"),
        ("--no-cuda-graph",),
        ("--block",),
        ("--profile", "0"),
        ("--trust",),
        ("--device", "0"),
        ("--precision", "fp16"),
        ("--option", "nonsense=1"),
        ("--option", "nonsense"),
        ("-i", "{x}", "-i", "{y}", "--duration", "1"),
        ("-i", "z={x}"),
        ("-i", "{double}", "-i", "{y}"),
        ("--shape", "q:1x3"),
    ],
)
def test_what_a_session_does_not_have_is_refused(
    model: Path, arrays: dict[str, Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    np.save(tmp_path / "double.npy", np.load(arrays["x"]).astype(np.float64))
    files = {**arrays, "double": tmp_path / "double.npy"}
    said = stderr_of("infer-engine", model, "--backend", "ort-cpu", *(word.format_map(files) for word in words))
    held(said)
    assert list((tmp_path / "out").glob("infer-engine/*")) == []


def test_auto_has_no_engine_either(model: Path) -> None:
    said = stderr_of("infer-engine", model, "--streams", "2")
    held(said)


@pytest.mark.parametrize(
    "words",
    [
        ("--option", "cuda_graph=false"),
        ("--cpu-threads", "1"),
        ("--option", "nonsense=1"),
    ],
)
def test_options_of_trt_are_given_in_one_way(model: Path, words: tuple[str, ...]) -> None:
    held(stderr_of("infer-engine", model, "--backend", "trt", *words))


@pytest.mark.parametrize(
    "words",
    [
        ("--backend", "ort-cpu"),
        ("--precision", "fp16"),
        ("--option", "max_batch=2"),
        ("--backend", "trt", "--cpu-threads", "1"),
    ],
)
def test_a_plan_is_taken_as_it_was_built(plan: Path, words: tuple[str, ...]) -> None:
    held(stderr_of("infer-engine", plan, *words))


def test_a_plan_may_name_its_backend(plan: Path) -> None:
    assert infer(plan, "--backend", "trt", "--no-bench")["backend"] == "trt"


@pytest.mark.parametrize("backend", ["ort-cuda", "ort-trt"])
def test_a_backend_that_is_missing_is_told_with_its_mend(model: Path, backend: str) -> None:
    if availability(backend).ok:
        pytest.skip(f"{backend} can serve here")
    assert f"Backend {backend} is not available" in stderr_of("infer-engine", model, "--backend", backend, code=3)


def test_models_that_cannot_be_run(model: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(model.read_bytes()[:40])
    cases = (
        (model, "nothing"),
        (tmp_path / "cut.onnx", "ort-cpu"),
        (tmp_path / "program.pt2", "auto"),
    )
    for path, backend in cases:
        held(stderr_of("infer-engine", path, "--backend", backend))
