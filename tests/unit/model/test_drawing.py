"""Uniform random numbers in models of every operator set, drawn by ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from tests.onnx_text import parse_onnx

from trt_workbench.model.editing import Names, NodeWriter
from trt_workbench.model.randomness import RandomSource

KINDS = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.FLOAT16: "float16"}


def drawn(folder: Path, opset: int, x: NDArray, kind: int = TensorProto.FLOAT, seed: int = 1) -> list[NDArray]:
    """Draw numbers from -2 to 5 of the shape of x, in two runs."""
    model = parse_onnx(f"g (float[] x) => ({KINDS[kind]}[] y) {{ y = Identity(x) }}", opset=opset)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    del model.graph.node[:]
    drawing = RandomSource(opset, NodeWriter(Names.of(model)))
    made = drawing.draw("x", "y", kind, low=-2.0, high=5.0, seed=seed)
    model.graph.node.extend(drawing.writer.taken())
    model.graph.node.append(onnx.helper.make_node("Identity", [made], ["y"]))
    model.graph.initializer.extend(drawing.constants())
    onnx.save(model, folder / "m.onnx")
    session = ort.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": x})[0] for _ in range(2)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [9, 17, 21, 22, 23])
def test_numbers_are_spread_over_the_range_and_others_in_every_run(opset: int, kind: int, tmp_path: Path) -> None:
    first, second = drawn(tmp_path, opset, np.zeros((40, 5, 10), np.float32), kind)
    assert first.dtype == onnx.helper.tensor_dtype_to_np_dtype(kind)
    assert first.shape == (40, 5, 10)
    assert first.min() >= -2
    assert first.max() <= 5
    assert np.quantile(first.astype(np.float64), [0.05, 0.5, 0.95]) == pytest.approx([-1.65, 1.5, 4.65], abs=0.5)
    assert (first != second).mean() > 0.9
    other = drawn(tmp_path, opset, np.zeros((40, 5, 10), np.float32), kind, seed=2)[0]
    assert (first != other).mean() > 0.9


@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (3, 0)])
@pytest.mark.parametrize("opset", [17, 22])
def test_the_shape_is_that_of_another_tensor(opset: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    assert drawn(tmp_path, opset, np.zeros(shape, np.float32))[0].shape == shape
