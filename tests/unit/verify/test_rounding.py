"""A property that rounding alone breaks holds; one that a fault breaks does not, though rounding breaks it too."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx_text import write_onnx

from trt_workbench.backends.base import TensorSpec
from trt_workbench.model.opened import Model
from trt_workbench.verify.properties import (
    Calls,
    CallTrial,
    PropertyResult,
    calls_repeat,
    rows_equal_single_runs,
    without_rounding,
    worst,
)
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import model_space
from trt_workbench.verify.yardstick import Yardstick

Arrays = Mapping[str, NDArray[Any]]
# Steps, after something that depends on the other rows.
GRAPH = """g (float[N,16] x) => (float[N,16] y) {
  m = ReduceMean<axes = [0], keepdims = 1>(x) part = Mul(m, hundredth) near = Add(x, part) y = Floor(near)
}"""
# Alone, an element of the first row is right below a step, which fp16 takes; beside the second row it is far below.
ROWS = np.tile(np.arange(16, dtype=np.float32) + 3.5, (2, 1))
ROWS[0, 0], ROWS[1, 0] = (3 - 1e-5) / 1.01, -10.5


def half(inputs: Arrays) -> Arrays:
    """Compute the model, rounded to fp16 before the steps."""
    x = inputs["x"]
    near = (x + x.mean(axis=0, keepdims=True) * np.float32(0.01)).astype(np.float16)
    return {"y": np.floor(near).astype(np.float32)}


@pytest.fixture
def yardstick(tmp_path: Path) -> Iterator[Yardstick]:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"hundredth": np.float32(0.01)})
    made = Yardstick(Model.open(path), tmp_path, 0)
    yield made
    made.close()


def found(
    run: Callable[[Arrays], Arrays], yardstick: Yardstick, check: Any = rows_equal_single_runs
) -> list[PropertyResult]:
    space = model_space([TensorSpec("x", np.dtype(np.float32), (None, 16))], {"x": ("N", 16)}, {"N": Range(1, 2, 2)})
    inputs, rows = {"x": ROWS}, {"y": True}
    limits = yardstick.limits("fp16", inputs, yardstick.exact(inputs), rows, closely=True)
    trial = CallTrial(space, space.case({"N": 2}), inputs, dict(half(inputs)), rows, limits, {"x": ROWS + 1})
    calls = Calls(run)
    findings = worst(check(calls, trial))
    assert not all(one.holds for one in findings)
    return without_rounding(check, calls, trial, findings, yardstick, "fp16")


def test_a_step_that_is_taken_alone_is_rounding(yardstick: Yardstick) -> None:
    (one,) = found(half, yardstick)
    assert (one.holds, one.detail) == (True, "")
    assert one.difference.max_abs == 1


def test_a_row_that_is_wrong_alone_is_a_fault(yardstick: Yardstick) -> None:
    (one,) = found(lambda inputs: {"y": half(inputs)["y"] * np.float32(1.5)}, yardstick)
    assert not one.holds
    assert "row = single run" in one.name


def test_an_answer_that_was_wrong_once_is_judged_itself(yardstick: Yardstick) -> None:
    """A fault that comes and goes: the same call would be right if it were made again."""
    factors = iter([1.5])
    (one,) = found(lambda inputs: {"y": half(inputs)["y"] * np.float32(next(factors, 1))}, yardstick)
    assert not one.holds


def test_another_answer_to_the_same_inputs_is_a_fault_however_right_each_is(yardstick: Yardstick) -> None:
    signs = iter([1, -1] * 8)

    def unsteady(inputs: Arrays) -> Arrays:
        return {"y": half(inputs)["y"] + np.float32(0.3 * next(signs))}

    (one,) = found(unsteady, yardstick, calls_repeat)
    assert not one.holds
