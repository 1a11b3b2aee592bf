"""What is known of a row while it is tried."""

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.decide.tried import DraftRow
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings


def test_int8_that_ort_cpu_computes_in_fp32_is_simulated(tmp_path: Path) -> None:
    """Products that share a weight: the values are those of int8, the time is that of fp32 and of rounding."""
    text = "g (float[2,8] x) => (float[2,8] y) {{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, {}) }}"
    weights = {name: np.eye(8, dtype=np.float32) for name in ("w", "v")}
    found = {}
    for name in ("w", "v"):
        path = write_onnx(tmp_path / f"{name}.onnx", text.format(name), weights)
        made = make_candidate(
            Model.open(path), "int8", tmp_path / "low.onnx", calibration=CalibrationSettings("random")
        )
        with OrtCpuBackend().load(made.path) as session:
            tried = DraftRow("int8", "ort-cpu", provenance=session.record())
            found[name] = tried.simulated, tried.provenance["precision_ran"]["native"]
    # without a pair behind it ONNX Runtime multiplies in integers only what makes an output
    assert found == {"w": (True, 0.0), "v": (True, 0.5)}


@pytest.mark.parametrize(
    ("precision", "source", "shares", "may", "missed"),
    [
        ("fp16", "engine layers", {"fp32": 1.0}, [], True),  # a recurrent layer that TensorRT left in fp32
        ("fp16", "engine layers", {"fp32": 0.9, "fp16": 0.1}, [], False),
        ("fp16", "engine layers", {"fp32": 1.0}, ["fp16", "fp32"], False),  # a region that does not tell
        ("fp16", "engine layers", {}, ["fp16", "fp32"], False),
        ("fp16", "build options", {}, ["fp16", "fp32"], False),
        ("int8-mixed", "engine layers", {"fp16": 1.0}, [], True),
        ("nvfp4", "engine layers", {"fp4": 0.5, "fp16": 0.5}, [], False),
        ("int4-weights", "engine layers", {"fp16": 1.0}, [], False),
        ("int8", "optimised graph", {"fp32": 1.0}, [], True),
        ("fp16", "program", {"fp32": 1.0}, [], True),
        ("fp16", "program", {"fp16": 1.0}, [], False),
        ("fp32", "engine layers", {"tf32": 1.0}, [], False),
    ],
)
def test_what_computes_in_something_else_than_was_asked_for(
    precision: str, source: str, shares: dict[str, float], may: list[str], missed: bool
) -> None:
    ran = {"source": source, "shares": shares, "weight_shares": {}, "may_choose": may}
    assert DraftRow(precision, "trt", provenance={"precision_ran": ran}).misses == missed
    assert not DraftRow(precision, "trt").misses
