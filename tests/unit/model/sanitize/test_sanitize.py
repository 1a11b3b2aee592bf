"""Each rewrite by itself, on a small graph, with ONNX Runtime as the judge."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.in_onnxruntime import outputs
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.model import weights as model_weights
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.check import compare
from trt_workbench.model.sanitize.rewrites import REWRITES, SanitizeSettings
from trt_workbench.model.sanitize.sanitize import SanitizeReport, default_rewrites, sanitize
from trt_workbench.model.weights import save_model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
END = np.iinfo(np.int64).max


def write(
    path: Path, nodes: str, weights: dict[str, Any] | None = None, shape: str = "2,3", out: str | None = None
) -> Path:
    return write_onnx(path, f"g (float[{shape}] x) => (float[{out or shape}] y) {{ {nodes} }}", weights)


def rewritten(path: Path, *names: str, **dims: int) -> tuple[onnx.GraphProto, SanitizeReport]:
    """Run rewrites and check that the result says the same, exactly."""
    model, report = sanitize(Model.open(path), names, SanitizeSettings(dims=dims))
    after = path.with_name("after.onnx")
    save_model(model, after)
    shape = [dims.get(dim, 2) if isinstance(dim, str) else dim for dim in onnx_shape(path)]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    compare(path, after, outputs, [{"x": x}], rtol=0, atol=1e-6)
    return model.graph, report


def onnx_shape(path: Path) -> list[int | str]:
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def test_name_nodes(tmp_path: Path) -> None:
    graph, report = rewritten(write(tmp_path / "m.onnx", "a = Abs(x) [n] y = Neg(a)"), "name-nodes")
    assert [node.name for node in graph.node] == ["Abs_0", "n"]
    assert report.changes["name-nodes"] == ["(no name) is now Abs_0"]
    # ONNX Runtime does not even load this
    model, _ = sanitize(Model.open(write(tmp_path / "twice.onnx", "[n] a = Abs(x) [n] y = Neg(a)")), ["name-nodes"])
    assert [node.name for node in model.graph.node] == ["n", "n_1"]


def test_sort_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "[n] y = Neg(b) b = Exp(a) [k] k = Abs(x) a = Abs(x)")
    graph, report = rewritten(path, *default_rewrites())
    assert operators(graph) == ["Abs", "Exp", "Neg"]
    assert report.changes["sort-nodes"] == ["y now comes after b", "b now comes after a"]
    assert report.findings == []
    onnx.checker.check_model(tmp_path / "after.onnx", full_check=True)
    _, skipped = sanitize(Model.open(path), ["name-nodes"])
    assert "must be topologically sorted" in skipped.findings[0]


def test_nodes_of_branches_and_functions_are_sorted(tmp_path: Path) -> None:
    nodes = """y = If (c) <then_branch = t () => (float[2,3] r) { r = Neg(q) q = Abs(k) },
                          else_branch = e () => (float[2,3] s) { s = l.F(k) }> c = Cast<to=9>(total)
      total = ReduceSum<keepdims=0>(k) k = Abs(x)"""
    body = '<domain: "l", opset_import: ["" : 17]> F (a) => (c) { c = Neg(b) b = Abs(a) }'
    text = f'<ir_version: 9, opset_import: ["" : 17, "l" : 1]> g (float[2,3] x) => (float[2,3] y) {{ {nodes} }} {body}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    model, report = sanitize(Model.open(tmp_path / "m.onnx"), ["sort-nodes"])
    assert len(report.changes["sort-nodes"]) == 5
    onnx.checker.check_model(model, full_check=True)
    save_model(model, tmp_path / "after.onnx")
    x = np.float32([[-1, 2, -3], [4, -5, 6]])
    assert (outputs(tmp_path / "after.onnx", {"x": x})["y"] == -np.abs(x)).all()


def test_nodes_in_a_circle_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "y = Add(x, z) z = Neg(y)")
    with refused(UsageProblem):
        sanitize(Model.open(path), default_rewrites())


def test_dedupe_initializers(tmp_path: Path) -> None:
    constants = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32), "c": np.ones((1, 3), np.float32)}
    path = write(tmp_path / "m.onnx", "t = Add(x, a) u = Add(t, b) y = Add(u, c)", constants)
    graph, report = rewritten(path, "dedupe-initializers")
    assert [tensor.name for tensor in graph.initializer] == ["a", "c"]  # c has another shape
    assert report.changes["dedupe-initializers"] == ["b is a"]


def test_duplicates_that_a_subgraph_reads(tmp_path: Path) -> None:
    nodes = """y = If (condition) <
      then_branch = then () => (float[2,3] r) { r = Add(x, b) },
      else_branch = other () => (float[2,3] s) { s = Add(x, a) }>"""
    constants = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32), "condition": np.array(True)}
    graph, _ = rewritten(write(tmp_path / "m.onnx", nodes, constants), "dedupe-initializers", "remove-unused")
    assert {tensor.name for tensor in graph.initializer} == {"a", "condition"}


def test_a_dimension_of_minus_one_is_dynamic(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "s = Shape(x) y = Reshape(x, s)")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1  # as some exporters write it
    onnx.save(model, path)
    rewritten_model, report = sanitize(Model.open(path), ["fold-shapes"])
    assert report.changes["fold-shapes"] == []
    assert operators(rewritten_model.graph) == ["Shape", "Reshape"]


def test_remove_no_ops(tmp_path: Path) -> None:
    nodes = "a = Identity(x) b = Dropout(a) c = Exp(b) y = Identity(c)"  # the last names an output: stays
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes), "remove-no-ops")
    assert operators(graph) == ["Exp", "Identity"]
    assert len(report.changes["remove-no-ops"]) == 2


def test_fold_constants(tmp_path: Path) -> None:
    nodes = "two = Constant<value_float = 2.0>() scaled = Mul(w, two) turned = Transpose(scaled) y = MatMul(x, turned)"
    weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, weights, out="2,2"), "fold-constants", "remove-unused")
    assert operators(graph) == ["MatMul"]
    assert report.changes["fold-constants"] == ["Mul", "Transpose"]


def test_folding_leaves_what_would_swell_the_file_and_what_is_random(tmp_path: Path) -> None:
    nodes = "zeros = ConstantOfShape(big) zero = ReduceMax<keepdims = 0>(zeros) y = Add(x, zero)"
    graph, _ = rewritten(write(tmp_path / "m.onnx", nodes, {"big": np.array([2000, 2000])}), "fold-constants")
    assert operators(graph) == ["ConstantOfShape", "ReduceMax", "Add"]


def test_frozen_dimensions_let_shapes_be_folded(tmp_path: Path) -> None:
    nodes = """shape = Shape(x) size = Gather(shape, place) one = Unsqueeze(size, axis)
      target = Concat<axis = 0>(one, rest) y = Reshape(x, target)"""
    constants = {"place": np.int64(0), "axis": np.array([0]), "rest": np.array([-1])}
    path = write(tmp_path / "m.onnx", nodes, constants, shape="batch,3,4", out="batch,12")
    graph, report = rewritten(path, *default_rewrites(), batch=5)
    assert operators(graph) == ["Reshape"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
    assert report.changes["freeze-dims"] == ["x[0] batch = 5", "y[0] batch = 5"]
    # with the batch left open, a fixed dimension alone is folded
    path = write(tmp_path / "n.onnx", nodes, {**constants, "place": np.int64(1)}, "batch,3,4", "3,rest")
    graph, report = rewritten(path, "fold-shapes")
    assert len(report.changes["fold-shapes"]) == 1
    assert "Gather" not in operators(graph)


def test_collapse_casts(tmp_path: Path) -> None:
    # the third Cast loses: stays
    nodes = f"""[widen] wide = Cast<to = {TensorProto.DOUBLE}>(x) [narrow] back = Cast<to = {FLOAT}>(wide)
      integer = Cast<to = {INT64}>(back) again = Cast<to = {FLOAT}>(integer) y = Neg(again)"""
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes), "collapse-casts", "remove-unused")
    assert operators(graph) == ["Cast", "Cast", "Neg"]
    assert report.changes["collapse-casts"] == ["Cast widen and narrow"]


def test_clamp_int64(tmp_path: Path) -> None:
    nodes = "[first] a = Slice(x, start, end, axis) [second] y = Slice(a, start, end, axis)"
    constants = {"start": np.array([1]), "end": np.array([END]), "axis": np.array([1])}
    path = write(tmp_path / "m.onnx", nodes, constants, shape="2,6", out="2,4")
    graph, report = rewritten(path, "clamp-int64", "dedupe-initializers", "remove-unused")
    ends = [numpy_helper.to_array(t).max() for t in graph.initializer]
    assert max(ends) == np.iinfo(np.int32).max
    assert len(report.changes["clamp-int64"]) == 2
    assert report.findings == []
    assert any("int32" in finding for finding in sanitize(Model.open(path), [])[1].findings)


def test_int32_indices(tmp_path: Path) -> None:
    assert "int32-indices" not in default_rewrites()
    # Unsqueeze takes nothing but int64
    nodes = f"""[cut] a = Slice(x, start, end, axis) wide = Cast<to = {INT64}>(narrow)
      [pick] b = Gather<axis = 1>(a, wide) c = Unsqueeze(b, axis) y = Squeeze(c, axis)"""
    constants = {"start": np.array([1]), "end": np.array([END]), "axis": np.array([1]), "narrow": np.int32([0, 2])}
    path = write(tmp_path / "m.onnx", nodes, constants, shape="2,6", out="2,2")
    # the sentinel is out of range until it is clamped
    _, report = rewritten(path, "int32-indices")
    assert report.changes["int32-indices"] == ["Gather pick"]
    graph, report = rewritten(path, "clamp-int64", "int32-indices", "remove-unused")
    assert sorted(report.changes["int32-indices"]) == ["Gather pick", "Slice cut"]
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert kinds["axis"] == INT64
    assert {kinds[name] for name in graph.node[0].input[1:]} == {TensorProto.INT32}
    assert "Cast" not in operators(graph)


def test_double_to_float(tmp_path: Path) -> None:
    nodes = f"d = Cast<to = {TensorProto.DOUBLE}>(x) e = Mul(d, half) y = Cast<to = {FLOAT}>(e)"
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, {"half": np.array(0.5)}), "double-to-float")
    assert len(report.changes["double-to-float"]) == 2
    assert {tensor.data_type for tensor in graph.initializer} == {FLOAT}


def test_finite_masks_are_asked_for(tmp_path: Path) -> None:
    assert "finite-masks" in REWRITES
    assert "finite-masks" not in default_rewrites()
    mask = np.array([0, 0, np.finfo(np.float32).min], np.float32)
    constants = {"mask": mask, "other": np.array([0, 0, -1e6], np.float32)}
    path = write(tmp_path / "m.onnx", "a = Add(x, mask) b = Softmax(a) y = Add(b, other)", constants)
    graph, report = rewritten(path, "finite-masks")
    assert report.changes["finite-masks"] == ["mask"]
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    np.testing.assert_array_equal(values["mask"], [0, 0, -65504])
    np.testing.assert_array_equal(values["other"], [0, 0, -1e6])  # leads to no Softmax: data


def test_every_rewrite_is_tested() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in REWRITES if f'"{name}"' not in text] == []


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "y = Abs(x)", shape="batch,3")
    with refused(UsageProblem):
        sanitize(Model.open(path), ["fold"])
    with refused(UsageProblem):
        sanitize(Model.open(path), [], SanitizeSettings(dims={"n": 1}))


def test_the_check_fails_on_a_difference(tmp_path: Path) -> None:
    before = write(tmp_path / "a.onnx", "y = Abs(x)")
    after = write(tmp_path / "b.onnx", "y = Relu(x)")
    x = -np.ones((2, 3), np.float32)
    with refused(CheckFailed):
        compare(before, after, outputs, [{"x": x}], rtol=1e-4, atol=1e-5)


def test_double_to_float_in_shapes_and_branches(tmp_path: Path) -> None:
    nodes = f"""s = Shape(x) c = ConstantOfShape<value: tensor = double[1] two {{2.0}}>(s)
      d = Cast<to = {TensorProto.DOUBLE}>(x) m = Mul(d, c)
      largest = ReduceMax<keepdims = 0>(x) condition = Cast<to = {TensorProto.BOOL}>(largest)
      chosen = If (condition) <
        then_branch = then () => (double[n,3] t) {{
          half = Constant<value: tensor = double half {{0.5}}>() t = Max(m, half, k) }},
        else_branch = other () => (double[n,3] e) {{ e = Identity(m) }}>
      y = Cast<to = {FLOAT}>(chosen)"""
    path = write(tmp_path / "m.onnx", nodes, {"k": np.float64(1.5)}, shape="n,3")
    _, report = rewritten(path, "double-to-float")
    assert sorted(report.changes["double-to-float"]) == ["Cast ", "ConstantOfShape ", "constant half", "constant k"]


def with_typed_fields(model: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """Keep the values of initialisers as numbers, not as bytes, as some exporters do."""
    for tensor in model.graph.initializer:
        if tensor.name in names:
            values = numpy_helper.to_array(tensor)
            tensor.CopyFrom(helper.make_tensor(tensor.name, tensor.data_type, values.shape, values.ravel().tolist()))
            assert not tensor.raw_data
    return model


def test_weights_count_wherever_their_values_are(tmp_path: Path) -> None:
    constants = {"f": np.ones((3, 5), np.float32), "i": np.arange(7), "h": np.ones(9, np.float16), "e": np.ones((0, 4))}
    path = write(tmp_path / "m.onnx", "y = Abs(x)", constants)
    size = 3 * 5 * 4 + 7 * 8 + 9 * 2
    assert model_weights.weight_bytes(onnx.load(path)) == size
    typed = with_typed_fields(onnx.load(path), *constants)
    assert model_weights.weight_bytes(typed) == size
    typed.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"one", b"three"]))
    assert model_weights.weight_bytes(typed) == size + 8
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert model_weights.weight_bytes(onnx.load(path, load_external_data=False)) == size


def test_a_model_above_the_limit_of_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are never handed to protobuf together, and a second writing of one model loses none of them."""
    monkeypatch.setattr(model_weights, "MOST_WEIGHTS", 15_000)  # two of the three weights fit
    serialised: list[int] = []
    infer = onnx.shape_inference.infer_shapes

    def watched(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        serialised.append(model.ByteSize())
        return infer(model, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    weights = {name: np.random.default_rng(seed).random((40, 40), np.float32) for seed, name in enumerate("uvw")}
    nodes = "i = Identity(x) a = MatMul(i, u) b = MatMul(a, v) y = MatMul(b, w)"
    path = write(tmp_path / "m.onnx", nodes, weights, shape="2,40")
    onnx.save(with_typed_fields(onnx.load(path), "u"), path)
    model, report = sanitize(Model.open(path), default_rewrites())
    assert report.after == {"MatMul": 3}
    assert serialised
    assert max(serialised) < 2_000
    x = np.random.default_rng(3).random((2, 40), np.float32)
    for name in ("first.onnx", "second.onnx"):
        save_model(model, tmp_path / name)
        assert (tmp_path / f"{name}.data").stat().st_size == 3 * 40 * 40 * 4
        compare(path, tmp_path / name, outputs, [{"x": x}], rtol=0, atol=0)
