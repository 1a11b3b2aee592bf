"""fp16 simulated in ONNX Runtime: its values and its infinities are those of PyTorch in fp16, whatever is fused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.half_models import HALF, half_input, half_model
from tests.in_onnxruntime import run
from tests.onnx_text import parse_onnx

from trt_workbench.model.low_precision.simulate import simulated

# What one rounding may be off by, some dozens of times.
CLOSE = 2.0**-11 * 20


def fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    made = simulated(model, ("fp16", "bf16"))
    onnx.checker.check_model(made, full_check=True)
    return made


def assert_alike(found: np.ndarray, expected: np.ndarray) -> None:
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(found), finite)
    size = max(float(np.linalg.norm(expected[finite].astype(np.float64))), 1e-9)
    assert np.linalg.norm(found[finite].astype(np.float64) - expected[finite]) / size < CLOSE


@pytest.mark.parametrize("seed", range(60))
def test_random_models_are_as_in_pytorch(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("torch")
    from trt_workbench.backends.torch.backend import TorchBackend

    model = half_model(seed)
    onnx.save(model, tmp_path / "m.onnx")
    x = half_input(seed)
    (found,) = run(fp16(model), {"x": x})
    (plain,) = run(fp16(model), {"x": x}, "ORT_DISABLE_ALL")
    assert_alike(found, plain)
    if any(node.op_type == "Loop" for node in model.graph.node):
        return  # which PyTorch has no counterpart of
    assert_alike(found, TorchBackend().load(tmp_path / "m.onnx").run({"x": x})["y"])


def test_the_random_models_overflow() -> None:
    """Else the test above would show little."""
    outputs = [run(fp16(half_model(seed)), {"x": half_input(seed)})[0] for seed in range(40)]
    assert sum(not np.isfinite(output).all() for output in outputs) > 4


# Whose steps leave the range of fp16, or go below it, though their result does not.
ONE_NODE = {
    "Gemm, alpha": ("2,8", "y = Gemm <alpha = 0.001> (x, w)"),
    "Gemm, alpha and beta": ("2,8", "y = Gemm <alpha = 0.001, beta = 90.0> (x, w, b)"),
    "Gemm of a column": ("2,8", "y = Gemm <alpha = 0.001, transB = 1> (x, w, one)"),
    "ReduceL2": ("2,1", "y = ReduceL2 <axes = [1]> (x)"),
    "ReduceLogSum": ("2,1", "y = ReduceLogSum <axes = [1]> (large)"),
    "ReduceSumSquare": ("2,1", "y = ReduceSumSquare <axes = [1]> (small)"),
    "ReduceProd": ("1,1", "y = ReduceProd <axes = [0, 1]> (several)"),
    "Sum": ("2,8", "y = Sum (large, large, less)"),
    "Mean": ("2,8", "y = Mean (large, large, large)"),
    "CumSum": ("2,2", "y = CumSum <exclusive = 1> (two, axis)"),
    "LpNormalization": ("2,8", "y = LpNormalization (x)"),
    "LRN": ("1,2,3,3", "y = LRN <size = 3, alpha = 1.0> (image)"),
    "AveragePool": ("1,2,3,3", 'y = AveragePool <kernel_shape = [2, 2], auto_pad = "SAME_UPPER"> (image)'),
    "QuantizeLinear": ("2,8", "q = QuantizeLinear (large, step, zero) y = DequantizeLinear (q, step, zero)"),
}


@pytest.mark.parametrize("operator", ONE_NODE)
def test_a_node_of_several_steps_rounds_once(operator: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trt_workbench.backends.torch.backend import TorchBackend

    draw = np.random.default_rng(0)
    values = {
        "w": draw.standard_normal((8, 8)) * 300,
        "b": draw.standard_normal(8) * 200,
        "one": draw.standard_normal((2, 1)) + 9,
        "large": draw.uniform(3e4, 5e4, (2, 8)),
        "less": np.full((2, 8), -5e4),
        "small": draw.standard_normal((2, 8)) * 3e-4,
        "several": [[6e4, 6e4], [1e-5, 1e-3]],
        "two": [[6e4, 6e3], [6e4, 9e3]],
        "image": draw.uniform(3e4, 6e4, (1, 2, 3, 3)),
        "step": 200,
    }
    weights = {name: np.asarray(value, np.float16) for name, value in values.items()}
    weights |= {"axis": np.array(1), "zero": np.array(0, np.uint16)}
    shape, nodes = ONE_NODE[operator]
    opset = 21 if "zero" in nodes else 17
    model = parse_onnx(f"g (float16[2,8] x) => (float16[{shape}] y) {{ {nodes} }}", weights, opset)
    onnx.save(model, tmp_path / "m.onnx")
    x = (draw.standard_normal((2, 8)) * 300).astype(np.float16)
    (found,) = run(fp16(model), {"x": x})
    assert np.isfinite(found).all()
    assert np.any(found)
    assert_alike(found, TorchBackend().load(tmp_path / "m.onnx").run({"x": x})["y"])


def test_inputs_and_outputs_keep_their_types() -> None:
    text = """g (float16[N,2] x, float16[N,2] same) => (float16[N,2] same, float16[2] w, float16[N,2] y, float[N,2] z) {
      y = Mul(x, w) wide = Cast<to = 1>(y) z = Relu(wide)
    }"""
    model = parse_onnx(text, {"w": np.float16([300, 2])})
    made = fp16(model)
    assert [one.type for one in made.graph.output] == [one.type for one in model.graph.output]
    x = np.float16([[300, 0.1]])
    same, w, y, z = run(made, {"x": x, "same": x})
    assert (same.dtype, w.dtype, y.dtype, z.dtype) == (np.float16, np.float16, np.float16, np.float32)
    np.testing.assert_array_equal(w, np.float16([300, 2]))
    np.testing.assert_array_equal(y, [[np.inf, np.float16(0.1) * 2]])
    np.testing.assert_array_equal(z, y.astype(np.float32))


def test_sequences_and_sizes_and_random_draws() -> None:
    text = """g (float16[4,2] x) => (float16[2,2] y, int64[2] shape, float16[3] filled, float16[2] drawn) {
      parts = SplitToSequence<axis = 0>(x, two) one = SequenceAt(parts, zero) y = Mul(one, one) shape = Shape(one)
      filled = ConstantOfShape<value = float16[1] {1}>(three) drawn = RandomUniform<dtype = 10, shape = [2]>()
    }"""
    model = parse_onnx(text, {"two": np.array(2), "zero": np.array(0), "three": np.array([3])})
    y, shape, filled, drawn = run(fp16(model), {"x": np.full((4, 2), 300, np.float16)})
    assert np.isinf(y).all()
    assert (list(shape), filled.dtype, drawn.dtype) == ([2, 2], np.float16, np.float16)


def test_a_model_of_both_halves() -> None:
    text = f"""g (float[N] x) => (float[N] y) {{
      b = Cast<to = {TensorProto.BFLOAT16}>(x) c = Mul(b, b) d = Cast<to = {HALF}>(c) e = Mul(d, d) y = Cast<to = 1>(e)
    }}"""
    (y,) = run(fp16(parse_onnx(text, opset=22)), {"x": np.float32([1.01, 15.9, 16.1])})
    import ml_dtypes

    b = np.float32([1.01, 15.9, 16.1]).astype(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        d = (b * b).astype(np.float32).astype(np.float16)
        np.testing.assert_array_equal(y, (d * d).astype(np.float32))


@pytest.mark.parametrize("opset", [17, 20])
def test_nan_is_found_among_larger_values(opset: int) -> None:
    axes = "<axes = [3], keepdims = 0>(x)" if opset == 17 else "<keepdims = 0>(x, three)"
    text = f"""g (float16[1,2,4,4] x) => (float16[1,2,4] a, float16[1,2,4] b, float16[1,2,1,1] c, float16[1,2,2,2] d) {{
      a = ReduceMax{axes} b = ReduceMin{axes} c = GlobalMaxPool(x)
      d = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    }}"""
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float16)
    model = parse_onnx(text, {"three": np.array([3])} if opset == 20 else {}, opset)
    plain = run(fp16(model), {"x": x})
    x[0, 1, 2, 1] = np.nan
    found = run(fp16(model), {"x": x})
    expected = x.max(3), x.min(3), x.max((2, 3), keepdims=True), x.reshape(1, 2, 2, 2, 2, 2).max((3, 5))
    for one, want, other in zip(found, expected, plain, strict=True):
        np.testing.assert_array_equal(one, want)
        assert np.isnan(one).sum() == 1
        assert np.isfinite(other).all()


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
def test_recurrent_layers_round_every_step(kind: str, direction: str, *, full: bool) -> None:
    """As ONNX Runtime's own kernel, which sums up in fp32, up to rounding; NaN stays in its row."""
    gates, directions, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (direction == "bidirectional"), 5
    draw = np.random.default_rng(3)
    weights = {"W": (directions, gates * hidden, 3), "R": (directions, gates * hidden, hidden)}
    if full:
        weights |= {"B": (directions, 2 * gates * hidden), "h": (directions, 2, hidden), "c": (directions, 2, hidden)}
    given = f"x, W, R, B, , h{', c' * (kind == 'LSTM')}" if full else "x, W, R"
    more = f", linear_before_reset = {int(full)}" if kind == "GRU" else ""
    cell = (", cell", f", float16[{directions},2,{hidden}] cell") if kind == "LSTM" else ("", "")
    shape = f"float16[{directions},2,{hidden}]"
    text = f"""g (float16[T,2,3] x) => (float16[T,{directions},2,{hidden}] y, {shape} last{cell[1]}) {{
      y, last{cell[0]} = {kind}<hidden_size = {hidden}, direction = "{direction}"{more}>({given})
    }}"""
    model = parse_onnx(
        text, {name: (draw.normal(size=shape) / 2).astype(np.float16) for name, shape in weights.items()}
    )
    made = fp16(model)
    assert kind not in {node.op_type for node in made.graph.node}
    x = draw.normal(size=(7, 2, 3)).astype(np.float16)
    differ = False
    for found, expected in zip(run(made, {"x": x}), run(model, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, atol=5e-3)
        differ |= not np.array_equal(found, expected)
    assert differ
    x[3, 1] = np.nan
    y = run(made, {"x": x})[0]
    assert np.isnan(y[3, :, 1]).all()
    assert np.isfinite(y[:, :, 0]).all()


@pytest.mark.parametrize("names", ["h c2 kept", "update fh every", "reset step given"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_loop_has_no_name_that_the_model_has(kind: str, names: str) -> None:
    rng, gates = np.random.default_rng(0), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    source, made, last = names.split()
    model = fp16(
        parse_onnx(
            f"g (float16[steps,2,4] {source}, float16[2,{5 * gates},4] W, float16[2,{5 * gates},5] R) => "
            f"(float16[steps,2,2,5] {made}, float16[2,2,5] {last}) "
            f'{{ {made}, {last} = {kind}<hidden_size = 5, direction = "bidirectional">({source}, W, R) }}'
        )
    )
    assert kind not in {node.op_type for node in model.graph.node}
    shapes = {source: (3, 2, 4), "W": (2, 5 * gates, 4), "R": (2, 5 * gates, 5)}
    run(model, {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()})


def test_a_cell_beyond_the_range_is_infinite_in_every_later_step() -> None:
    text = """g (float16[T,1,1] x) => (float16[T,1,1,1] y) {
      y = RNN<hidden_size = 1, activations = ["Relu"]>(x, W, R)
    }"""
    model = parse_onnx(text, {"W": np.ones((1, 1, 1), np.float16), "R": np.full((1, 1, 1), 20, np.float16)})
    x = np.zeros((6, 1, 1), np.float16)
    x[0] = 30
    (y,) = run(fp16(model), {"x": x})
    np.testing.assert_array_equal(y.reshape(-1), [30, 600, 12000, np.inf, np.inf, np.inf])
