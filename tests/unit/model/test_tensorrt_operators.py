import dataclasses

import numpy as np
import onnx
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.model import tensorrt_operators
from trt_workbench.model.index import GraphIndex
from trt_workbench.model.tensorrt_operators import RESTRICTIONS, TYPES, OperatorUse, Restriction, why_not


def test_the_table_names_each_operator_once() -> None:
    assert len(TYPES) > 140
    assert {"Conv", "TopK", "GatherElements", "LayerNormalization"} <= TYPES.keys()
    assert not {"Unique", "QLinearConv", "Multinomial", "DFT", "Bernoulli", "CenterCropPad"} & TYPES.keys()
    assert {"Attention", "RMSNormalization", "STFT", "HannWindow", "TensorScatter"} <= TYPES.keys()


def test_every_restriction_is_of_an_operator_that_is_imported_and_says_its_release() -> None:
    for row in RESTRICTIONS:
        assert set(row.operators.split()) <= TYPES.keys()
        assert row.says.split(":")[0] in ("attribute", "shape", "dtype", "output", "input", "size")
        assert row.release in ("10.1", "10.15")


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (OperatorUse("Conv", ("float32",)), ""),
        (OperatorUse("Conv", (None,)), ""),
        (OperatorUse("Unique", ("float32",)), "operator"),
        (OperatorUse("com.microsoft::Gelu", ("float32",)), "operator"),
        (OperatorUse("MatMul", ("int64", "int64")), "dtype: int64"),
        (OperatorUse("And", ("bool", "bool")), ""),
        (OperatorUse("Where", ("bool", "float32", "float32")), ""),
        (OperatorUse("Unsqueeze", ("float32", "int64"), (False, False)), "shape: input 1"),
        (OperatorUse("Unsqueeze", ("float32", "int64"), (False, True)), ""),
        (OperatorUse("TopK", ("float32", "int64"), (False, True), {1: 8400}), "size: K must be below 3840, not 8400"),
        (OperatorUse("TopK", ("float32", "int64"), (False, True), {1: 300}), ""),
        (OperatorUse("MaxPool", ("float32",), rank=3), "shape: 2-D or 3-D"),
        (OperatorUse("MaxPool", ("float32",), rank=4, outputs=2), "output"),
        (OperatorUse("AveragePool", ("float32",), rank=4, attributes={"dilations": [2, 2]}), "attribute"),
        (OperatorUse("Resize", ("float32",), attributes={"mode": b"cubic"}), "attribute: mode cubic"),
        (OperatorUse("Resize", ("float32",), attributes={"mode": b"linear"}), ""),
        (OperatorUse("ScatterND", ("float32",), attributes={"reduction": b"add"}), "attribute"),
        (OperatorUse("LayerNormalization", ("float32",), outputs=3), "output"),
        (OperatorUse("Where", ("bool", "float32", "string")), "dtype: TensorRT has no strings"),
        (OperatorUse("Cast", ("float32",), attributes={"to": 8}), "dtype: TensorRT has no strings"),
        (OperatorUse("Cast", ("float32",), attributes={"to": 10}), ""),
    ],
)
def test_the_reason_names_operator_dtype_shape_or_size(use: OperatorUse, reason: str) -> None:
    found = why_not(use)
    assert found.startswith(reason) if reason else found == ""


W = {
    "zero": np.int8([0, 0, 0]),
    "off": np.int8([0, 0, 3]),
    "u": np.array(0, np.uint8),
    "one": np.float32([1, 1, 1]),
    "s": np.float32(1),
    "half": np.float32([1, 1, 0.5, 0.5]),
    "two": np.float32([0.5, 0.5]),
    "many": np.float32([2, 2, 0.5, 0.5]),
    "sizes": np.array([2, 2]),
    "on": np.array(True),
    "ratio": np.float32(0.5),
    "k": np.array([4000]),
    "codes": np.zeros((4, 3), np.int8),
    "ucodes": np.zeros((4, 3), np.uint8),
    "step": np.array(2),
}
LSTM = "h, c, d = LSTM<hidden_size = 2, {}>(x3, x3, x3)"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("y = QuantizeLinear<axis = 1>(x2, one, zero)", ""),
        ("y = QuantizeLinear<axis = 1>(x2, one, off)", "input: the zero point must be 0"),
        ("y = QuantizeLinear(x2, s, u)", "dtype: TensorRT quantises to int8"),
        ("y = QuantizeLinear<output_dtype = 4>(x2, s)", "dtype: TensorRT does not quantise to uint16"),
        ("y = DequantizeLinear<axis = 1>(codes, one, off)", "input: the zero point must be 0"),
        ("y = DequantizeLinear<axis = 1>(codes, one)", ""),
        ("y = DequantizeLinear(ucodes, s)", "dtype: uint8 is not among"),
        ('y = Resize<mode = "linear", antialias = 1>(x4, , half)', "attribute: antialias must be 0, not 1"),
        (
            'y = Resize<mode = "linear", axes = [2, 3], keep_aspect_ratio_policy = "not_larger">(x4, , , sizes)',
            "attribute: keep_aspect_ratio_policy must be stretch, not not_larger",
        ),
        ('y = Resize<mode = "linear", axes = [3, 2]>(x4, , two)', "attribute: axes must be in order"),
        ('y = Resize<mode = "linear", axes = [-2, -1]>(x4, , two)', ""),
        ('y = Resize<mode = "linear", axes = [-1, -2]>(x4, , two)', "attribute: axes must be in order"),
        ("two_ = Abs(two) y = Resize<axes = [2, 3]>(x4, , two_)", "attribute: axes must be in order, and complete"),
        ("h_ = Abs(half) y = Resize<axes = [0, 1, 2, 3]>(x4, , h_)", ""),
        ('y = Resize<mode = "linear">(x4, , half)', ""),
        ('y = Resize<mode = "linear">(x4, , many)', "input: linear scales of more than the last 3 dimensions"),
        (
            'y = Resize<coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "floor">(x4, , half)',
            "attribute: nearest_mode",
        ),
        ('y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x4, , half)', "attribute: coordinate_tr"),
        ("y = Dropout(x2, ratio, on)", "input: its training mode must be false"),
        ("t = Not(on) y = Dropout(x2, ratio, t)", "input: its training mode must be a constant"),
        ("y = Dropout(x2, ratio)", ""),
        ("y, m, v = BatchNormalization<training_mode = 1>(x4, one, one, one, one)", "attribute: training_mode"),
        ("y = BatchNormalization(x4, one, one, one, one)", ""),
        ("y = EyeLike(x2)", "shape: the input must have a fixed shape"),
        ("y = EyeLike(codes_f)", ""),
        ("y = EyeLike<dtype = 3>(codes_f)", "dtype: TensorRT does not make int8"),
        ("y = Cast<to = 3>(x2)", "dtype: TensorRT does not cast to int8"),
        ("y = Cast<to = 12>(x2)", "dtype: TensorRT does not cast to uint32"),
        ("y = Cast<to = 10>(x2)", ""),
        ("y, i = TopK(x2, k)", "size: K must be below 3840, not 4000"),
        ("y, i = TopK<sorted = 0>(x2, one_k)", "attribute: sorted must be 1"),
        ("c = Constant<value_ints = [4000]>() y, i = TopK(x2, c)", "size: K must be below 3840, not 4000"),
        ('y = Einsum<equation = "IJ->JI">(x2)', "attribute: the equation may contain only small letters, not I J"),
        ('y = Einsum<equation = "...i->...">(x2)', ""),
        ("y = LpNormalization<p = 1>(x2)", ""),
        ("y = LpPool<kernel_shape = [2, 2], p = 3>(x4)", "attribute: p must be 1 or 2, not 3"),
        ("y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2]>(x4)", "attribute: dilations must be 1"),
        (LSTM.format("layout = 1"), "attribute: layout must be 0"),
        (LSTM.format("input_forget = 1"), "attribute: input_forget must be 0"),
        (
            LSTM.format(
                'direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"]'
            ),
            "attribute: both directions need the same activations",
        ),
        (LSTM.format('direction = "bidirectional"'), ""),
        ("y = STFT(x3, step)", ""),
        ("v = Identity(step) w = Abs(v) y = STFT(x3, w)", "input: frame_step must be a constant"),
        ("y = RandomNormalLike<dtype = 11>(x2)", "dtype: TensorRT does not make float64"),
        ("y = HannWindow<output_datatype = 16>(step)", "dtype: TensorRT does not make bfloat16"),
        ("y = HannWindow(step)", ""),
        ("y = Bernoulli(x2)", "operator: TensorRT's parser does not import it"),
        ("y = SpaceToDepth<blocksize = 2>(x4)", ""),
        ("y = Attention(x3, x3, x3)", "shape: input 0 must be of rank 4, not 3"),
        ("y = Attention(x4, x4, x4)", ""),
        ("y = Attention<softcap = 1.0>(x4, x4, x4)", "attribute: softcap must be 0, not 1.0"),
        ("y = Attention(x4, x4, x4, , x4, x4)", "input: past keys and values"),
        ("y = TensorScatter<axis = 1>(x4, x4)", "attribute: axis must be -2, not 1"),
    ],
)
def test_conditions_on_attributes_inputs_and_types(node: str, reason: str) -> None:
    opset = 24 if "Attention" in node or "TensorScatter" in node or "output_dtype" in node else 20
    text = f"g (float[n,3] x2, float[1,4,3] x3, float[1,3,8,8] x4) => (float y) {{ {node} }}"
    more = {"codes_f": np.zeros((2, 2), np.float32), "one_k": np.array([1])}
    model = onnx.shape_inference.infer_shapes(parse_onnx(text, W | more, opset))
    index = GraphIndex(model)
    found = why_not(index.use(len(index.nodes) - 1))
    assert found.startswith(reason) if reason else found == "", found


@pytest.mark.parametrize("row", RESTRICTIONS, ids=lambda row: f"{row.operators}: {row.says}")
@pytest.mark.parametrize("words", [True, "3"])
def test_every_row_prints_its_release(row: Restriction, words: str | bool, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = dataclasses.replace(row, broken=lambda _: words)
    for name in row.operators.split():
        monkeypatch.setitem(tensorrt_operators._BY_OPERATOR, name, (broken,))  # type: ignore[call-overload]
        found = why_not(OperatorUse(name))
        assert found == f"{row.says}{' 3' if words == '3' else ''} (release {row.release})"


@pytest.mark.parametrize("name", [*TYPES, "Unique", "com.microsoft::Gelu"])
def test_every_reason_of_the_table_names_its_release(name: str) -> None:
    for kind in ("complex64", "string"):
        found = why_not(OperatorUse(name, (kind,) * 4, (False,) * 4))
        assert found.startswith(("operator", "dtype"))
        assert found.endswith(" (release 10.15)")
    kind = next(iter(TYPES.get(name, {"float32"})))
    computed = why_not(OperatorUse(name, (kind,) * 4, (False,) * 4))
    assert not computed or computed.endswith((" (release 10.15)", " (release 10.1)"))
