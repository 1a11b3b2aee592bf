import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.model.shape_nodes import data_shaped_outputs


def found(nodes: str, *outputs: str) -> set[str]:
    """Which of `outputs` depend on the data, for inputs `x` (float), `i` (int64) and `b` (bool)."""
    made = ", ".join(f"float[] {name}" for name in outputs)
    graph = f"g (float[] x, int64[] i, bool[] b) => ({made}) <int64[1] one = {{1}}> {{ {nodes} }}"
    return set(data_shaped_outputs(parse_onnx(graph).graph))


SHAPE = "s = Shape(x) t = Concat<axis = 0>(s, one)"
UNIQUE = "u = Unique(x)"


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Relu(x)",
        f"{SHAPE} y = Reshape(x, t)",
        f"{SHAPE} z = ConstantOfShape(t) y = Where(b, z, x)",
        "y = ReduceSum(x, one)",
        'y = Slice(x, one, one, "", one)',
        "a, y = Split(x)",
        "a = ArgMax(x) y = Gather(x, a)",
        "y = com.microsoft.FusedMatMul(x, x)",
    ],
)
def test_shapes_that_follow_from_shapes(nodes: str) -> None:
    assert found(nodes, "y") == set()


@pytest.mark.parametrize(
    "nodes",
    [
        "y = NonZero(x)",
        f"{UNIQUE} y = Relu(u)",
        f"{UNIQUE} s = Shape(u) y = Expand(one, s)",
        "y = Compress(x, b)",
        "y = Reshape(x, i)",
        "y = Slice(x, one, i)",
        "y, k = TopK(x, i)",
        "y = Pad(x, i)",
        "y = Range(one, i, one)",
        "y = ReduceMean(x, i)",
        "y = NotAnOperator(x)",
        "y = com.microsoft.RemovePadding(x, i)",
        "q = SplitToSequence(x) y = SequenceAt(q, one)",
        "y = Relu(a) a = Relu(x)",  # before the node that it reads
    ],
)
def test_shapes_that_may_depend_on_the_data(nodes: str) -> None:
    assert found(nodes, "y") == {"y"}


def test_control_flow_is_not_followed() -> None:
    branch = "() => (float[] r) { r = Relu(x) }"
    choose = f"y = If (b) <then_branch = t {branch}, else_branch = e {branch}>"
    assert found(f"{choose} z = Relu(x)", "y", "z") == {"y"}


def test_each_output_is_judged_by_itself() -> None:
    assert found(f"{UNIQUE} y = Relu(x)", "u", "y") == {"u"}
