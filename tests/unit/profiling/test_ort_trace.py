"""ONNX Runtime's profile, of real runs and of events that a short run does not show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.backends.ort_profile import profiled_runs
from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.node_names import ModelNodes, read_nodes
from trt_workbench.profiling.ort_names import origin
from trt_workbench.profiling.ort_trace import OrtTrace, read_trace
from trt_workbench.profiling.workload import Workload, feed_for


def save(path: Path, nodes: list[Any], shape: list[int], weights: dict[str, Any]) -> Path:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    initial = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def convolutions(tmp_path: Path) -> Path:
    """Conv and Relu, which ONNX Runtime fuses, an unnamed Softmax, and a Cast to double and back around a Neg."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Softmax", ["r"], ["s"]),
        helper.make_node("Cast", ["s"], ["d"], name="widen", to=TensorProto.DOUBLE),
        helper.make_node("Neg", ["d"], ["n"], name="neg"),
        helper.make_node("Cast", ["n"], ["y"], name="narrow", to=TensorProto.FLOAT),
    ]
    return save(tmp_path / "m.onnx", nodes, [1, 16, 32, 32], {"w": np.ones((16, 16, 3, 3), np.float32)})


def traced(model: Path, folder: Path, level: str = "all", runs: int = 5) -> OrtTrace:
    work = Workload(path=model, backend="ort-cpu")
    options = SessionOptions(threads=1, extra={"graph_optimization_level": level})
    file, provenance = profiled_runs(
        OrtCpuBackend(), model, options, lambda specs: feed_for(specs, work), runs + 2, folder
    )
    assert provenance["providers"] == ["CPUExecutionProvider"]
    return read_trace(file, 2, read_nodes(model))


def test_every_node_of_a_real_run_is_found_by_name_provider_and_type(convolutions: Path, tmp_path: Path) -> None:
    trace = traced(convolutions, tmp_path, level="disable")
    assert [one.name for one in trace.operations] == ["conv", "relu", "Softmax_2", "widen", "neg", "narrow"]
    assert [one.onnx_nodes for one in trace.operations] == [[one.name] for one in trace.operations]
    assert {one.provider for one in trace.operations} == {"CPUExecutionProvider"}
    assert [one.role for one in trace.operations] == ["compute", "compute", "compute", "cast", "compute", "cast"]
    assert [one.conversion for one in trace.operations] == ["", "", "", "fp32 to fp64", "", "fp64 to fp32"]
    assert {one.calls for one in trace.operations} == {1}
    assert len(trace.run_ms) == 5
    total = sum(one.mean_ms or 0.0 for one in trace.operations)
    assert 0 < total <= np.mean(trace.run_ms)
    assert sum(one.share or 0.0 for one in trace.operations) == pytest.approx(1)


def test_fused_and_reordered_nodes_keep_the_models_names(convolutions: Path, tmp_path: Path) -> None:
    trace = traced(convolutions, tmp_path)
    conv = next(one for one in trace.operations if one.operator == "Conv")
    assert conv.onnx_nodes == ["conv", "relu"]
    made = {one.operator: one for one in trace.operations if not one.onnx_nodes}
    assert set(made) <= {"ReorderInput", "ReorderOutput"}
    assert {one.role for one in made.values()} <= {"reformat"}


def test_a_loop_does_not_count_the_time_of_its_body_twice(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], name="step"),
            helper.make_node("Identity", ["go"], ["on"], name="go_on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["count", "yes", "x"], ["y"], name="loop", body=body)
    weights = {"w": np.eye(256, dtype=np.float32), "count": np.array(6), "yes": np.array(True)}
    trace = traced(save(tmp_path / "l.onnx", [loop], [256, 256], weights), tmp_path)
    named = {one.name: one for one in trace.operations}
    assert named["step"].calls == 6
    assert named["step"].onnx_nodes == ["step"]
    assert (named["step"].mean_ms or 0) > (named["loop"].mean_ms or 0)
    assert sum(one.mean_ms or 0.0 for one in trace.operations) <= np.mean(trace.run_ms)


def event(name: str, cat: str, ts: int, dur: int, tid: int = 1, **arguments: str) -> dict[str, Any]:
    return {"cat": cat, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "ph": "X", "name": name, "args": arguments}


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(events))
    return path


def test_warm_up_and_what_lies_outside_of_runs_does_not_count(tmp_path: Path) -> None:
    node = {"op_name": "Add", "provider": "CUDAExecutionProvider", "node_index": "0"}
    events = [
        event("session_initialization", "Session", 0, 50),
        event("add_kernel_time", "Node", 60, 5, **node),
        event("model_run", "Session", 100, 100),
        event("add_kernel_time", "Node", 110, 80, **node),
        event("model_run", "Session", 300, 100),
        event("add_kernel_time", "Node", 310, 10, **node),
        event("add_kernel_time", "Node", 330, 10, **node),
        event("model_run", "Session", 500, 100),
        event("add_kernel_time", "Node", 510, 40, **node),
        event("add_kernel_time", "Node", 560, 20, **node),
        event("add_kernel_time", "Node", 700, 20, **node),
    ]
    trace = read_trace(write(tmp_path / "t.json", events), 1, ModelNodes())
    assert trace.run_ms == [0.1, 0.1]
    assert [(one.calls, one.median_ms, one.provider) for one in trace.operations] == [
        (2, 0.04, "CUDAExecutionProvider")
    ]


@pytest.mark.parametrize(("text", "words"), [("", "is there room"), ("[", "is there room"), ("[{}]", "")])
def test_a_damaged_or_empty_trace_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UsageProblem, match=rf"{words}.*t\.json"):
        read_trace(path, 0, ModelNodes())


@pytest.mark.parametrize(
    ("name", "operator", "nodes"),
    [
        ("conv", "Conv", ["conv"]),
        ("r_nchwc", "Conv", ["conv", "relu"]),
        ("InsertedPrecisionFreeCast_r_nchwc_token_7", "Conv", ["conv", "relu"]),
        ("c_nchwc", "Conv", ["conv"]),
        ("fused conv", "FusedConv", ["conv"]),
        ("relu/QuickGeluFusion/", "QuickGelu", ["relu"]),
        ("InsertedPrecisionFreeCast_r", "Cast", []),
        ("ReorderOutput_token_3", "ReorderOutput", []),
        ("unheard_of", "Add", []),
    ],
)
def test_names_that_onnx_runtime_makes(name: str, operator: str, nodes: list[str], convolutions: Path) -> None:
    assert origin(name, operator, read_nodes(convolutions)) == nodes
