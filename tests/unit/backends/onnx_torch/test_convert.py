"""Conversions that the published cases do not show, against ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

torch = pytest.importorskip("torch")
convert = pytest.importorskip("trt_workbench.backends.torch.onnx_torch.convert").convert


def compare(
    path: Path,
    nodes: str,
    x: np.ndarray,
    constants: dict[str, Any] | None = None,
    *,
    shape: str | None = None,
    opset: int = 17,
    output: str = "float",
) -> Any:
    """Convert a graph from x to y and compare both runtimes on `x`, whose shape is the input's unless it is given."""
    dims = shape or ",".join(map(str, x.shape))
    write_onnx(path, f"g (float[{dims}] x) => ({output}[] y) {{ {nodes} }}", constants, opset)
    (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    converted = convert(Model.open(path))
    with torch.inference_mode():
        (result,) = converted.module(torch.from_numpy(x))
    assert result.numpy().dtype == expected.dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
    return converted


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization(tmp_path: Path, axis: int) -> None:
    x = noise(2, 3, 4)
    scale = {"s": noise(*x.shape[axis:]), "b": noise(*x.shape[axis:])}
    nodes = f"y,, = LayerNormalization<axis = {axis}, epsilon = 0.001>(x, s, b)"
    compare(tmp_path / "m.onnx", nodes, x, scale)


def test_an_output_without_counterpart_is_refused_where_it_is_used(tmp_path: Path) -> None:
    nodes = "n, mean = LayerNormalization(x, s) y = Add(n, mean)"
    with refused(UsageProblem):
        compare(tmp_path / "m.onnx", nodes, noise(2, 4), {"s": noise(4)})


def test_an_error_while_running_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path / "m.onnx", "g (float[N, M] x, float[N, K] y) => (float[N, M] z) { z = Add(x, y) }")
    module = convert(Model.open(tmp_path / "m.onnx")).module
    with pytest.raises(RuntimeError, match="must match"):
        module(torch.zeros(1, 3), torch.zeros(1, 5))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(tmp_path: Path, mode: str) -> None:
    scales = {"s": np.array([1, 1, 2, 3], np.float32)}
    compare(tmp_path / "m.onnx", f'y = Upsample<mode = "{mode}">(x, s)', noise(1, 2, 3, 3), scales, opset=9)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_flattens(tmp_path: Path, axis: int) -> None:
    compare(tmp_path / "m.onnx", f"y = Softmax<axis = {axis}>(x)", noise(2, 3, 4), opset=11)


def test_slice_and_pad_by_attributes(tmp_path: Path) -> None:
    nodes = "cut = Slice<starts = [0, 1], ends = [2, 2147483647], axes = [0, 1]>(x)"
    nodes += " y = Pad<pads = [0, 1, 2, 0], value = 3.0>(cut)"
    compare(tmp_path / "m.onnx", nodes, noise(3, 4), opset=9)


def test_shapes_are_computed_without_a_tensor(tmp_path: Path) -> None:
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "first": np.array([0]),
        "half": np.array([2]),
        "rest": np.array([-1]),
    }
    nodes = f"""shape = Shape(x) rows = Gather(shape, zero) columns = Gather(shape, one)
      count = Mul(rows, columns) vector = Unsqueeze(count, first) halves = Div(vector, half)
      target = Concat<axis = 0>(halves, rest) folded = Reshape(x, target)
      numbers = Range(zero, count, one) floats = Cast<to = {TensorProto.FLOAT}>(numbers)
      places = Reshape(floats, target) y = Add(folded, places)"""
    converted = compare(tmp_path / "m.onnx", nodes, noise(4, 6), constants, shape="rows,columns")
    assert converted.host_reads == []
    with torch.inference_mode():
        assert converted.module(torch.zeros(2, 5))[0].shape == (5, 2)


def test_a_shape_that_depends_on_data_is_read_and_recorded(tmp_path: Path) -> None:
    nodes = """[find] found = NonZero(x) [last] last = ReduceMax<keepdims = 0>(found)
      size = Unsqueeze(last, first) [fill] y = ConstantOfShape(size)"""
    x = np.array([0, 1, 0, 1, 0], np.float32)
    converted = compare(tmp_path / "m.onnx", nodes, x, {"first": np.array([0])}, shape="n")
    assert converted.host_reads == ["ConstantOfShape fill"]


@pytest.mark.parametrize("reverse", [0, 1])
def test_top_k_of_equal_values_keeps_their_order(tmp_path: Path, reverse: int) -> None:
    x = np.array([[1, 3, 3, 1, 3, 0]], np.float32)
    nodes = f"values, y = TopK<largest = {1 - reverse}>(x, k)"
    compare(tmp_path / "m.onnx", nodes, x, {"k": np.array([4])}, output="int64")


def test_an_expansion_as_exporters_write_it_reads_no_tensor(tmp_path: Path) -> None:
    # expand to (rows, -1): ones of the target's length, times -1, where the target is -1 a 1 is put
    constants = {"zero": np.int64(0), "first": np.array([0]), "keep": np.array([-1]), "minus": np.array(-1)}
    nodes = """shape = Shape(x) rows = Gather(shape, zero) row_dim = Unsqueeze(rows, first)
      joined = Concat<axis = 0>(row_dim, keep) target = Reshape(joined, keep) length = Shape(target)
      ones = ConstantOfShape<value: tensor = int64[1] {1}>(length) negative = Mul(ones, minus)
      open = Equal(target, negative) sizes = Where(open, ones, target) row = Slice(x, first, one)
      y = Expand(row, sizes)"""
    constants["one"] = np.array([1])
    converted = compare(tmp_path / "m.onnx", nodes, noise(3, 4), constants, shape="rows,4")
    assert converted.host_reads == []


@pytest.mark.parametrize("inputs", ["", "x", 'x, ""'])
def test_a_node_without_its_inputs_is_refused(inputs: str, tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", f"g (float[2] x) => (float[2] y) {{ [sum] y = Add({inputs}) }}")
    with refused(UsageProblem):
        convert(Model.open(path))


def test_an_output_without_a_name_is_refused(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Abs(x) }")
    model = onnx.load(path)
    model.graph.output[1].name = ""
    onnx.save(model, path)
    with refused(UsageProblem):
        convert(Model.open(path))


def test_functions_of_the_model_s_own_are_spelled_out(tmp_path: Path) -> None:
    """One calls the other, from a branch, too."""
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[N,3] x, bool c) => (float[N,3] y) {
        t = own.twice(x) y = If(c) <then_branch = a () => (float[N,3] p) { p = own.swish(t) },
        else_branch = b () => (float[N,3] q) { q = Neg(t) }> }
      <domain: "own", opset_import: ["" : 17]> swish (a) => (b) { s = Sigmoid(a) b = Mul(a, s) }
      <domain: "own", opset_import: ["" : 17, "own" : 1]> twice (a) => (b) { s = own.swish(a) b = Add(s, s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    session, x = ort.InferenceSession(tmp_path / "m.onnx"), noise(2, 3)
    module = convert(Model.open(tmp_path / "m.onnx")).module
    for c in (True, False):
        (expected,) = session.run(None, {"x": x, "c": np.array(c)})
        np.testing.assert_allclose(module(torch.from_numpy(x), torch.tensor(c))[0].numpy(), expected, rtol=1e-5)


TRUTHS = [
    "n = Gather(s, zero) c = Equal(n, one) y = Where(c, x, five)",
    "n = Gather(s, zero) c = Equal(n, one) d = Not(c) y = Where(d, x, five)",
    "c = Greater(s, two) d = Cast<to = 1>(c) y = Mul(x, d)",
    "n = Gather(s, zero) a = GreaterOrEqual(n, two) b = Less(n, two) c = And(a, b) y = Where(c, x, five)",
    "n = Gather(s, zero) a = GreaterOrEqual(n, two) b = LessOrEqual(n, two) c = Or(a, b) y = Where(c, x, five)",
    "c = Equal(s, two) d = Gather(c, zero) e = Unsqueeze(d, first) f = Concat<axis = 0>(e, c) "
    "g = Slice(f, first, start) h = Squeeze(g) y = Where(h, x, five)",
    "c = Equal(s, two) e = Cast<to = 7>(c) p = Cast<to = 1>(e) y = Add(x, p)",
]


@pytest.mark.parametrize("nodes", TRUTHS)
def test_truths_about_shapes_select_tensors(nodes: str, tmp_path: Path) -> None:
    constants = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "five": np.float32(5)}
    constants |= {"first": np.array([0]), "start": np.array([1])}
    for rows in (1, 2, 3):
        read = {name: value for name, value in constants.items() if f"{name}" in nodes}
        converted = compare(tmp_path / "m.onnx", f"s = Shape(x) {nodes}", noise(rows, 2), read, shape="N,2")
        assert converted.host_reads == []


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it compiles
@pytest.mark.parametrize(
    "nodes",
    [
        "m = Mul(n, four) d = Div(m, two)",
        "m = Sub(zero, n) d = Div(m, two)",
        "c = Equal(n, four) t = Cast<to = 7>(c) d = Add(t, n)",
        "c = Greater(n, two) d = Where(c, n, four)",
        "a = Less(n, two) b = GreaterOrEqual(n, four) c = Or(a, b) e = Not(c) d = Where(e, n, four)",
    ],
)
def test_arithmetic_of_sizes_is_compiled_for_sizes_that_are_not_fixed(nodes: str, tmp_path: Path) -> None:
    """From the second size of the batch on, PyTorch computes with symbols."""
    constants = {name: np.int64(value) for name, value in (("zero", 0), ("two", 2), ("four", 4))}
    text = f"s = Shape(x) n = Gather(s, zero) {nodes} f = Cast<to = 1>(d) y = Mul(x, f)"
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,2] x) => (float[N,2] y) {{ {text} }}", constants)
    module = convert(Model.open(path)).module
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for batch in (1, 2, 3, 4, 8):
        x = torch.ones(batch, 2)
        torch.testing.assert_close(compiled(x)[0], module(x)[0])


@pytest.mark.filterwarnings("ignore")
def test_a_quotient_of_a_size_is_compiled_behind_a_tensor_that_is_read(tmp_path: Path) -> None:
    """There the size is a number that may be negative, as far as PyTorch knows."""
    constants = {"zero": np.int64(0), "two": np.int64(2), "four": np.int64(4), "first": np.array([0])}
    text = """s = Shape(x) n = Gather(s, zero) m = Mul(n, four) top = ReduceMax<keepdims = 0>(x) i = Cast<to = 7>(top)
      v = Unsqueeze(i, first) [read] e = ConstantOfShape(v) d = Div(m, two) f = Cast<to = 1>(d) p = Mul(x, f)
      y = Add(p, e)"""
    path = write_onnx(tmp_path / "m.onnx", f"g (float[N,2] x) => (float[N,2] y) {{ {text} }}", constants)
    converted = convert(Model.open(path))
    assert converted.host_reads == ["ConstantOfShape read"]
    torch._dynamo.reset()
    compiled = torch.compile(converted.module, backend="eager")
    for batch in (1, 2, 3, 4, 8):
        x = torch.ones(batch, 2)
        torch.testing.assert_close(compiled(x)[0], converted.module(x)[0])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("precision", [torch.float32, torch.float16, torch.bfloat16])
def test_a_model_of_any_type_in_any_precision(kind: int, precision: Any, tmp_path: Path) -> None:
    document = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) '
        f"{{ h = Cast <to = {kind}> (x) a = Mul (h, w) y = Cast <to = 1> (a) }}"
    )
    document.graph.initializer.append(onnx.helper.make_tensor("w", kind, [4], [1, -2, 0.5, -np.inf]))
    onnx.save(document, tmp_path / "m.onnx")
    (found,) = convert(Model.open(tmp_path / "m.onnx"), precision).module(torch.tensor([1.0, 2, 3, 4]))
    assert found.tolist() == [1, -4, 1.5, -np.inf]


@pytest.mark.parametrize(
    "attribute",
    [
        helper.make_attribute("axes=open({place!r}, 'w'), keepdims", [0]),  # source that torch.fx would run
        helper.make_attribute("lambda", 1),
        helper.make_attribute("", [1, 2, 3]),
        helper.make_attribute("keepdims", helper.make_tensor("t", TensorProto.FLOAT, [1], [0.0])),
        helper.make_attribute("noop", 1),
    ],
    ids=["source", "keyword", "empty", "tensor", "unknown"],
)
@pytest.mark.parametrize("is_branch", [False, True], ids=["graph", "branch"])
def test_an_attribute_that_the_operator_does_not_have_is_refused(
    attribute: onnx.AttributeProto, is_branch: bool, tmp_path: Path
) -> None:
    node = helper.make_node("ReduceMean", ["x"], ["y"])
    node.attribute.add().CopyFrom(attribute)
    node.attribute[0].name = attribute.name.replace("{place!r}", repr(str(tmp_path / "ran")))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    nodes, inputs = [node], [x]
    if is_branch:
        body = helper.make_graph([node], "b", [], [y])
        nodes = [helper.make_node("If", ["ask"], ["y"], then_branch=body, else_branch=body)]
        inputs.append(helper.make_tensor_value_info("ask", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "g", inputs, [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    with pytest.raises(UsageProblem, match="has no attribute"):
        convert(Model.open(tmp_path / "m.onnx")).module(torch.ones(2, 3), torch.tensor(data=True))
    assert not (tmp_path / "ran").exists()


def test_no_name_or_text_of_a_model_is_source(tmp_path: Path) -> None:
    """Names of tensors, nodes, graphs and dimensions, and texts of attributes: torch.fx runs what it writes."""
    places = iter(range(100))

    def name() -> str:
        return f"a'), open({str(tmp_path / str(next(places)))!r}, 'w'), ('b"

    x, w, p, y, dim, ask = (name() for _ in range(6))
    pads = helper.make_tensor(w, TensorProto.INT64, [4], [0, 0, 0, 1])
    node = helper.make_node("Pad", [x, w], [p], name=name(), mode="edge", doc_string=name())
    floats = helper.make_tensor_value_info(p, TensorProto.FLOAT, None)
    branch = helper.make_graph([node], name(), [], [floats], [pads])
    chosen = helper.make_node("If", [ask], [y], name=name(), then_branch=branch, else_branch=branch)
    inputs = [
        helper.make_tensor_value_info(x, TensorProto.FLOAT, [dim, 3]),
        helper.make_tensor_value_info(ask, TensorProto.BOOL, []),
    ]
    graph = helper.make_graph([chosen], name(), inputs, [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    with torch.inference_mode():
        (found,) = convert(Model.open(tmp_path / "m.onnx")).module(torch.ones(2, 3), torch.tensor(data=True))
    assert found.shape == (2, 4)
    assert [one.name for one in tmp_path.iterdir()] == ["m.onnx"]
