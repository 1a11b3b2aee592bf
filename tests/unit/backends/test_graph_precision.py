"""fp16 graphs for runtimes that compute what the graph says, beside those of ONNX Runtime's own converter."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel
from tests.onnx_text import write_onnx
from tests.random_models import write_model
from tests.texts import refused

from trt_workbench.backends.graph_precision import model_in_precision
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

_KINDS = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_, "tensor(int32)": np.int32}
_TEXT = "g (float[2,8] x) => (float[2,8] y) { a = MatMul(x, w) b = Softmax(a) y = MatMul(b, w) }"


@pytest.fixture(autouse=True, scope="module")
def _workspace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        yield


def fp16(path: Path, **more: Any) -> tuple[Path, dict[str, Any]]:
    made, record = model_in_precision("ort-cuda", Model.open(path), "fp16", **more)
    return made.path, record


def outputs(model: onnx.ModelProto, optimised: Path | None = None) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    if optimised:
        options.optimized_model_filepath = str(optimised)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    feeds = {}
    for spec in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 4 for dim in spec.shape]
        feeds[spec.name] = (generator.standard_normal(shape) * 2).astype(_KINDS[spec.type])
    found: list[np.ndarray] = session.run(None, feeds)
    return found


def distance(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Of the values: the places of two that are as good as equal may change."""
    both = zip(found, expected, strict=True)
    pairs = [(one.astype("f8"), other.astype("f8")) for one, other in both if other.dtype.kind == "f"]
    return max(float(np.linalg.norm(one - other) / (np.linalg.norm(other) or 1)) for one, other in pairs)


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_it_is_no_further_off_than_what_onnx_runtime_makes(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("random") / "m.onnx"
    write_model(seed, path)
    expected = outputs(onnx.load(path))
    theirs = convert_float_to_float16(onnx.load(path), keep_io_types=True)
    OnnxModel.graph_topological_sort(theirs.graph)
    made, record = fp16(path)
    assert record["precision"] == "fp16"
    assert distance(outputs(onnx.load(made)), expected) <= 1.5 * distance(outputs(theirs), expected) + 3e-3


_NORMS = {
    "LayerNormalization": """
        m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<axes=[-1]>(p)
        e = Add(v, eps) s = Sqrt(e) n = Div(d, s) t = Mul(n, scale) z = Add(t, bias)""",
    "SimplifiedLayerNormalization": """
        p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) s = Sqrt(e) n = Div(x, s) z = Mul(n, scale)""",
}


@pytest.mark.parametrize("operator", _NORMS)
def test_a_normalisation_is_still_fused_by_the_runtime(tmp_path: Path, operator: str) -> None:
    ones = np.ones(8, np.float32)
    weights = {
        "two": np.float32(2),
        "eps": np.float32(1e-5),
        "scale": 2 * ones,
        "bias": ones,
        "w": np.eye(8, dtype="f4"),
    }
    # a product first, so that the normalisation reads fp16
    text = f"g (float[2,8] i) => (float[2,8] y) {{ x = MatMul(i, w) {_NORMS[operator]} y = MatMul(z, w) }}"
    used = {name: np.asarray(value) for name, value in weights.items() if f"{name})" in text or f"{name}," in text}
    path = write_onnx(tmp_path / "m.onnx", text, used)
    made, record = fp16(path)
    outputs(onnx.load(made), tmp_path / "optimised.onnx")
    assert operator in {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
    assert {"Pow", "ReduceMean", "Div"} <= set(record["kept_in_fp32"])


_RUNTIMES = {
    "com.microsoft.Gelu(a)": [],
    "com.microsoft.FastGelu(a, gamma)": [],
    "com.microsoft.SkipLayerNormalization(a, x, gamma)": [],
    "com.microsoft.FusedMatMul(a, w)": [],
    "SimplifiedLayerNormalization<axis=-1>(a, gamma)": [],
    "com.microsoft.QuickGelu(a)": [],
    # not known to take fp16: it stays as it was, and what is behind it does not
    "com.microsoft.Inverse(a)": ["Inverse"],
}


@pytest.mark.parametrize("call", _RUNTIMES)
def test_operators_of_the_runtimes_own(tmp_path: Path, call: str) -> None:
    """ONNX infers no types behind them."""
    text = f"g (float[2,8,8] x) => (float[2,8,8] y) {{ a = MatMul(x, w) b = {call} c = Relu(b) y = MatMul(c, w) }}"
    weights = {"w": np.eye(8, dtype=np.float32) + np.float32(0.1), "gamma": np.ones(8, np.float32)}
    used = {name: value for name, value in weights.items() if name in text}
    path = tmp_path / "m.onnx"
    document = onnx.load(write_onnx(path, text.replace("com.microsoft.", ""), used))
    node = document.graph.node[1]
    node.domain = "com.microsoft" if "com.microsoft" in call else ""
    document.opset_import.add(domain="com.microsoft", version=1)
    onnx.save(document, path)
    made, record = fp16(path)
    assert record["kept_in_fp32"] == _RUNTIMES[call]
    found = onnx.load(made)
    assert distance(outputs(found), outputs(onnx.load(path))) < 5e-3
    assert not {tensor.data_type for tensor in found.graph.initializer} - {onnx.TensorProto.FLOAT16}


def test_operators_that_are_to_stay_and_what_has_no_kernel(tmp_path: Path) -> None:
    text = _TEXT.replace("Softmax(a)", "Softmax(a) c = Max(b, a)").replace("MatMul(b", "MatMul(c")
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    assert fp16(path)[1]["kept_in_fp32"] == ["Max"]
    made, record = fp16(path, keep_fp32=("Softmax",))
    assert record["kept_in_fp32"] == ["Max", "Softmax"]
    assert made != fp16(path)[0]


def test_what_computes_in_fp16_is_taken_as_it_is(tmp_path: Path) -> None:
    """A second conversion of a graph that leaves some of itself in fp32 by choice would undo that."""
    path = write_onnx(tmp_path / "m.onnx", _TEXT, {"w": np.eye(8, dtype=np.float32)})
    partly, _ = fp16(path, keep_fp32=("Softmax",))
    assert fp16(partly) == (partly, {"precision": "as exported", "exported_in": "fp16"})


def test_weights_that_are_only_stored_in_fp16_do_not_make_a_model_fp16(tmp_path: Path) -> None:
    text = "g (float[2,8] x) => (float[2,8] y) { v = Cast<to=1>(w) y = MatMul(x, v) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float16)})
    made, record = fp16(path)
    assert record["precision"] == "fp16"
    np.testing.assert_allclose(outputs(onnx.load(made))[0], outputs(onnx.load(path))[0], rtol=2e-3)


def test_what_cannot_be_converted_is_said_with_the_file(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "whole.onnx", "g (int64[2] x) => (int64[2] y) { y = Add(x, x) }")
    with refused(UsageProblem):
        fp16(path)
