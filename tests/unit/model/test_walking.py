"""What graphs in graphs define, read and see."""

from dataclasses import dataclass, field

import onnx
from tests.onnx_text import parse_onnx

from trt_workbench.model.walking import (
    Scope,
    captured,
    defined,
    reads,
    subgraphs,
    use_counts,
)

# An If in an If: the inner one reads x and w of the main graph, m of the middle, and has a weight of its own.
NESTED = """g (float[N,3] x, bool c) => (float[N,3] y) <float w = {2}> {
  y = If(c) <
    then_branch = outer () => (float[N,3] p) {
      m = Neg(x)
      p = If(c) <
        then_branch = inner () => (float[N,3] q) <float v = {3}> { k = Mul(x, w) s = Mul(k, v) q = Add(s, m) },
        else_branch = plain () => (float[N,3] m2) { m2 = Identity(m) }>
    },
    else_branch = other () => (float[N,3] p) { p = Abs(x) }>
}"""


def nested() -> onnx.ModelProto:
    return parse_onnx(NESTED)


def test_what_is_read_through_two_graphs_is_read_and_what_they_define_is_not() -> None:
    model = nested()
    outer, inner = subgraphs(model.graph.node)[0], subgraphs(subgraphs(model.graph.node)[0].node)[0]
    assert defined(model.graph) == ["x", "c", "w", "y"]
    assert defined(inner) == ["v", "k", "s", "q"]
    assert list(captured(inner)) == ["x", "w", "m"]
    assert dict(captured(outer)) == {"x": 2, "c": 1, "w": 1}
    assert dict(reads(model.graph.node[0])) == {"c": 2, "x": 3, "w": 1}
    assert dict(use_counts(model.graph)) == {"c": 2, "x": 3, "w": 1, "y": 1}
    assert use_counts(outer)["m"] == 2


def test_a_name_that_a_graph_defines_hides_the_one_outside() -> None:
    model = parse_onnx(
        """g (float[N,3] x, bool c) => (float[N,3] y) { a = Neg(x) y = If(c) <
        then_branch = t () => (float[N,3] p) <float[3] a = {1, 2, 3}> { p = Add(x, a) },
        else_branch = e () => (float[N,3] p) { p = Identity(a) }> }"""
    )
    hiding, reading = subgraphs(model.graph.node)
    assert set(captured(hiding)) == {"x"}
    assert set(captured(reading)) == {"a"}
    assert use_counts(model.graph)["a"] == 1

    @dataclass
    class Known(Scope):
        kinds: dict[str, int] = field(default_factory=dict)
        versions: dict[str, dict[int, str]] = field(default_factory=dict)
        live: set[str] = field(default_factory=set)

    known = Known({"a": 1, "x": 1}, {"x": {1: "x"}}, {"a", "x"})
    inside = known.inside(hiding)
    assert inside == Known({"x": 1}, {"x": {1: "x"}}, {"x"})
    assert known.inside(reading) == known
    inside.kinds["p"] = 2
    inside.versions["x"][2] = "x_half"
    inside.live.add("p")
    assert known == Known({"a": 1, "x": 1}, {"x": {1: "x"}}, {"a", "x"})
