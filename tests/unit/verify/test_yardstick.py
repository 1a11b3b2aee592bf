"""Limits follow what a precision and its functions may make of a model."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.unit.verify.conftest import save

from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.verify.yardstick import Yardstick

UNIT = 2.0**-24


@pytest.mark.parametrize(
    ("function", "units", "allowed"),
    [
        # the largest error that TensorRT 8.6 was measured to make (docs/benchmarks/verify/functions.py)
        ("Tanh", 130, True),
        ("Selu", 110, True),
        ("Sin", 28, True),
        ("Sigmoid", 16, True),
        # and far more than that, which is no approximation
        ("Tanh", 2000, False),
        ("Selu", 10000, False),
        ("Sin", 130, False),
        ("Sigmoid", 130, False),
    ],
)
def test_approximated_functions_may_be_as_inexact_as_measured(
    function: str, units: int, allowed: bool, tmp_path: Path
) -> None:
    shape: list[int | str] = ["N", 256]
    node = helper.make_node(function, ["x"], ["y"])
    model = save(
        tmp_path / "model.onnx", [node], {"x": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, shape)}, []
    )
    generator = np.random.default_rng(0)
    inputs = {"x": generator.uniform(-4, 4, (3, 256)).astype(np.float32)}
    with OrtCpuBackend().load(model) as session:
        expected = session.run(inputs)
    yardstick = Yardstick(model, tmp_path, seed=0)
    try:
        limit = yardstick.limits("fp32", inputs, expected, {"y": True}, closely=True)["y"]
    finally:
        yardstick.close()
    clean = expected["y"]
    error = units * UNIT * np.abs(clean).max() * generator.uniform(-1, 1, clean.shape)
    assert limit.allows(limit.apart((clean + error).astype(np.float32), clean, rows=True)) is allowed, limit
