from pathlib import Path

import onnx
from hypothesis import given
from hypothesis import strategies as st
from tests.onnx_text import parse_onnx, write_onnx

from trt_workbench.model.index import GraphIndex
from trt_workbench.model.opened import Model
from trt_workbench.model.partitions import make_partitions

A, B = "A", "B"


def chain(edges: list[tuple[str, str]], count: int) -> GraphIndex:
    """A graph of `count` nodes n0, n1, … with an edge per pair; a node without one reads the input."""
    sources: dict[str, list[str]] = {f"n{place}": [] for place in range(count)}
    for start, end in edges:
        sources[end].append(start)
    nodes = " ".join(
        f"[{name}] {name}_out = Sum({', '.join(f'{s}_out' for s in up) or 'x'})" for name, up in sources.items()
    )
    model = parse_onnx(f"g (float[2,3] x) => (float[] n{count - 1}_out) {{ {nodes} }}")
    return GraphIndex(onnx.shape_inference.infer_shapes(model))


def test_neighbours_join_and_borders_are_named() -> None:
    index = chain([("n0", "n1"), ("n1", "n2"), ("n2", "n3")], 4)
    found = make_partitions(index, A, [A, A, B, A], ["", "", "why", ""], basis="test")
    assert [(part.provider, part.nodes) for part in found.subgraphs] == [(A, 2), (B, 1), (A, 1)]
    assert found.subgraphs[0].inputs == ({"name": "x", "dtype": "float32", "shape": [2, 3], "size_bytes": 24},)
    assert [border["name"] for border in found.subgraphs[0].outputs] == ["n1_out"]
    assert [border["name"] for border in found.subgraphs[1].inputs] == ["n1_out"]
    assert [border["name"] for border in found.subgraphs[2].outputs] == ["n3_out"]
    document = found.document()
    assert document["nodes_by_provider"] == {A: 3, B: 1}
    assert [node["reason"] for node in document["fallen_out"]] == ["why"]


def test_a_subgraph_never_depends_on_itself_through_another() -> None:
    # n0 feeds n2 directly and by way of n1, which is elsewhere: n0 and n2 cannot be one engine
    index = chain([("n0", "n1"), ("n1", "n2"), ("n0", "n2")], 3)
    found = make_partitions(index, A, [A, B, A], ["", "x", ""], basis="test")
    assert len(found.subgraphs) == 3


def test_groups_that_the_runtime_reports_are_kept() -> None:
    index = chain([("n0", "n1"), ("n1", "n2")], 3)
    found = make_partitions(index, A, [A, A, A], [""] * 3, basis="test", groups=[7, 7, 8])
    assert [part.nodes for part in found.subgraphs] == [2, 1]


@given(st.data())
def test_subgraphs_form_no_cycle(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 12))
    pairs = [(f"n{a}", f"n{b}") for a in range(count) for b in range(a + 1, count)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20))
    providers = data.draw(st.lists(st.sampled_from([A, B]), min_size=count, max_size=count))
    index = chain(edges, count)
    found = make_partitions(index, A, providers, [""] * count, basis="test")
    label = {node.name: node.subgraph for node in found.nodes}
    assert sum(part.nodes for part in found.subgraphs) == count
    after: dict[int, set[int]] = {}
    for start, end in edges:
        if label[start] != label[end]:
            after.setdefault(label[start], set()).add(label[end])
    done: set[int] = set()

    def visit(part: int, path: frozenset[int]) -> None:
        assert part not in path, "two subgraphs wait for one another"
        if part not in done:
            for follower in after.get(part, ()):
                visit(follower, path | {part})
            done.add(part)

    for part in range(len(found.subgraphs)):
        visit(part, frozenset())


def test_nodes_without_a_name_get_one_and_constants_are_no_nodes(tmp_path: Path) -> None:
    nodes = "c = Constant<value_floats=[1.0, 2.0, 3.0]>() a = Add(x, c) [same] y = Relu(a) [same] z = Relu(y)"
    write_onnx(tmp_path / "m.onnx", f"g (float[n,3] x) => (float[n,3] z) {{ {nodes} }}")
    index = Model.open(tmp_path / "m.onnx").index
    assert [node.name for node in index.nodes] == ["Add_1", "same", "same_3"]
    assert index.renamed
    assert index.facts("a").shape == ("n", 3)
    assert index.facts("a").size_bytes is None
    assert index.constants == {"c"}
