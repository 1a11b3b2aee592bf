"""The engine commands and the backend trt on a real GPU: built, run, compared with ONNX Runtime, refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from trt_workbench.app import app
from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.images import ImageSession, ImageTransform
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.letterbox import preprocess

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]
Trtw = Callable[..., Result]
SIDE = 32


@pytest.fixture
def trtw() -> Trtw:
    def run(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution with relu on images [N, 3, 32, 32], and its mean over the picture."""
    rng = np.random.default_rng(7)
    weights = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype(np.float32) / 5, "w")
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], pads=[1, 1, 1, 1], name="first_conv"),
        helper.make_node("Relu", ["c"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["pooled"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])],
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", 4, SIDE, SIDE]),
            helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["N", 4, 1, 1]),
        ],
        [weights],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def plan(trtw: Trtw, model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.plan"
    result = trtw("build-engine", model, "--max-batch", "4", "-o", path)
    assert result.exit_code == 0, result.output
    return path


def images(batch: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((batch, 3, SIDE, SIDE)).astype(np.float32)


def test_outputs_equal_those_of_onnx_runtime(trtw: Trtw, model: Path, plan: Path, tmp_path: Path) -> None:
    samples, expected = tmp_path / "samples", tmp_path / "expected"
    samples.mkdir()
    expected.mkdir()
    with OrtCpuBackend().load(model) as reference:
        for batch in (1, 3, 4):
            np.save(samples / f"b{batch}.npy", images(batch))
            np.savez(expected / f"b{batch}.npz", **reference.run({"images": images(batch)}))
    words = ("infer-engine", plan, "-i", samples, "--expect", expected, "--check-finite", "--json")
    result = trtw(*words)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["samples"] == 3
    assert document["outputs"]["features"]["max_abs_error"] < 1e-4


@pytest.mark.parametrize("time", range(5))
def test_cuda_and_tensorrt_open_while_others_are_imported(plan: Path, time: int) -> None:  # noqa: ARG001 - a race is tried again
    call = [sys.executable, "-c", "from trt_workbench.main import main; main()", "infer-engine", str(plan)]
    done = subprocess.run([*call, "--no-bench", "--json"], capture_output=True, timeout=120, check=True)
    document = json.loads(done.stdout)
    assert document["opened_early_s"].keys() == {"cuda", "tensorrt"}
    assert sum(document["first_result_parts_s"].values()) == pytest.approx(document["first_result_s"])


@pytest.mark.parametrize(("precision", "verdict"), [("fp32", "right"), ("fp16", "right within fp16")])
def test_a_build_comes_verified(trtw: Trtw, model: Path, precision: str, verdict: str) -> None:
    words = ("build-engine", model, "--max-batch", "4", "--precision", precision, "--json")
    result = trtw(*words)
    assert result.exit_code == 0, result.output
    first = json.loads(result.stdout)["manifest"]["verification"]
    assert first["verdict"] == verdict, first
    assert [one["shapes"]["images"][0] for one in first["shapes"]] == [1, 2, 3, 4]
    assert first["shapes_left"] == 0
    assert json.loads(trtw(*words).stdout)["manifest"]["verification"] == first  # of the cached engine, not found again


@pytest.mark.parametrize("precision", ["fp16", "fp16+tf32"])
def test_fp16_is_close_and_recorded(model: Path, precision: str) -> None:
    options = SessionOptions(precision=precision, extra={"max_batch": 2})
    with TrtBackend().load(model, options) as session, OrtCpuBackend().load(model) as reference:
        found, wanted = (one.run({"images": images(2)}) for one in (session, reference))
        np.testing.assert_allclose(found["pooled"], wanted["pooled"], atol=2e-2)
        assert session.provenance["precision"] == "+".join(sorted(precision.split("+"), reverse=True))


def test_graphs_are_in_use_after_two_calls(model: Path) -> None:
    with TrtBackend().load(model) as session:
        answers = [session.run({"images": images(1, seed)})["pooled"] for seed in (1, 2, 1, 2)]
        assert session.provenance["cuda_graph"].startswith("on")
    np.testing.assert_array_equal(answers[0], answers[2])
    np.testing.assert_array_equal(answers[1], answers[3])


def test_threads_share_a_session(model: Path) -> None:
    wrong: list[int] = []
    with TrtBackend().load(model, SessionOptions(concurrency=4)) as session:
        wanted = [session.run({"images": images(1, seed)})["pooled"] for seed in range(8)]

        def work(seed: int) -> None:
            for _ in range(50):
                if not np.array_equal(session.run({"images": images(1, seed)})["pooled"], wanted[seed]):
                    wrong.append(seed)

        threads = [Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_images_letterboxed_on_the_gpu_equal_those_on_the_host(model: Path) -> None:
    rng = np.random.default_rng(3)
    pictures = [rng.integers(0, 256, (height, 40, 3), np.uint8) for height in (20, 64)]
    transform = ImageTransform(SIDE, SIDE)
    tensor = np.stack([preprocess(picture, transform)[0] for picture in pictures])
    with TrtBackend().load(model, SessionOptions(extra={"max_batch": 2})) as session:
        assert isinstance(session, ImageSession)
        on_gpu, on_host = session.run_images(pictures, transform), session.run({"images": tensor})
    for name, array in on_gpu.items():
        # a resized grey level may round to its neighbour: 1/255 of the input's range
        np.testing.assert_allclose(array, on_host[name], atol=2e-2)


def test_a_shape_outside_the_profile_names_its_range(plan: Path, trtw: Trtw) -> None:
    result = trtw("infer-engine", plan, "--shape", f"images:5x3x{SIDE}x{SIDE}", "--no-bench")
    assert result.exit_code == 2
    assert "images" in result.stderr
    assert "4" in result.stderr


def test_a_wrong_input_leaves_the_session_usable(model: Path) -> None:
    with TrtBackend().load(model) as session:
        with pytest.raises(UsageProblem):
            session.run({"images": images(9)})
        assert session.run({"images": images(1)})["pooled"].shape == (1, 4, 1, 1)


def test_damaged_bytes_are_refused_by_tensorrt_too(plan: Path, trtw: Trtw) -> None:
    plan.write_bytes(plan.read_bytes()[: plan.stat().st_size // 2])
    assert trtw("infer-engine", plan).exit_code == 2
    result = trtw("infer-engine", plan, "--trust")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_an_unsupported_operator_is_named(trtw: Trtw, tmp_path: Path) -> None:
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain="com.example", name="the_culprit")
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", tensors[:1], tensors[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    path = tmp_path / "strange.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    result = trtw("build-engine", path)
    assert result.exit_code == 2
    assert "NoSuchOperator" in result.stderr


def test_a_build_over_its_limit_ends(model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "limited.plan"
    words = ("build-engine", model, "--max-batch", "4", "--time-limit", "0.3", "--timing-cache", "off", "-o", plan)
    # a process of its own: TensorRT 8 goes on until it ends
    start = "from trt_workbench.main import main; main()"
    command = [sys.executable, "-c", start, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "limit of 0.3 s, in the phase" in done.stderr
    assert not plan.exists()


def test_measuring_agrees_with_itself(plan: Path, trtw: Trtw, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    words = ("infer-engine", plan, "--duration", "0.5", "--streams", "2", "--export-times", times)
    result = trtw(*words, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    measured = document["benchmark"]
    assert measured["queries"] == len(json.loads(times.read_text())) > 100
    assert measured["throughput_qps"] == pytest.approx(measured["queries"] / measured["wall_ms"] * 1e3, rel=1e-3)
    assert measured["latency_ms"]["p50"] >= measured["compute_ms"]["p50"]
    single = measured["single_calls"]
    assert single["python"]["end_to_end_ms"]["p50"] >= single["cpp"]["compute_ms"]["p50"]


def test_layers_are_inspected(plan: Path, trtw: Trtw) -> None:
    document = json.loads(trtw("inspect", plan, "--json").stdout)
    assert any("first_conv" in layer["Name"] for layer in document["engine"]["layers"])
    assert document["engine"]["tensors"][0]["profiles"][0][2] == [4, 3, SIDE, SIDE]


def test_calls_in_every_way_are_right_and_timed(plan: Path, trtw: Trtw) -> None:
    ways = "buffer,numpy,pinned,torch,view"
    result = trtw("infer-engine", plan, "--duration", "0.2", "--calls", ways, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["benchmark"]["user_calls"]
    rows = {row["name"]: row["time_us"]["median"] for row in found["rows"]}
    assert rows.keys() >= {"h2d", "compute", "d2h", "buffer", "numpy", "pinned", "pinned_out", "view", "view_copy"}
    assert ("torch" in found["left_out"]) == ("torch" not in rows)
    calls = rows.keys() - {"h2d", "compute", "d2h", "view_copy", "torch_alone"}
    assert all(rows[name] > rows["compute"] for name in calls)
