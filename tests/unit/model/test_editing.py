"""Names that are free in all graphs of a model, and models that are edited although they have the likeliest names."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.editing import (
    Names,
    NodeWriter,
    bypass,
    in_order,
    inlined,
    remove_unused,
    rename_uses,
)
from trt_workbench.model.fences import fences
from trt_workbench.model.low_precision.watch import with_flags
from trt_workbench.model.noise import with_rounding
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.sanitize import sanitize
from trt_workbench.model.walking import all_graphs, defined, subgraphs

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def run(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    onnx.checker.check_model(model, full_check=True)
    names = [name for graph in all_graphs(model) for name in defined(graph)]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X, **inputs})


def test_a_fresh_name_is_in_no_graph_and_never_given_twice() -> None:
    model = parse_onnx(
        """g (float[N,3] x, bool c, float[N] unread) => (float[N,3] y) <float w = {2}> { [node] y = If(c) <
        then_branch = t () => (float[N,3] inner) { inner = Neg(x) },
        else_branch = e () => (float[N,3] inner) { inner = Abs(x) }> }"""
    )
    names = Names.of(model)
    for taken in ("x", "unread", "w", "y", "inner", "node"):
        assert names.fresh(taken) == f"{taken}_1"
        assert names.fresh(taken) == f"{taken}_2"
    assert [names.fresh("new"), names.fresh("new"), names.fresh("x_1")] == ["new", "new_1", "x_1_1"]


def test_what_a_writer_makes_is_of_one_graph() -> None:
    writer = NodeWriter(Names(["made", "sum"]))
    two = writer.constant(np.float32(2))
    assert writer.constant(np.float32(2)) == two == "made_1"
    assert writer.constant(np.float32(2), "two") == "two"
    total = writer.node("Add", "x", two, stem="sum")
    with writer.apart():
        assert writer.constant(np.float32(2)) != two
        writer.node("Neg", total, output="y")
        assert [node.op_type for node in writer.taken()] == ["Neg"]
    assert writer.outputs("Split", [total], ["left", "right"], axis=0) == ["left", "right"]
    assert [(node.op_type, *node.output) for node in writer.taken()] == [("Add", "sum_1"), ("Split", "left", "right")]
    assert writer.taken() == []
    assert [tensor.name for tensor in writer.initializers] == ["made_1", "two"]


def test_readers_are_renamed_in_graphs_within_but_not_those_of_their_own_tensors() -> None:
    model = parse_onnx(
        """g (float[N,3] x, bool c) => (float[N,3] y) { a = Neg(x) b = Abs(x) y = If(c) <
        then_branch = t () => (float[N,3] p) <float[3] a = {1, 2, 3}> { p = Add(x, a) },
        else_branch = e () => (float[N,3] a2) { a2 = Identity(a) }> }"""
    )
    rename_uses(model.graph, {"a": "b"})
    own, outside = subgraphs(model.graph.node)
    assert list(own.node[0].input) == ["x", "a"]
    assert list(outside.node[0].input) == ["b"]
    assert remove_unused(model) == ["Neg "]


def test_a_bypassed_node_is_read_by_nobody_and_an_output_keeps_its_name() -> None:
    model = parse_onnx("g (float[N,3] x) => (float[N,3] y) { a = Identity(x) b = Neg(a) y = Identity(b) }")
    assert bypass(model.graph, model.graph.node[0])
    assert list(model.graph.node[1].input) == ["x"]
    assert not bypass(model.graph, model.graph.node[2])


def test_a_model_without_functions_is_itself() -> None:
    model = parse_onnx("g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }")
    assert inlined(model) is model


def renamed(model: onnx.ModelProto, old: str, new: str) -> None:
    """Give a tensor of any graph another name."""
    for graph in all_graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = new if value.name == old else value.name
        for node in graph.node:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]


# A Conv whose result goes through an If; `taken` is a tensor in a branch, or one of the main graph.
PLACES = {
    "main": "m = MatMul(x, w) taken = Neg(m) y = Abs(taken)",
    "branch": """m = MatMul(x, w) y = If(c) <then_branch = t () => (float[N,3] p) { taken = Neg(m) p = Abs(taken) },
      else_branch = e () => (float[N,3] q) { q = Identity(m) }>""",
}


def model_with(taken: str, place: str) -> onnx.ModelProto:
    text = f"g (float[N,3] x, bool c) => (float[N,3] y) {{ {PLACES[place]} }}"
    model = parse_onnx(text, {"w": np.eye(3, dtype=np.float32)})
    renamed(model, "taken", taken)
    return model


def disturbed(model: onnx.ModelProto) -> onnx.ModelProto:
    return with_rounding(model, 2.0**-11, 3)


def ranged(model: onnx.ModelProto) -> onnx.ModelProto:
    return with_rounding(model, 2.0**-8, 3, ranged=True, held=TensorProto.FLOAT16)


def flagged(model: onnx.ModelProto) -> onnx.ModelProto:
    return with_flags(model, ["m"])


def names_made(edit: Callable[[onnx.ModelProto], onnx.ModelProto], place: str) -> list[str]:
    """Return the tensors that an edit makes in a model that has none of their names."""
    model = model_with("taken", place)
    before = {name for graph in all_graphs(model) for name in defined(graph)}
    return sorted({name for graph in all_graphs(edit(model)) for name in defined(graph)} - before)


@pytest.mark.parametrize("edit", [disturbed, ranged, flagged])
@pytest.mark.parametrize("place", PLACES)
def test_a_model_that_has_the_likeliest_name_already_is_edited(
    edit: Callable[[onnx.ModelProto], onnx.ModelProto], place: str
) -> None:
    for taken in names_made(edit, place)[::3]:
        if not taken.startswith("trtw__nan_flags") or "_of" in taken:
            found = run(edit(model_with(taken, place)), c=np.array(True))
            np.testing.assert_allclose(found[0], np.abs(X), rtol=0.1, atol=0.1)


def test_a_fenced_model_is_fenced_again() -> None:
    model = parse_onnx("g (float[N,3] x) => (float[N,3] y) { [a] m = Neg(x) [b] k = Abs(m) [c] y = Exp(k) }")
    once = dict(fences(model, ["a"]))["fence-place"]
    twice = dict(fences(once, ["b"]))["fence-place"]
    assert len({value.name for value in twice.graph.output}) == 3
    found = run(twice)
    np.testing.assert_allclose(found[0], np.exp(np.abs(X)), rtol=1e-6)


@pytest.mark.parametrize("taken", ["long_int32_range", "long_int32_range_0"])
def test_a_constant_that_a_rewrite_makes_has_no_name_of_a_branch(tmp_path: Path, taken: str) -> None:
    text = f"""g (float[N,3] x, bool c) => (float[N,3] y) {{ m = Slice(x, start, long, axis) y = If(c) <
      then_branch = t () => (float[N,3] p) {{ {taken} = Neg(m) p = Abs({taken}) }},
      else_branch = e () => (float[N,3] q) {{ q = Identity(m) }}> }}"""
    weights = {"start": np.array([0]), "long": np.array([2**63 - 1]), "axis": np.array([0])}
    model, report = sanitize(Model.open(write_onnx(tmp_path / "m.onnx", text, weights)), ["clamp-int64"])
    assert report.changes["clamp-int64"]
    np.testing.assert_array_equal(run(model, c=np.array(True))[0], np.abs(X))


def test_what_depends_on_a_loop_through_two_graphs_is_disturbed() -> None:
    """The sum is read by an If in an If alone; what these make goes into the next round's sum."""
    model = parse_onnx(
        """g (float[N,3] x, bool c) => (float[N,3] y) <int64 times = {3}, float[3] zero = {1, 1, 1}> {
        y, every = Loop(times, c, zero) <body = b (int64 round, bool go, float[3] sum)
          => (bool on, float[3] next, float[3] seen) {
            on = Identity(go)
            seen = If(go) <then_branch = t () => (float[3] p) {
                p = If(go) <then_branch = tt () => (float[3] q) { q = Exp(sum) },
                            else_branch = te () => (float[3] r) { r = Neg(sum) }> },
              else_branch = e () => (float[3] s) { s = Abs(sum) }>
            next = Add(seen, x) }> }"""
    )
    copy = with_rounding(model, 2.0**-8, 1)
    inner = [node.op_type for graph in all_graphs(copy) if graph.name == "tt" for node in graph.node]
    assert "RandomUniformLike" in inner


ORDERED = """g (float[2,3] x, bool c) => (float[2,3] y) {
    a = Abs(x)
    b = Neg(a)
    d = If (c) <
        then_branch = t () => (float[2,3] p) { o = Exp(b) p = Add(o, a) },
        else_branch = e () => (float[2,3] q) { q = Identity(a) }
    >
    y = Mul(d, b)
}"""


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_nodes_in_any_order_are_put_after_what_they_read(order: tuple[int, ...]) -> None:
    sorted_model = parse_onnx(ORDERED)
    model = parse_onnx(ORDERED)
    nodes = [model.graph.node[place] for place in order]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for graph in subgraphs(model.graph.node):
        inner = list(graph.node)[::-1]
        del graph.node[:]
        graph.node.extend(inner)
    moved = in_order(model)
    assert model == sorted_model
    assert moved
    assert in_order(model) == []


def test_nodes_in_a_circle_have_no_order() -> None:
    circle = parse_onnx("g (float[2] x) => (float[2] y) { y = Add(x, z) z = Neg(y) }")
    with refused(UsageProblem):
        in_order(circle)
