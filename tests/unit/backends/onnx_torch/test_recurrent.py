"""LSTM, GRU and RNN of the torch backend against ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.texts import refused

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem

pytest.importorskip("torch")

TIME, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def write(
    path: Path, kind: str, *, directions: int = 1, state: bool = True, bias: bool = True, **attributes: Any
) -> Path:
    """Write a model of one node that has every input that PyTorch takes, and every output."""
    gates, layout = GATES[kind], attributes.get("layout", 0)
    weights = {"w": noise(directions, gates * HIDDEN, INPUT), "r": noise(directions, gates * HIDDEN, HIDDEN)}
    if bias:
        weights["b"] = noise(directions, 2 * gates * HIDDEN)
    shapes: dict[str, tuple[Any, ...]] = {"x": ("N", "T", INPUT) if layout else ("T", "N", INPUT)}
    states = ["h", "c"][: 2 if kind == "LSTM" else 1] if state else []
    for name in states:
        shapes[name] = ("N", directions, HIDDEN) if layout else (directions, "N", HIDDEN)
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    given = ["x", "w", "r", "b" if bias else "", "", *states]
    node = helper.make_node(kind, given, outputs, hidden_size=HIDDEN, name="cell", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def check(path: Path, backend: str = "torch", tolerance: float = 1e-5, **options: Any) -> None:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    sizes = {"T": TIME, "N": BATCH}
    inputs = {
        one.name: noise(*(sizes.get(dim, dim) for dim in one.shape), seed=place)
        for place, one in enumerate(session.get_inputs())
    }
    expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))
    with get_backend(backend).load(path, SessionOptions(**options)) as loaded:
        found = loaded.run(inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_direction_agrees(kind: str, direction: str, tmp_path: Path) -> None:
    directions = 2 if direction == "bidirectional" else 1
    check(write(tmp_path / "m.onnx", kind, directions=directions, direction=direction))


@pytest.mark.parametrize("kind", GATES)
def test_states_and_biases_may_be_left_out(kind: str, tmp_path: Path) -> None:
    check(write(tmp_path / "m.onnx", kind, state=False, bias=False))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_gru_that_resets_after_the_product(direction: str, tmp_path: Path) -> None:
    directions = 2 if direction == "bidirectional" else 1
    check(write(tmp_path / "m.onnx", "GRU", directions=directions, direction=direction, linear_before_reset=1))


def test_an_rnn_of_another_activation(tmp_path: Path) -> None:
    check(write(tmp_path / "m.onnx", "RNN", activations=["Relu"]), tolerance=1e-4)


def test_half_precision_computes_in_it(tmp_path: Path) -> None:
    check(write(tmp_path / "m.onnx", "LSTM"), precision="bf16", tolerance=0.05)


def test_compiled_with_the_cell_left_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "LSTM")
    check(path, "torch-compile")
    with get_backend("torch").load(path) as session:
        assert session.provenance["uncompiled"] == ["LSTM cell"]


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LSTM", {"clip": 1.0}),
        ("LSTM", {"input_forget": 1}),
        ("GRU", {"activations": ["Sigmoid", "Relu"]}),
    ],
)
def test_what_pytorch_does_not_have_is_refused(kind: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", kind, **attributes)
    with refused(UsageProblem):
        get_backend("torch").load(path)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_without_what_it_needs_is_refused(place: int, tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path / "m.onnx", "GRU"))
    model.graph.node[0].input[place] = ""
    onnx.save(model, tmp_path / "m.onnx")
    with refused(UsageProblem):
        get_backend("torch").load(tmp_path / "m.onnx")


@pytest.mark.parametrize("place", [4, 7, 1])
def test_inputs_that_pytorch_does_not_take_are_refused(place: int, tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path / "m.onnx", "LSTM"))
    cell = model.graph.node[0]
    cell.input.extend([""] * (place + 1 - len(cell.input)))
    cell.input[place] = "more"
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.INT32 if place == 4 else 1, None))
    onnx.save(model, tmp_path / "m.onnx")
    with refused(UsageProblem):
        get_backend("torch").load(tmp_path / "m.onnx")
