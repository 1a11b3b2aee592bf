"""Lengths of the tables that a model's inputs index."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from trt_workbench.model.facts import index_limits

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (int64[B, T] ids, int64[B] speaker) => (float y) '


def limits(body: str, **tables: tuple[int, ...]) -> dict[str, int]:
    graph = parser.parse_model(HEAD + "{" + body + "}").graph
    graph.initializer.extend(
        numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in tables.items()
    )
    return index_limits(graph)


@pytest.mark.parametrize(
    "between",
    [
        "rows = Identity(ids)",
        "a = Cast<to=6>(ids) rows = Cast<to=7>(a)",
        "a = Flatten(ids) rows = Transpose<perm=[1,0]>(a)",
        "at = Constant<value_int = 1>() rows = Gather<axis = 1>(ids, at)",  # a corner of a box
    ],
)
def test_indices_are_followed_through_what_moves_them(between: str) -> None:
    assert limits(f"{between} y = Gather(table, rows)", table=(50, 8)) == {"ids": 50}


def test_a_one_hot_row_is_as_long_as_its_depth_says() -> None:
    depth = "depth = Constant<value_int = 40>() two = Constant<value_floats = [0.0, 1.0]>()"
    assert limits(f"{depth} y = OneHot(ids, depth, two)") == {"ids": 40}
    assert limits(f"{depth} rows = Identity(ids) y = OneHot(rows, depth, two)") == {"ids": 40}
    assert limits(f"{depth} shown = Cast<to=7>(depth) y = OneHot(ids, shown, two)") == {}  # computed
    assert limits(f"{depth} y = OneHot(depth, ids, two)") == {}


def test_tables_that_are_nodes_or_declared_count() -> None:
    body = "table = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = Gather(table, ids)"
    assert limits(body) == {"ids": 3}
    graph = parser.parse_model(HEAD + "{ table = Relu(other) y = Gather(table, ids) }").graph
    graph.value_info.append(onnx.helper.make_tensor_value_info("table", onnx.TensorProto.FLOAT, [7, "D"]))
    assert index_limits(graph) == {"ids": 7}


@pytest.mark.parametrize(
    "body",
    [
        "y = Add(ids, ids)",
        "one = Constant<value_int = 1>() moved = Add(ids, one) y = Gather(table, moved)",  # an offset
        "at = Constant<value_int = 1>() y = Gather(ids, at)",  # they are the table
        "table2 = Relu(table) y = Gather(table2, ids)",  # of a length that nobody says
        "y = Gather<axis=5>(table, ids)",
        "y = Gather(ids)",  # no sound node, which others refuse
        "y = OneHot(ids)",
        " = Constant<value = float[1] {1.0}>() y = Identity(ids)",
        "y = me.Gather(table, ids)",
    ],
)
def test_nothing_is_said_of_what_is_not_known(body: str) -> None:
    assert limits(body, table=(50, 8)) == {}
