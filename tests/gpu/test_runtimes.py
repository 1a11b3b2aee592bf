"""ONNX Runtime's CUDA provider and PyTorch on a GPU, against ONNX Runtime on the CPU."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.registry import availability, get_backend
from trt_workbench.core.errors import CheckFailed

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
DETECTOR = ROOT / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)


def load(backend: str, model: Path, precision: str = "fp32", *, tf32: bool = False, **extra: Any) -> Session:
    found = availability(backend)
    if not found.ok:
        pytest.skip(f"{backend}: {found.reason}")
    if backend.startswith("torch") and found.versions.get("device") != "cuda":
        pytest.skip(f"{backend}: PyTorch has no GPU here")
    return get_backend(backend).load(model, SessionOptions(precision=precision, tf32=tf32, extra=extra))


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, a sigmoid and a flattening by way of Shape; batch and size are free."""
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.standard_normal((16, 3, 3, 3)).astype(np.float32) / 5,
        "b": rng.standard_normal((8, 16, 3, 3)).astype(np.float32) / 12,
        "zero": np.int64(0),
        "axis": np.array([0]),
        "rest": np.array([-1]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "b"], ["d"], "second", pads=[1] * 4),
        helper.make_node("Sigmoid", ["d"], ["s"], "sigmoid"),
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], "batch"),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["one"], "one"),
        helper.make_node("Concat", ["one", "rest"], ["target"], "target", axis=0),
        helper.make_node("Reshape", ["s", "target"], ["y"], "flatten"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2048])]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    )
    path = tmp_path_factory.mktemp("models") / "convolutions.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def batches() -> Iterator[np.ndarray]:
    for number, size in enumerate([1, 4, 1, 2, 4, 1, 1, 1]):
        yield np.random.default_rng(number).standard_normal((size, 3, 16, 16)).astype(np.float32)


def check(session: Session, model: Path, rtol: float, atol: float) -> None:
    with get_backend("ort-cpu").load(model) as reference:
        kept = []
        for x in batches():
            expected, found = reference.run({"x": x})["y"], session.run({"x": x})["y"]
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
            kept.append((found, expected))
        for found, expected in kept:  # later runs leave earlier results alone
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_ort_cuda_agrees_with_the_cpu(convolutions: Path, cuda_graph: bool) -> None:
    with load("ort-cuda", convolutions, cuda_graph=cuda_graph) as session:
        check(session, convolutions, 1e-4, 1e-5)
        assert session.provenance["providers"][0] == "CUDAExecutionProvider"
        assert session.provenance["host_memory"] == "pinned"
        assert session.provenance["fallback_nodes"] == []
        assert session.provenance["nodes_by_provider"]["CUDAExecutionProvider"] >= 4
        assert session.provenance["provider_options"]["use_tf32"] == "0"


@pytest.mark.parametrize(("precision", "tf32", "atol"), [("fp32", True, 5e-3), ("fp16", False, 5e-3)])
def test_ort_cuda_in_less_precision_differs_as_much_as_it_may(
    convolutions: Path, precision: str, tf32: bool, atol: float
) -> None:
    with load("ort-cuda", convolutions, precision, tf32=tf32) as session:
        check(session, convolutions, 0, atol)
        assert session.provenance["precision"] == ("fp16" if precision == "fp16" else "as exported")


def test_ort_cuda_refuses_what_would_fall_back(tmp_path: Path) -> None:
    # the CUDA provider has no kernel of Unique
    nodes = [helper.make_node("Unique", ["x"], ["y"], "distinct")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["found"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(CheckFailed, match="Unique distinct on CPUExecutionProvider"):
        load("ort-cuda", tmp_path / "m.onnx")
    with load("ort-cuda", tmp_path / "m.onnx", allow_fallback=True) as session:
        # each run's own values, though the node reads them on the CPU
        for values in ([3, 1, 3, 2, 1, 1, 2, 3], [5, 5, 5, 5, 5, 5, 5, 5], [8, 7, 6, 5, 4, 3, 2, 1]):
            found = session.run({"x": np.array(values, np.float32)})["y"]
            np.testing.assert_array_equal(found, np.unique(values))
        assert session.provenance["fallback_nodes"][0]["operator"] == "Unique"


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """h_next = h/2 + the mean of the rows of x, and y = h_next - x; x has any number of rows of 4096 values."""
    nodes = [
        helper.make_node("Mul", ["h", "half"], ["halved"]),
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Add", ["halved", "mean"], ["h_next"]),
        helper.make_node("Sub", ["h_next", "x"], ["y"]),
    ]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4096]) for name in ("h", "h_next")}
    infos |= {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4096]) for name in ("x", "y")}
    half = numpy_helper.from_array(np.float32([0.5]), "half")
    graph = helper.make_graph(nodes, "g", [infos["x"], infos["h"]], [infos["h_next"], infos["y"]], [half])
    path = tmp_path_factory.mktemp("models") / "recurrent.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("one_index", [False, True])
def test_ort_cuda_keeps_state_on_the_device(recurrent: Path, one_index: bool) -> None:
    rng = np.random.default_rng(0)
    with load("ort-cuda", recurrent, state={"h_next": "h"}) as session:
        for _ in range(2):
            h = np.zeros((1, 4096), np.float32)
            # a prompt and tokens, lengths that come again, and one of more than 64 MiB
            for size in (300, 1, 1, 1, 300, 5000, 5000, 5000, 1, 300):
                x = rng.standard_normal((size, 4096)).astype(np.float32)
                h = h / 2 + x.mean(0, keepdims=True)
                found = session.run_at({"x": x}, "y", -1) if one_index else session.run({"x": x})["y"]
                expected = (h - x)[:, -1] if one_index else h - x
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
            session.reset_state()  # type: ignore[attr-defined]
        assert session.memory_bytes() == {"device_state": 2 * 4096 * 4, "host_state": 0}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("backend", "cuda_graph"), [("ort-cuda", False), ("ort-cuda", True), ("torch", False)])
def test_one_index_of_an_output_leaves_the_device(tmp_path: Path, backend: str, cuda_graph: bool) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "s", 300]) for name in ("x", "y", "z")}
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["y"], infos["z"]])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    extra = {"cuda_graph": cuda_graph} if backend == "ort-cuda" else {"device": "cuda"}
    rng = np.random.default_rng(0)
    with load(backend, model, **extra) as session:
        for turn, shape in enumerate([(1, 7), (4, 7), (4, 7), (4, 7), (3, 1), (4, 7), (2, 1000)]):
            x = rng.standard_normal((*shape, 300)).astype(np.float32)
            for index in (-1, 0):
                found = session.run_at({"x": x}, "y" if turn % 2 else "z", index)
                np.testing.assert_array_equal(found, (-x if turn % 2 else np.abs(x))[:, index], strict=True)
            np.testing.assert_array_equal(session.run({"x": x})["y"], -x)


@pytest.mark.parametrize(("precision", "atol"), [("fp32", 1e-5), ("fp16", 5e-3), ("bf16", 4e-2)])
def test_torch_agrees_with_the_cpu(convolutions: Path, precision: str, atol: float) -> None:
    with load("torch", convolutions, precision, device="cuda") as session:
        check(session, convolutions, 1e-4 if precision == "fp32" else 0, atol)
        assert session.provenance["host_reads"] == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the compiler's own parts
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_torch_compile_agrees_with_the_cpu(convolutions: Path, mode: str) -> None:
    with load("torch-compile", convolutions, device="cuda", mode=mode) as session:
        check(session, convolutions, 1e-3, 1e-4)


@pytest.mark.skipif(not DETECTOR.is_file(), reason="the embedded detector is not there")
@pytest.mark.parametrize("backend", ["ort-cuda", "torch"])
def test_the_embedded_detector_finds_the_same_boxes(backend: str) -> None:
    extra = {"device": "cuda"} if backend == "torch" else {}
    with load(backend, DETECTOR, **extra) as session, get_backend("ort-cpu").load(DETECTOR) as reference:
        name = session.inputs[0].name
        x = np.random.default_rng(0).random((2, 3, 320, 320), np.float32)
        found, expected = session.run({name: x})["output0"], reference.run({name: x})["output0"]
    for ours, theirs in zip(found, expected, strict=True):
        # rows of nearly equal scores may change places
        distance = np.abs(theirs[:, None] - ours[None]).max(-1).min(1)
        assert np.quantile(distance, 0.97) < 1e-2


def test_a_gpu_that_does_not_exist_is_an_error(convolutions: Path) -> None:
    from trt_workbench.core.errors import WorkbenchError

    if not availability("ort-cuda").ok:
        pytest.skip("no ort-cuda here")
    with pytest.raises(WorkbenchError):
        load("ort-cuda", convolutions, device_id=int(os.environ.get("TRTW_ABSENT_GPU", "63")))
