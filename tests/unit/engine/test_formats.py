"""Models in formats that a TensorRT release lacks: refused before it is asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.builder import prepare_build
from trt_workbench.engine.options import BuildSettings
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import Candidate, make_candidate
from trt_workbench.quantize.settings import CalibrationSettings

Make = Callable[[Any], Candidate]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    weights = {name: np.ones((32, 32), np.float32) for name in ("v", "w")}
    text = "g (float[4,32] x) => (float[4,32] y) { [one] a = MatMul(x, v) [two] y = MatMul(a, w) }"
    model = write_onnx(tmp_path / "model.onnx", text, weights)
    random = CalibrationSettings(calibration="random")
    return lambda to: make_candidate(Model.open(model), to, tmp_path / f"model.{to}.onnx", calibration=random)


@pytest.mark.parametrize(
    ("to", "version"),
    [("fp8", "8.6.1"), ("bf16", "8.6.1"), ("int4-weights", "8.6.1"), ("nvfp4", "10.16.1")],
)
def test_a_tensorrt_without_the_format_does_not_build(make: Make, native_double: Any, to: Any, version: str) -> None:
    path = make(to).path
    native_double.version = version
    with refused(UsageProblem):
        prepare_build(Model.open(path), BuildSettings())
    native_double.version = "11.1.0"
    prepare_build(Model.open(path), BuildSettings())


def test_a_model_of_another_format_is_none_in_int8(make: Make, native_double: Any) -> None:
    native_double.version = "10.16.1"
    with refused(UsageProblem):
        prepare_build(Model.open(make("fp8").path), BuildSettings(precision=("int8",)))
