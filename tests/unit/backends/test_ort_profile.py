"""Runs with ONNX Runtime's own profiler."""

import os
from pathlib import Path

import numpy as np
from tests.onnx_text import write_onnx

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.profile import profiled_runs


def test_the_trace_is_found_in_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "relu.onnx", "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    for runs in (1, 2):
        trace, _ = profiled_runs(
            OrtCpuBackend(), model, SessionOptions(), lambda _: {"x": np.ones(2, np.float32)}, runs, folder
        )
        assert trace.parent == folder
        assert trace.read_text().count("model_run") == runs
