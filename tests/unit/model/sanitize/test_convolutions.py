"""Convolutions over one dimension written over two, with ONNX Runtime as the judge."""

import numpy as np
import onnx
import pytest
from tests.in_onnxruntime import run
from tests.onnx_text import parse_onnx

from trt_workbench.model.sanitize.convolutions import conv_2d
from trt_workbench.model.sanitize.sanitize import default_rewrites
from trt_workbench.model.walking import all_nodes

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 4, 11), np.float32)
WEIGHTS = {
    "w": RANDOM.standard_normal((6, 4, 3), np.float32),
    "grouped": RANDOM.standard_normal((6, 2, 3), np.float32),
    "of_each": RANDOM.standard_normal((4, 1, 3), np.float32),
    "same": RANDOM.standard_normal((4, 4, 3), np.float32),
    "b": RANDOM.standard_normal(6, np.float32),
    "image": RANDOM.standard_normal((6, 4, 3, 3), np.float32),
    "square": RANDOM.standard_normal((2, 4, 5, 5), np.float32),
    "seven": np.array(7, np.float32),
}


def check(nodes: str, changes: int, version: int = 17, w: str = "") -> onnx.ModelProto:
    """Rewrite a graph of x, and of weights w where their type is given; it has to say the same, and to be finished."""
    fed = {"w": WEIGHTS["w"]} if w else {}
    text = f"g (float[N,4,T] x{f', {w} w' if w else ''}) => (float[a,b,c] y) {{ {nodes} }}"
    model = parse_onnx(text, {name: value for name, value in WEIGHTS.items() if name not in fed}, version)
    before = run(model, {"x": X, **fed})[0]
    found = conv_2d(model)
    assert len(found) == changes, found
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_allclose(run(model, {"x": X, **fed})[0], before, rtol=1e-5, atol=1e-6 * np.abs(before).max())
    assert conv_2d(model) == []
    return model


def operators(model: onnx.ModelProto) -> list[str]:
    """Return the operators, those in subgraphs included."""
    return [node.op_type for node in all_nodes(model)]


@pytest.mark.parametrize("version", [11, 12, 13, 17, 18, 22])
@pytest.mark.parametrize("bias", ["", ", b"])
@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "<kernel_shape=[3]>",
        "<strides=[2], pads=[2,0]>",
        "<kernel_shape=[3], dilations=[3], pads=[1,4], strides=[2]>",
        '<auto_pad="SAME_UPPER", strides=[2]>',
        '<auto_pad="SAME_LOWER", kernel_shape=[3], strides=[3]>',
        '<auto_pad="VALID", dilations=[2]>',
    ],
)
def test_attributes(attributes: str, bias: str, version: int) -> None:
    model = check(f"y = Conv{attributes}(x, w{bias})", 1, version)
    assert operators(model) == ["Unsqueeze", "Conv", "Squeeze"]
    assert [list(one.dims) for one in model.graph.initializer if one.name == "w"] == [[6, 4, 1, 3]]
    assert bool(model.graph.node[0].attribute) == (version < 13)  # where axes are


def test_groups() -> None:
    check("y = Conv<group=2, dilations=[2]>(x, grouped)", 1)
    check("y = Conv<group=4, pads=[1,1]>(x, of_each)", 1)


def test_weights_that_others_read_keep_their_shape() -> None:
    model = check("z = Conv<pads=[1,1]>(x, same) t = Mul(same, seven) s = Conv<pads=[1,1]>(z, same) y = Conv(s, t)", 3)
    assert operators(model).count("Unsqueeze") == 3 + 2  # of two weights, one of them twice
    assert [list(one.dims) for one in model.graph.initializer if one.name == "same"] == [[4, 4, 3]]


def test_weights_that_convolutions_alone_share() -> None:
    model = check("z = Conv<pads=[1,1]>(x, same) y = Conv(z, same)", 2)
    assert operators(model) == ["Unsqueeze", "Conv", "Squeeze"] * 2


def test_weights_that_are_inputs_or_computed() -> None:
    check("y = Conv(x, w)", 1, w="float[6,4,3]")
    check("y = Conv<kernel_shape=[3]>(x, w)", 1, w="float[M,C,K]")
    check("n = Neg(w) y = Conv(x, n)", 1)


def test_an_input_with_a_default_keeps_its_shape() -> None:
    model = parse_onnx("g (float[2,4,11] x, float[6,4,3] w) => (float[a,b,c] y) { y = Conv(x, w) }", WEIGHTS)
    before = run(model, {"x": X})
    conv_2d(model)
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_allclose(run(model, {"x": X})[0], before[0], atol=1e-5)


def test_in_a_branch_with_weights_from_around_it() -> None:
    model = check(
        "m = ReduceMax<keepdims=0>(x) yes = Greater(seven, m)"
        " y = If (yes) <then_branch = p () => (float[a,b,c] r) { r = Conv(x, w) },"
        " else_branch = q () => (float[a,b,c] s) { n = Neg(x) s = Conv(n, w, b) }>",
        2,
    )
    assert [list(one.dims) for one in model.graph.initializer if one.name == "w"] == [[6, 4, 3]]


def test_what_is_over_two_dimensions_stays() -> None:
    model = check("z = Conv<pads=[1,1,1,1]>(square, image) f = Constant<value_ints=[2,6,25]>() y = Reshape(z, f)", 0)
    assert operators(model) == ["Conv", "Constant", "Reshape"]


def test_it_is_asked_for_by_its_name() -> None:
    assert "conv-2d" not in default_rewrites()
