"""A part of a model, fed with true values, gives the true values, whatever nodes it is made of."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.attention_model import TOKENS, WIDTH, attention_model
from tests.onnx_text import write_onnx

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.model.opened import Model
from trt_workbench.verify.cut import Cut, CutSource, Form, read_source

Arrays = dict[str, NDArray[Any]]


def inputs_of(batch: int) -> Arrays:
    rng = np.random.default_rng(batch)
    mask = np.arange(TOKENS)[None] < np.arange(TOKENS, TOKENS - batch, -1)[:, None]
    x = rng.standard_normal((batch, TOKENS, WIDTH)).astype(np.float32)
    return {"x": x, "mask": mask.astype(np.float32)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> CutSource:
    found = read_source(
        Model.open(attention_model(tmp_path_factory.mktemp("cut") / "model.onnx", layers=1)), inputs_of(2)
    )
    found.with_ranges(inputs_of(1), inputs_of(3), inputs_of(4))
    return found


def outputs_of(cut: Cut, folder: Path) -> Arrays:
    onnx.checker.check_model(cut.model, full_check=True)
    onnx.save(cut.model, folder / "part.onnx")
    with OrtCpuBackend().load(folder / "part.onnx") as session:
        return session.run(cut.inputs)


@settings(deadline=None, max_examples=25)
@given(data=st.data(), form=st.sampled_from(Form))
def test_any_part_gives_the_true_values(
    data: st.DataObject, form: Form, source: CutSource, tmp_path_factory: pytest.TempPathFactory
) -> None:
    order = sorted(source.candidates)
    nodes = data.draw(st.sets(st.sampled_from(order), min_size=1, max_size=len(order)))
    marked = data.draw(st.sets(st.sampled_from(source.inner(nodes) or [""])))
    cut = source.cut(nodes, form, marked)
    assert {node.name for node in cut.model.graph.node} >= {source.names[place] for place in nodes}
    for name, found in outputs_of(cut, tmp_path_factory.mktemp("part")).items():
        np.testing.assert_allclose(found, cut.expected[name], rtol=1e-5, atol=1e-5)


def test_the_whole_model_has_its_own_inputs_and_outputs(source: CutSource) -> None:
    cut = source.cut(source.candidates, Form.FOLDED)
    assert (set(cut.inputs), set(cut.expected)) == ({"x", "mask"}, {"y"})
    assert not any(node.op_type in ("Shape", "Slice", "Concat") for node in cut.model.graph.node)


def test_nodes_that_compute_with_shapes_come_along_unless_they_are_folded(source: CutSource) -> None:
    reshape = next(place for place in source.candidates if source.nodes[place].op_type == "Reshape")
    operators = {
        form: [node.op_type for node in cut.model.graph.node] for form in Form if (cut := source.cut({reshape}, form))
    }
    assert operators == {
        Form.FOLDED: ["Reshape"],
        Form.FIXED: ["Shape", "Slice", "Concat", "Reshape"],
        Form.DYNAMIC: ["Shape", "Slice", "Concat", "Reshape"],
    }


def test_a_dynamic_part_has_the_ranges_of_the_model(source: CutSource, tmp_path: Path) -> None:
    softmax = next(place for place in source.candidates if source.nodes[place].op_type == "Softmax")
    cut = source.cut({softmax}, Form.DYNAMIC)
    (around,) = cut.profile.shapes.values()
    assert (around.min, around.opt, around.max) == ((1, 4, 5, 5), (3, 4, 5, 5), (4, 4, 5, 5))
    onnx.save(cut.model, tmp_path / "part.onnx")
    with OrtCpuBackend().load(tmp_path / "part.onnx") as session:
        assert session.inputs[0].shape == (None, 4, 5, 5)


def test_a_tensor_that_is_read_within_is_no_output_unless_it_is_marked(source: CutSource) -> None:
    softmax = next(place for place in source.candidates if source.nodes[place].op_type == "Softmax")
    users = [place for place in source.candidates if source.nodes[softmax].output[0] in source.nodes[place].input]
    plain = source.cut({softmax, *users}, Form.FOLDED)
    marked = source.cut({softmax, *users}, Form.FOLDED, source.nodes[softmax].output)
    assert plain
    assert list(marked.expected) == [source.nodes[softmax].output[0], *plain.expected]


def test_what_a_subgraph_captures_is_fed_in(tmp_path: Path) -> None:
    graph = """g (float[2] x) => (float[2] y) <float zero = {0}> {
      twice = Add(x, x) sum = ReduceSum<keepdims = 0>(x) positive = Greater(sum, zero)
      y = If (positive) <then_branch = then () => (float[2] n) { n = Neg(twice) },
                         else_branch = other () => (float[2] e) { e = Exp(twice) }>
    }"""
    model = write_onnx(tmp_path / "if.onnx", graph)
    source = read_source(Model.open(model), {"x": np.array([1, -2], np.float32)})
    cut = source.cut({3}, Form.FOLDED)
    assert set(cut.inputs) == {"twice", "positive"}
    np.testing.assert_allclose(outputs_of(cut, tmp_path)["y"], np.exp(np.array([2, -4], np.float32)), rtol=1e-6)


def test_scales_of_weights_are_not_folded(tmp_path: Path) -> None:
    graph = "g (float[2,3] x) => (float[2,3] y) { weights = DequantizeLinear(w, scale) y = MatMul(x, weights) }"
    constants = {"w": np.eye(3, dtype=np.int8), "scale": np.float32(0.5)}
    model = write_onnx(tmp_path / "quantised.onnx", graph, constants)
    source = read_source(Model.open(model), {"x": np.ones((2, 3), np.float32)})
    assert source.candidates == {0, 1}


def test_parts_that_are_not_connected_are_told_apart(source: CutSource) -> None:
    order = sorted(source.candidates)
    ends = [order[0], order[-1]]
    assert source.parts(ends) == [frozenset({place}) for place in ends] or len(source.parts(ends)) == 2
    assert source.parts(order) == [source.candidates]
