"""Ifs that are always decided the same way, with ONNX Runtime as the judge; and why the others stay."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.in_onnxruntime import run
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.rewrites import SanitizeSettings
from trt_workbench.model.sanitize.sanitize import SanitizeReport, default_rewrites, sanitize
from trt_workbench.model.weights import save_model

YES, NO = {"c": np.array(True)}, {"c": np.array(False)}
PLAIN = "then_branch = a () => (float[N,3] p) { p = Neg(x) }, else_branch = b () => (float[N,3] q) { q = Abs(x) }"


SIZES = "sizes that are not fixed (N); --dim NAME=VALUE fixes one"


def text(nodes: str, inputs: str = "float[N,3] x", outputs: str = "float[N,3] y") -> str:
    return f"g ({inputs}) => ({outputs}) {{ {nodes} }}"


def check(
    path: Path, *rewrites: str, dims: dict[str, int] | None = None, **inputs: Any
) -> tuple[onnx.GraphProto, SanitizeReport]:
    """Sanitise and compare both models in ONNX Runtime, exactly."""
    model, report = sanitize(Model.open(path), rewrites or ("inline-if",), SanitizeSettings(dims=dims or {}))
    onnx.checker.check_model(model, full_check=True)
    after = path.with_name("after.onnx")
    save_model(model, after)
    x = np.random.default_rng(0).standard_normal(((dims or {}).get("N", 2), 3)).astype(np.float32)
    for want, got in zip(run(path, {"x": x, **inputs}), run(after, {"x": x, **inputs}), strict=True):
        np.testing.assert_array_equal(got, want)
    return model.graph, report


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


@pytest.mark.parametrize(("condition", "taken", "operator"), [(YES, "then_branch", "Neg"), (NO, "else_branch", "Abs")])
def test_the_branch_that_is_taken_stands_in_place_of_the_if(
    condition: dict[str, Any], taken: str, operator: str, tmp_path: Path
) -> None:
    path = write_onnx(tmp_path / "m.onnx", text(f"[i] y = If(c) <{PLAIN}>"), condition)
    graph, report = check(path)
    assert operators(graph) == [operator]
    assert report.changes["inline-if"] == [f"If i takes {taken}, nodes: 1"]
    assert report.findings == []


def test_it_is_among_the_rewrites_that_run_by_default() -> None:
    assert "inline-if" in default_rewrites()


def test_a_condition_that_folding_makes_constant(tmp_path: Path) -> None:
    """The rank of a tensor, as exporters ask for it, in a model whose batch stays free."""
    nodes = f"s = Shape(x) rank = Size(s) c = Greater(rank, one) y = If(c) <{PLAIN}>"
    path = write_onnx(tmp_path / "m.onnx", text(nodes), {"one": np.int64(1)})
    graph, _ = check(path, *default_rewrites())
    assert operators(graph) == ["Neg"]
    assert operators(check(path)[0])[-1] == "If"  # alone, the rewrite does not know shapes
    nodes = f"three = Add(one, two) c = Equal(three, two) y = If(c) <{PLAIN}>"
    path = write_onnx(tmp_path / "m.onnx", text(nodes), {"one": np.int64(1), "two": np.int64(2)})
    assert operators(check(path)[0]) == ["Add", "Equal", "Abs"]


def test_names_of_the_branch_that_the_graph_has_too(tmp_path: Path) -> None:
    """Of tensors, of initialisers, of nodes, and of a graph beside it."""
    branch = """a () => (float[N,3] p) <float w = {2.0}> { [n] t = Mul(x, w) p = Add(t, k) },
      else_branch = b () => (float[N,3] p) { p = Identity(x) }"""
    other = """z = If(d) <then_branch = f () => (float[N,3] t) { t = Neg(x) },
      else_branch = h () => (float[N,3] w) { w = Abs(x) }>"""
    nodes = f"u = If(c) <then_branch = {branch}> {other} [n] p = Sub(u, z) v = Neg(p) y = Add(v, k)"
    path = write_onnx(tmp_path / "m.onnx", text(nodes, "float[N,3] x, bool d"), {"k": np.float32(3), **YES})
    graph, _ = check(path, d=np.array(True))
    assert operators(graph) == ["Mul", "Add", "If", "Sub", "Neg", "Add"]
    assert len({node.name for node in graph.node if node.name}) == 2
    made = [name for node in graph.node for name in node.output]
    assert len(set(made)) == len(made)


def test_results_that_the_branch_does_not_compute(tmp_path: Path) -> None:
    """An initialiser of the branch, whose name another graph has too."""
    nodes = """y, z = If(c) <
      then_branch = a () => (float[N,3] p, float[1] w) <float[1] w = {2.0}> { p = Neg(x) },
      else_branch = b () => (float[N,3] q, float[1] w1) <float[1] w1 = {3.0}> { q = Abs(x) }>"""
    path = write_onnx(tmp_path / "m.onnx", text(nodes, outputs="float[N,3] y, float[1] z"), NO)
    graph, _ = check(path)
    assert [(node.op_type, node.input[0], node.output[0]) for node in graph.node] == [
        ("Abs", "x", "y"),
        ("Identity", "w1", "z"),
    ]


def test_one_tensor_as_two_results_and_a_result_that_nobody_asked_for(tmp_path: Path) -> None:
    """ONNX Runtime refuses the one and crashes at the other; without the If it runs both."""
    nodes = """y, z, "" = If(c) <then_branch = a () => (float[N,3] p, float[N,3] p, float[N,3] r) {
        p = Neg(x) r = Abs(x) }, else_branch = b () => (float[N,3] q, float[N,3] q, float[N,3] r) {
        q = Exp(x) r = Abs(x) }>"""
    path = write_onnx(tmp_path / "m.onnx", text(nodes, outputs="float[N,3] y, float[N,3] z"), YES)
    model, _ = sanitize(Model.open(path), ["inline-if"])
    save_model(model, tmp_path / "after.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    for found in run(tmp_path / "after.onnx", {"x": x}):
        np.testing.assert_array_equal(found, -x)


def test_a_name_of_a_result_that_graphs_within_the_branch_have_too(tmp_path: Path) -> None:
    """The If's own result is not seen in its branches; the name that is free for a tensor is not that of a graph's."""
    nodes = """t = Abs(x) y = If(c) <
      then_branch = a () => (float[N,3] p) {
        u = Neg(t) p = If(d) <
          then_branch = a1 () => (float[N,3] r) { y = Exp(u) u_0 = Add(y, u) r = Mul(u_0, t) },
          else_branch = b1 () => (float[N,3] s) { s = Identity(u) }> },
      else_branch = b () => (float[N,3] q) { q = Identity(x) }> u = Neg(y) z = Exp(u)"""
    declared = "float[N,3] x, bool d"
    path = write_onnx(tmp_path / "m.onnx", text(nodes, declared, "float[N,3] y, float[N,3] z"), YES)
    for d in (True, False):
        graph, _ = check(path, d=np.array(d))
    assert operators(graph) == ["Abs", "Neg", "If", "Neg", "Exp"]


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_ifs_within_branches(outer: bool, inner: bool, tmp_path: Path) -> None:
    """The inner one's condition is computed in the branch, and its branches read tensors of both graphs around them."""
    nodes = """u = Neg(x) y = If(c) <
      then_branch = a () => (float[N,3] p) {
        t = Exp(u) d = Not(e) p = If(d) <
          then_branch = a1 () => (float[N,3] r) { q = Add(t, u) r = Mul(q, x) },
          else_branch = b1 () => (float[N,3] s) { q = Sub(t, u) s = Mul(q, x) }> },
      else_branch = b () => (float[N,3] p2) { t = Abs(u) p2 = Sqrt(t) }>"""
    path = write_onnx(tmp_path / "m.onnx", text(nodes), {"c": np.array(outer), "e": np.array(not inner)})
    graph, report = check(path)
    assert operators(graph)[-2:] == ["Add" if inner else "Sub", "Mul"] if outer else ["Abs", "Sqrt"]
    assert len(report.changes["inline-if"]) == 1 + outer


def test_an_if_in_what_stays(tmp_path: Path) -> None:
    """In a loop, and in a branch of an If that is decided while it runs."""
    nodes = """u = Loop(four, yes, x) <body = b (int64 i, bool go, float[N,3] a) => (bool on, float[N,3] e) {
        on = Identity(go) e = If(c) <then_branch = t () => (float[N,3] r) { w = Mul(a, half) r = Sub(w, x) },
          else_branch = f () => (float[N,3] s) { s = Neg(a) }> }>
      [j] y = If(d) <then_branch = t1 () => (float[N,3] r) { [k] r = If(c) <then_branch = t2 () => (float[N,3] w)
          { w = Neg(u) }, else_branch = f2 () => (float[N,3] w2) { w2 = Abs(u) }> },
        else_branch = f1 () => (float[N,3] z) { z = Identity(u) }>"""
    given = {"four": np.int64(4), "yes": np.array(True), "half": np.float32(0.5)}
    for condition in (YES, NO):
        path = write_onnx(tmp_path / "m.onnx", text(nodes, "float[N,3] x, bool d"), {**given, **condition})
        for d in (True, False):
            graph, report = check(path, d=np.array(d))
        assert operators(graph) == ["Loop", "If"]
        inner = [node.op_type for node in graph.node[0].attribute[0].g.node]
        assert inner == (["Identity", "Mul", "Sub"] if condition is YES else ["Identity", "Neg"])
        assert len(report.changes["inline-if"]) == 2
        held(*report.findings)


def test_many_ifs_each_of_which_hides_the_shape_from_the_next(tmp_path: Path) -> None:
    """As exporters write every Squeeze of a dimension that may be one: a round of folding for each."""
    count = 12
    nodes = "".join(
        f"""s{i} = Shape(t{i}) n{i} = Size(s{i}) c{i} = Equal(n{i}, two) t{i + 1} = If(c{i}) <
          then_branch = a{i} () => (float[N,3] p{i}) {{ p{i} = Neg(t{i}) }},
          else_branch = b{i} () => (float[] q{i}) {{ q{i} = Squeeze(t{i}) }}> """
        for i in range(count)
    )
    path = write_onnx(tmp_path / "m.onnx", text(f"t0 = Abs(x) {nodes} y = Neg(t{count})"), {"two": np.int64(2)})
    graph, report = check(path, *default_rewrites())
    assert "If" not in operators(graph)
    assert len(report.changes["inline-if"]) == count


@pytest.mark.parametrize(
    ("nodes", "inputs"),
    [
        ("s = Shape(x) n = Gather(s, zero) c = Equal(n, one)", "float[N,3] x"),
        ("n = Size(x) m = Abs(n) c = Equal(m, one)", "float[N,3] x"),
        ("m = ReduceMax<keepdims = 0>(x) c = Cast<to = 9>(m)", "float[N,3] x"),
        ("c = Identity(d)", "float[N,3] x, bool d"),
    ],
)  # fmt: skip
def test_an_if_that_stays_says_on_what_it_depends(nodes: str, inputs: str, tmp_path: Path) -> None:
    constants = {"zero": np.int64(0), "one": np.int64(1)}
    path = write_onnx(tmp_path / "m.onnx", text(f"{nodes} [i] y = If(c) <{PLAIN}>", inputs), constants)
    more = {"d": np.array(True)} if "bool d" in inputs else {}
    graph, report = check(path, *default_rewrites(), **more)
    assert "If" in operators(graph)
    held(*report.findings)


def test_a_size_that_is_fixed_decides_it(tmp_path: Path) -> None:
    nodes = f"s = Shape(x) n = Gather(s, zero) c = Equal(n, one) y = If(c) <{PLAIN}>"
    path = write_onnx(tmp_path / "m.onnx", text(nodes), {"zero": np.int64(0), "one": np.int64(1)})
    for batch, operator in ((1, "Neg"), (2, "Abs")):
        assert operators(check(path, *default_rewrites(), dims={"N": batch})[0]) == [operator]


def test_an_if_in_a_loop_that_depends_on_the_round(tmp_path: Path) -> None:
    nodes = """y = Loop(four, yes, x) <body = b (int64 i, bool go, float[N,3] a) => (bool on, float[N,3] e) {
        on = Identity(go) c = Cast<to = 9>(i) [k] e = If(c) <then_branch = t () => (float[N,3] r) { r = Neg(a) },
          else_branch = f () => (float[N,3] s) { s = Exp(a) }> }>"""
    path = write_onnx(tmp_path / "m.onnx", text(nodes), {"four": np.int64(4), "yes": np.array(True)})
    _, report = check(path)
    held(*report.findings)


def test_an_if_whose_rewrite_is_left_out(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", text(f"[i] y = If(c) <{PLAIN}>"), YES)
    _, report = check(path, "remove-unused")
    held(*report.findings)


def test_a_condition_that_an_input_may_replace_is_none(tmp_path: Path) -> None:
    """An initialiser that is an input too is its default."""
    path = write_onnx(tmp_path / "m.onnx", text(f"y = If(c) <{PLAIN}>", "float[N,3] x, bool c"), YES)
    assert operators(check(path, c=np.array(False))[0]) == ["If"]


def test_results_of_an_if_that_stays_get_two_names(tmp_path: Path) -> None:
    """TensorRT asks for it. The other branch may read what is named so outside of it."""
    nodes = """[i] y = If(d) <then_branch = a () => (float[N,3] p) { p = Neg(x) },
      else_branch = b () => (float[N,3] p) { p = Abs(x) }>"""
    path = write_onnx(tmp_path / "m.onnx", text(nodes, "float[N,3] x, bool d"))
    graph, report = check(path, d=np.array(False))
    assert report.changes["inline-if"] == ["If i: p of else_branch is now p_1"]
    assert [attribute.g.output[0].name for attribute in graph.node[0].attribute] == ["p", "p_1"]
