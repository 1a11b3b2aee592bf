"""If, against ONNX Runtime: constant, decided by sizes, and decided by data."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

torch = pytest.importorskip("torch")
convert = pytest.importorskip("trt_workbench.backends.torch.onnx_torch.convert").convert

CONSTANTS = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "w": np.full(3, 0.5, np.float32)}
PLAIN = "then_branch = a () => (float[N,3] p) { p = Mul(x, w) }, else_branch = b () => (float[N,3] q) { q = Abs(x) }"
SIZE = "s = Shape(x) n = Gather(s, zero)"


def graph(nodes: str, inputs: str = "float[N,3] x", outputs: str = "float[M,K] y") -> str:
    return f"g ({inputs}) => ({outputs}) {{ {nodes} }}"


def check(path: Path, text: str, **more: Any) -> Any:
    """Convert and compare with ONNX Runtime at batches of 1 to 3."""
    write_onnx(path, text, CONSTANTS)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    converted = convert(Model.open(path))
    for batch in (1, 2, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
        given = {"x": x, **more}
        with torch.inference_mode():
            found = converted.module(*(torch.from_numpy(np.asarray(array)) for array in given.values()))
        for want, got in zip(session.run(None, given), found, strict=True):
            assert got.numpy().dtype == want.dtype
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    return converted


def kinds(converted: Any) -> set[str]:
    return {node.op for node in converted.module.graph.nodes}


@pytest.mark.parametrize("condition", ["s = Shape(x) n = Size(s) c = Greater(n, one)", "c = Equal(one, two)"])
def test_an_if_that_is_always_decided_the_same_way_is_gone(condition: str, tmp_path: Path) -> None:
    converted = check(tmp_path / "m.onnx", graph(f"{condition} y = If(c) <{PLAIN}>"))
    assert "call_module" not in kinds(converted)


@pytest.mark.parametrize("operator", ["Equal", "Less", "GreaterOrEqual"])
def test_an_if_that_sizes_decide_reads_no_tensor(operator: str, tmp_path: Path) -> None:
    converted = check(tmp_path / "m.onnx", graph(f"{SIZE} c = {operator}(n, two) y = If(c) <{PLAIN}>"))
    assert "call_module" in kinds(converted)
    assert converted.host_reads == []
    assert {"Mul", "Abs", "If"} <= converted.operators


def test_sizes_stay_on_the_host_through_it(tmp_path: Path) -> None:
    nodes = f"""{SIZE} c = Equal(n, two) t, k = If(c) <
      then_branch = a () => (int64[L] p, int64 p1) <int64[1] flat = {{-1}}> {{ p = Identity(flat) p1 = Add(n, one) }},
      else_branch = b () => (int64[L] q, int64 q1) {{ q = Identity(s) q1 = Mul(n, two) }}>
      r = Reshape(x, t) m = Cast<to = 1>(k) y = Mul(r, m)"""
    converted = check(tmp_path / "m.onnx", graph(nodes, outputs="float[] y"))
    assert converted.host_reads == []


def test_an_if_that_data_decide_is_read_and_recorded(tmp_path: Path) -> None:
    nodes = f"m = ReduceMax<keepdims = 0>(x) c = Greater(m, limit) [choose] y = If(c) <{PLAIN}>"
    text = graph(nodes, "float[N,3] x, float limit")
    for limit in (-1e9, 1e9):
        assert check(tmp_path / "m.onnx", text, limit=np.array(limit, np.float32)).host_reads == ["If choose"]


def test_a_condition_in_a_vector_of_one(tmp_path: Path) -> None:
    text = graph(f"y = If(c) <{PLAIN}>", "float[N,3] x, bool[1] c")
    for holds in (True, False):
        check(tmp_path / "m.onnx", text, c=np.array([holds]))


def test_ifs_within_branches_read_all_graphs_around_them(tmp_path: Path) -> None:
    nodes = f"""{SIZE} c = Equal(n, two) d = Equal(n, one) u = Neg(x) y = If(c) <
      then_branch = a () => (float[N,3] p) <float half = {{0.5}}> {{ t = Mul(u, half) p = Exp(t) }},
      else_branch = b () => (float[N,3] q) {{ t = Add(u, w) q = If(d) <
        then_branch = a1 () => (float[N,3] r) {{ r = Mul(t, u) }},
        else_branch = b1 () => (float[N,3] r1) {{ k = Neg(t) r1 = Sub(k, x) }}> }}>"""
    converted = check(tmp_path / "m.onnx", graph(nodes))
    assert converted.host_reads == []


def test_what_lies_in_a_branch_is_looked_through_for_operators(tmp_path: Path) -> None:
    nodes = """y = If(c) <then_branch = a () => (int64[K,3] p) { [keep] p = NonMaxSuppression(u, v) },
      else_branch = b () => (int64[K,3] q) { q = NonMaxSuppression(v, u) }>"""
    path = tmp_path / "m.onnx"
    write_onnx(path, graph(nodes, "float[1,4,4] u, float[1,4,4] v, bool c", "int64[K,3] y"))
    with refused(UsageProblem):
        convert(Model.open(path))


def test_results_that_are_no_tensors_are_refused(tmp_path: Path) -> None:
    nodes = """z = If(c) <then_branch = a () => (float[N,3] p) { p = Abs(x) }, else_branch = b () => (float[N,3] q)
      { q = Neg(x) }> y = Identity(x)"""
    model = parse_onnx(graph(nodes, "float[N,3] x, bool c"))
    for attribute in model.graph.node[0].attribute:
        value = attribute.g.output[0]
        value.type.sequence_type.elem_type.CopyFrom(onnx.TypeProto(tensor_type=value.type.tensor_type))
    onnx.save(model, tmp_path / "m.onnx")
    with refused(UsageProblem):
        convert(Model.open(tmp_path / "m.onnx"))


def test_types_of_a_branchs_results_may_be_left_out(tmp_path: Path) -> None:
    """As PyTorch's scripted LSTM in Silero VAD leaves them out."""
    model = parse_onnx(graph(f"y = If(c) <{PLAIN}>", "float[N,3] x, bool c"), CONSTANTS)
    for attribute in model.graph.node[0].attribute:
        attribute.g.output[0].ClearField("type")
    onnx.save(model, tmp_path / "m.onnx")
    converted = convert(Model.open(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    for condition, want in ((True, x * 0.5), (False, np.abs(x))):
        with torch.inference_mode():
            (found,) = converted.module(torch.from_numpy(x), torch.tensor(condition))
        np.testing.assert_array_equal(found.numpy(), want)


def test_in_a_half_type_and_compiled(tmp_path: Path) -> None:
    text = graph(f"{SIZE} c = Equal(n, two) y = If(c) <{PLAIN}>")
    path = write_onnx(tmp_path / "m.onnx", text, CONSTANTS)
    module = convert(Model.open(path), torch.bfloat16).module
    for batch in (1, 2):
        x = torch.randn(batch, 3)
        wanted = x.bfloat16() * 0.5 if batch == 2 else x.bfloat16().abs()
        torch.testing.assert_close(module(x)[0], wanted.float())
        torch.testing.assert_close(torch.compile(module, backend="eager", fullgraph=True)(x)[0], wanted.float())
