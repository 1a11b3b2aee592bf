import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.onnxtools.data_shapes import data_shaped_outputs

Node = onnx.NodeProto
make = helper.make_node


def found(nodes: list[Node], *outputs: str, **constants: object) -> set[str]:
    """Which of `outputs` depend on the data, for inputs `x` (float), `i` (int64) and `b` (bool)."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, None), value("i", TensorProto.INT64, None), value("b", TensorProto.BOOL, None)],
        [value(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return set(data_shaped_outputs(graph))


SHAPE = [make("Shape", ["x"], ["s"]), make("Concat", ["s", "one"], ["t"], axis=0)]
UNIQUE = [make("Unique", ["x"], ["u"])]


@pytest.mark.parametrize(
    "nodes",
    [
        [make("Relu", ["x"], ["y"])],
        [*SHAPE, make("Reshape", ["x", "t"], ["y"])],
        [*SHAPE, make("ConstantOfShape", ["t"], ["z"]), make("Where", ["b", "z", "x"], ["y"])],
        [make("ReduceSum", ["x", "one"], ["y"])],
        [make("Slice", ["x", "one", "one", "", "one"], ["y"])],
        [make("Split", ["x"], ["a", "y"])],
        [make("ArgMax", ["x"], ["a"]), make("Gather", ["x", "a"], ["y"])],
        [make("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft")],
    ],
)
def test_shapes_that_follow_from_shapes(nodes: list[Node]) -> None:
    assert found(nodes, "y", one=np.array([1])) == set()


@pytest.mark.parametrize(
    "nodes",
    [
        [make("NonZero", ["x"], ["y"])],
        [*UNIQUE, make("Relu", ["u"], ["y"])],
        [*UNIQUE, make("Shape", ["u"], ["s"]), make("Expand", ["one", "s"], ["y"])],
        [make("Compress", ["x", "b"], ["y"])],
        [make("Reshape", ["x", "i"], ["y"])],
        [make("Slice", ["x", "one", "i"], ["y"])],
        [make("TopK", ["x", "i"], ["y", "k"])],
        [make("Pad", ["x", "i"], ["y"])],
        [make("Range", ["one", "i", "one"], ["y"])],
        [make("ReduceMean", ["x", "i"], ["y"])],
        [make("NotAnOperator", ["x"], ["y"])],
        [make("RemovePadding", ["x", "i"], ["y"], domain="com.microsoft")],
        [make("SplitToSequence", ["x"], ["q"]), make("SequenceAt", ["q", "one"], ["y"])],
        # before the node that it reads
        [make("Relu", ["a"], ["y"]), make("Relu", ["x"], ["a"])],
    ],
)
def test_shapes_that_may_depend_on_the_data(nodes: list[Node]) -> None:
    assert found(nodes, "y", one=np.array([1])) == {"y"}


def test_control_flow_is_not_followed() -> None:
    value = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    branch = helper.make_graph([make("Relu", ["x"], ["r"])], "branch", [], [value])
    choose = make("If", ["b"], ["y"], then_branch=branch, else_branch=branch)
    assert found([choose, make("Relu", ["x"], ["z"])], "y", "z") == {"y"}


def test_each_output_is_judged_by_itself() -> None:
    assert found([*UNIQUE, make("Relu", ["x"], ["y"])], "u", "y") == {"u"}
