"""What is known of a row while it is tried."""

from pathlib import Path

import numpy as np
from tests.onnx_text import write_onnx

from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.decide.candidates import make_candidate
from trt_workbench.decide.settings import CalibrationSettings
from trt_workbench.decide.tried import Tried


def test_int8_that_ort_cpu_computes_in_fp32_is_simulated(tmp_path: Path) -> None:
    """Products that share a weight: the values are those of int8, the time is that of fp32 and of rounding."""
    text = "g (float[2,8] x) => (float[2,8] y) {{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, {}) }}"
    weights = {name: np.eye(8, dtype=np.float32) for name in ("w", "v")}
    found = {}
    for name in ("w", "v"):
        path = write_onnx(tmp_path / f"{name}.onnx", text.format(name), weights)
        made = make_candidate(path, "int8", tmp_path / "low.onnx", calibration=CalibrationSettings("random"))
        with OrtCpuBackend().load(made.path) as session:
            tried = Tried("int8", "ort-cpu", provenance=session.record())
            found[name] = tried.simulated, tried.provenance["precision_ran"]["native"]
    # without a pair behind it ONNX Runtime multiplies in integers only what makes an output
    assert found == {"w": (True, 0.0), "v": (True, 0.5)}
