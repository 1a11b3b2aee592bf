"""Runs with ONNX Runtime's own profiler."""

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.backends.ort_profile import profiled_runs


def test_the_trace_is_found_in_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    model = tmp_path / "relu.onnx"
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    for runs in (1, 2):
        trace, _ = profiled_runs(
            OrtCpuBackend(), model, SessionOptions(), lambda _: {"x": np.ones(2, np.float32)}, runs, folder
        )
        assert trace.parent == folder
        assert trace.read_text().count("model_run") == runs
