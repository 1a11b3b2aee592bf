"""ONNX Runtime's profile, of real runs and of events that a short run does not show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.profile import OrtTrace, origin, profiled_runs, read_trace
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.node_names import ModelNodes, read_nodes
from trt_workbench.model.opened import Model
from trt_workbench.profile.workload import Workload, feed_for


@pytest.fixture
def convolutions(tmp_path: Path) -> Path:
    """Conv and Relu, which ONNX Runtime fuses, an unnamed Softmax, and a Cast to double and back around a Neg."""
    graph = f"""g (float[1,16,32,32] x) => (float[] y) {{
      [conv] c = Conv<pads = [1, 1, 1, 1]>(x, w) [relu] r = Relu(c) s = Softmax(r)
      [widen] d = Cast<to = {TensorProto.DOUBLE}>(s) [neg] n = Neg(d) [narrow] y = Cast<to = {TensorProto.FLOAT}>(n)
    }}"""
    return write_onnx(tmp_path / "m.onnx", graph, {"w": np.ones((16, 16, 3, 3), np.float32)})


def traced(model: Path, folder: Path, level: str = "all", runs: int = 5) -> OrtTrace:
    work = Workload(path=model, backend="ort-cpu")
    options = SessionOptions(threads=1, extra={"graph_optimization_level": level})
    file, provenance = profiled_runs(
        OrtCpuBackend(), model, options, lambda specs, _=None: feed_for(specs, work), runs + 2, folder
    )
    assert provenance["providers"] == ["CPUExecutionProvider"]
    return read_trace(file, 2, read_nodes(Model.open(model)))


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


def test_fused_and_reordered_nodes_keep_the_models_names(convolutions: Path, tmp_path: Path) -> None:
    trace = traced(convolutions, tmp_path)
    conv = next(one for one in trace.operations if one.operator == "Conv")
    assert conv.onnx_nodes == ["conv", "relu"]
    made = {one.operator: one for one in trace.operations if not one.onnx_nodes}
    assert set(made) <= {"ReorderInput", "ReorderOutput"}
    assert {one.role for one in made.values()} <= {"reformat"}


def test_a_loop_does_not_count_the_time_of_its_body_twice(tmp_path: Path) -> None:
    graph = """g (float[256,256] x) => (float[] y) <int64 count = {6}, bool yes = {1}> {
      [loop] y = Loop <body = body (int64 i, bool go, float[] state) => (bool on, float[] next) {
        [step] next = MatMul(state, w) [go_on] on = Identity(go)
      }> (count, yes, x)
    }"""
    trace = traced(write_onnx(tmp_path / "l.onnx", graph, {"w": np.eye(256, dtype=np.float32)}), tmp_path)
    named = {one.name: one for one in trace.operations}
    assert named["step"].calls == 6
    assert named["step"].onnx_nodes == ["step"]
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


def test_a_node_that_another_program_interrupts_is_not_the_longest(tmp_path: Path) -> None:
    """It took 3 µs in nine runs and 9,003 in one."""
    short, long = ({"op_name": one, "provider": "CPUExecutionProvider", "node_index": one} for one in ("Sub", "MatMul"))
    events = []
    for number in range(10):
        begin, late = 20_000 * number, 9_000 * (number == 4)
        events += [
            event("model_run", "Session", begin, 100 + late),
            event("sub_kernel_time", "Node", begin + 10, 3 + late, **short),
            event("matmul_kernel_time", "Node", begin + 20 + late, 60, **long),
        ]
    trace = read_trace(write(tmp_path / "t.json", events), 0, ModelNodes())
    assert trace.notes[1:] == [
        "1 of 10 runs took over twice the median, as if interrupted: their times of nodes are left out."
    ]
    assert {one.operator: one.mean_ms for one in trace.operations} == {
        "Sub": pytest.approx(0.003),
        "MatMul": pytest.approx(0.06),
    }


def test_a_loops_own_time_is_without_that_of_its_body(tmp_path: Path) -> None:
    step, loop = ({"op_name": one, "provider": "CPUExecutionProvider", "node_index": "0"} for one in ("MatMul", "Loop"))
    inside = [event("step_kernel_time", "Node", 115 + 12 * number, 10, **step) for number in range(6)]
    events = [event("model_run", "Session", 100, 100), event("loop_kernel_time", "Node", 110, 80, **loop), *inside]
    trace = read_trace(write(tmp_path / "t.json", events), 0, ModelNodes())
    assert {one.operator: (one.calls, one.mean_ms) for one in trace.operations} == {
        "MatMul": (6, pytest.approx(0.06)),
        "Loop": (1, pytest.approx(0.02)),
    }


@pytest.mark.parametrize("text", ["", "[", "[{}]"])
def test_a_damaged_or_empty_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with refused(UsageProblem):
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
    assert origin(name, operator, read_nodes(Model.open(convolutions))) == nodes
