"""Each rewrite by itself, on a small graph, with ONNX Runtime as the judge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.errors import CheckFailed, UsageProblem
from trt_workbench.onnxtools import sanitize as sanitize_module
from trt_workbench.onnxtools import sanitize_graph
from trt_workbench.onnxtools.sanitize import SanitizeReport, default_rewrites, sanitize, save_model
from trt_workbench.onnxtools.sanitize_check import compare
from trt_workbench.onnxtools.sanitize_rewrites import REWRITES, SanitizeSettings

FLOAT, INT64, DOUBLE, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL
END = np.iinfo(np.int64).max


def write(
    path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any] | None = None,
    shape: Sequence[int | str] = (2, 3),
    out: Sequence[int | str] | None = None,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, out if out is not None else shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([node.name for node in session.get_outputs()], session.run(None, inputs), strict=True))


def rewritten(path: Path, *names: str, **dims: int) -> tuple[onnx.GraphProto, SanitizeReport]:
    """Run rewrites and check that the result says the same, exactly."""
    model, report = sanitize(path, names, SanitizeSettings(dims=dims))
    after = path.with_name("after.onnx")
    save_model(model, after)
    shape = [dims.get(dim, 2) if isinstance(dim, str) else dim for dim in onnx_shape(path)]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    compare(path, after, run, [{"x": x}], rtol=0, atol=1e-6)
    return model.graph, report


def onnx_shape(path: Path) -> list[int | str]:
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def test_name_nodes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"], "n")]
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes), "name-nodes")
    assert [node.name for node in graph.node] == ["Abs_0", "n"]
    assert report.changes["name-nodes"] == ["(no name) is now Abs_0"]
    nodes[0].name = "n"  # ONNX Runtime does not even load this
    model, _ = sanitize(write(tmp_path / "twice.onnx", nodes), ["name-nodes"])
    assert [node.name for node in model.graph.node] == ["n", "n_1"]


def test_dedupe_initializers(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "a"], ["t"]), helper.make_node("Add", ["t", "b"], ["u"])]
    nodes += [helper.make_node("Add", ["u", "c"], ["y"])]
    constants = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32), "c": np.ones((1, 3), np.float32)}
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, constants), "dedupe-initializers")
    assert [tensor.name for tensor in graph.initializer] == ["a", "c"]  # c has another shape
    assert report.changes["dedupe-initializers"] == ["b is a"]


def test_duplicates_that_a_subgraph_reads(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["r"])], "then", [], [helper.make_tensor_value_info("r", FLOAT, [2, 3])]
    )
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "a"], ["s"])], "else", [], [helper.make_tensor_value_info("s", FLOAT, [2, 3])]
    )
    nodes = [helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=other)]
    constants = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32), "condition": np.array(True)}
    graph, _ = rewritten(write(tmp_path / "m.onnx", nodes, constants), "dedupe-initializers", "remove-unused")
    assert {tensor.name for tensor in graph.initializer} == {"a", "condition"}


def test_a_dimension_of_minus_one_is_dynamic(tmp_path: Path) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Reshape", ["x", "s"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1  # as some exporters write it
    onnx.save(model, path)
    rewritten_model, report = sanitize(path, ["fold-shapes"])
    assert report.changes["fold-shapes"] == []
    assert operators(rewritten_model.graph) == ["Shape", "Reshape"]


def test_remove_no_ops(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Identity", ["c"], ["y"]),  # names an output: stays
    ]
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes), "remove-no-ops")
    assert operators(graph) == ["Exp", "Identity"]
    assert len(report.changes["remove-no-ops"]) == 2


def test_fold_constants(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Mul", ["w", "two"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["turned"]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, weights, out=(2, 2)), "fold-constants", "remove-unused")
    assert operators(graph) == ["MatMul"]
    assert report.changes["fold-constants"] == ["Mul", "Transpose"]


def test_folding_leaves_what_would_swell_the_file_and_what_is_random(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["big"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["zero"], keepdims=0),
        helper.make_node("Add", ["x", "zero"], ["y"]),
    ]
    graph, _ = rewritten(write(tmp_path / "m.onnx", nodes, {"big": np.array([2000, 2000])}), "fold-constants")
    assert operators(graph) == ["ConstantOfShape", "ReduceMax", "Add"]


def test_frozen_dimensions_let_shapes_be_folded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["one"]),
        helper.make_node("Concat", ["one", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "axis": np.array([0]), "rest": np.array([-1])}
    path = write(tmp_path / "m.onnx", nodes, constants, shape=("batch", 3, 4), out=("batch", 12))
    graph, report = rewritten(path, *default_rewrites(), batch=5)
    assert operators(graph) == ["Reshape"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
    assert report.changes["freeze-dims"] == ["x[0] batch = 5", "y[0] batch = 5"]
    # with the batch left open, a fixed dimension alone is folded
    nodes[1] = helper.make_node("Gather", ["shape", "one_place"], ["batch"])
    path = write(tmp_path / "n.onnx", nodes, {**constants, "one_place": np.int64(1)}, ("batch", 3, 4), (3, "rest"))
    graph, report = rewritten(path, "fold-shapes")
    assert len(report.changes["fold-shapes"]) == 1
    assert "Gather" not in operators(graph)


def test_collapse_casts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], "widen", to=DOUBLE),
        helper.make_node("Cast", ["wide"], ["back"], "narrow", to=FLOAT),
        helper.make_node("Cast", ["back"], ["integer"], to=INT64),  # loses: stays
        helper.make_node("Cast", ["integer"], ["again"], to=FLOAT),
        helper.make_node("Neg", ["again"], ["y"]),
    ]
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes), "collapse-casts", "remove-unused")
    assert operators(graph) == ["Cast", "Cast", "Neg"]
    assert report.changes["collapse-casts"] == ["Cast widen and narrow"]


def test_clamp_int64(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["a"], "first"),
        helper.make_node("Slice", ["a", "start", "end", "axis"], ["y"], "second"),
    ]
    constants = {"start": np.array([1]), "end": np.array([END]), "axis": np.array([1])}
    path = write(tmp_path / "m.onnx", nodes, constants, shape=(2, 6), out=(2, 4))
    graph, report = rewritten(path, "clamp-int64", "dedupe-initializers", "remove-unused")
    ends = [numpy_helper.to_array(t).max() for t in graph.initializer]
    assert max(ends) == np.iinfo(np.int32).max
    assert len(report.changes["clamp-int64"]) == 2
    assert report.findings == []
    assert any("int32" in finding for finding in sanitize(path, [])[1].findings)


def test_int32_indices(tmp_path: Path) -> None:
    assert "int32-indices" not in default_rewrites()
    nodes = [
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["a"], "cut"),
        helper.make_node("Cast", ["narrow"], ["wide"], to=INT64),
        helper.make_node("Gather", ["a", "wide"], ["b"], "pick", axis=1),
        helper.make_node("Unsqueeze", ["b", "axis"], ["c"], "needs_int64"),
        helper.make_node("Squeeze", ["c", "axis"], ["y"]),
    ]
    constants = {
        "start": np.array([1]),
        "end": np.array([END]),
        "axis": np.array([1]),
        "narrow": np.array([0, 2], np.int32),
    }
    path = write(tmp_path / "m.onnx", nodes, constants, shape=(2, 6), out=(2, 2))
    # the sentinel is out of range until it is clamped
    _, report = rewritten(path, "int32-indices")
    assert report.changes["int32-indices"] == ["Gather pick"]
    graph, report = rewritten(path, "clamp-int64", "int32-indices", "remove-unused")
    assert sorted(report.changes["int32-indices"]) == ["Gather pick", "Slice cut"]
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert kinds["axis"] == INT64  # Unsqueeze takes nothing else
    assert {kinds[name] for name in graph.node[0].input[1:]} == {TensorProto.INT32}
    assert "Cast" not in operators(graph)


def test_double_to_float(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=DOUBLE),
        helper.make_node("Mul", ["d", "half"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=FLOAT),
    ]
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, {"half": np.array(0.5)}), "double-to-float")
    assert len(report.changes["double-to-float"]) == 2
    assert {tensor.data_type for tensor in graph.initializer} == {FLOAT}


def test_finite_masks_are_asked_for(tmp_path: Path) -> None:
    assert "finite-masks" in REWRITES
    assert "finite-masks" not in default_rewrites()
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Add", ["b", "other"], ["y"]),
    ]
    mask = np.array([0, 0, np.finfo(np.float32).min], np.float32)
    constants = {"mask": mask, "other": np.array([0, 0, -1e6], np.float32)}
    graph, report = rewritten(write(tmp_path / "m.onnx", nodes, constants), "finite-masks")
    assert report.changes["finite-masks"] == ["mask"]
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    np.testing.assert_array_equal(values["mask"], [0, 0, -65504])
    np.testing.assert_array_equal(values["other"], [0, 0, -1e6])  # leads to no Softmax: data


def test_remove_unused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["unused"]),
        helper.make_node("Log", ["unused"], ["unused_too"]),
        helper.make_node("Abs", ["x"], ["y"]),
    ]
    graph, _ = rewritten(write(tmp_path / "m.onnx", nodes, {"w": np.ones(2, np.float32)}), "remove-unused")
    assert operators(graph) == ["Abs"]
    assert not graph.initializer


def test_every_rewrite_is_tested() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_sanitize*.py"))
    assert [name for name in REWRITES if f'"{name}"' not in text] == []


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])], shape=("batch", 3))
    with pytest.raises(UsageProblem, match="no rewrite called fold; there are: freeze-dims"):
        sanitize(path, ["fold"])
    with pytest.raises(UsageProblem, match="no dimension called n; there are: batch"):
        sanitize(path, [], SanitizeSettings(dims={"n": 1}))


def test_the_check_fails_on_a_difference(tmp_path: Path) -> None:
    before = write(tmp_path / "a.onnx", [helper.make_node("Abs", ["x"], ["y"])])
    after = write(tmp_path / "b.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    x = -np.ones((2, 3), np.float32)
    with pytest.raises(CheckFailed, match="Output y differs by up to 1 "):
        compare(before, after, run, [{"x": x}], rtol=1e-4, atol=1e-5)


def test_a_model_with_external_data(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Identity", ["a"], ["b"])]
    nodes += [helper.make_node("Neg", ["b"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, {"w": np.arange(3, dtype=np.float32)})
    outside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(onnx.load(path), path, **outside)
    graph, _ = rewritten(path, "remove-no-ops")
    assert operators(graph) == ["Add", "Neg"]


def test_double_to_float_in_shapes_and_branches(tmp_path: Path) -> None:
    two = helper.make_tensor("two", DOUBLE, [1], [2.0])
    then = helper.make_graph(
        [
            helper.make_node("Add", ["m", "k"], ["sum"]),
            helper.make_node("Constant", [], ["half"], value=helper.make_tensor("half", DOUBLE, [], [0.5])),
            helper.make_node("Mul", ["sum", "half"], ["t"]),
        ],
        "then",
        [],
        [helper.make_tensor_value_info("t", DOUBLE, ["n", 3])],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["m"], ["e"])], "else", [], [helper.make_tensor_value_info("e", DOUBLE, ["n", 3])]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"], value=two),
        helper.make_node("Cast", ["x"], ["d"], to=DOUBLE),
        helper.make_node("Mul", ["d", "c"], ["m"]),
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["condition"], to=BOOL),
        helper.make_node("If", ["condition"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Cast", ["chosen"], ["y"], to=FLOAT),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"k": np.float64(1.5)}, shape=("n", 3))
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
    path = write(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])], constants)
    size = 3 * 5 * 4 + 7 * 8 + 9 * 2
    assert sanitize_graph.weight_bytes(onnx.load(path)) == size
    typed = with_typed_fields(onnx.load(path), *constants)
    assert sanitize_graph.weight_bytes(typed) == size
    typed.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"one", b"three"]))
    assert sanitize_graph.weight_bytes(typed) == size + 8
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert sanitize_graph.weight_bytes(onnx.load(path, load_external_data=False)) == size


def test_a_model_above_the_limit_of_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are never handed to protobuf together, and a second writing of one model loses none of them."""
    monkeypatch.setattr(sanitize_module, "MOST_WEIGHTS", 15_000)  # two of the three weights fit
    monkeypatch.setattr(sanitize_graph, "_LARGE_WEIGHT", 1_000)
    serialised: list[int] = []
    infer = onnx.shape_inference.infer_shapes

    def watched(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        serialised.append(model.ByteSize())
        return infer(model, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    weights = {name: np.random.default_rng(seed).random((40, 40), np.float32) for seed, name in enumerate("uvw")}
    nodes = [
        helper.make_node("Identity", ["x"], ["i"]),
        helper.make_node("MatMul", ["i", "u"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, weights, shape=(2, 40))
    onnx.save(with_typed_fields(onnx.load(path), "u"), path)
    model, report = sanitize(path, default_rewrites())
    assert report.after == {"MatMul": 3}
    assert serialised
    assert max(serialised) < 2_000
    x = np.random.default_rng(3).random((2, 40), np.float32)
    for name in ("first.onnx", "second.onnx"):
        save_model(model, tmp_path / name)
        assert (tmp_path / f"{name}.data").stat().st_size == 3 * 40 * 40 * 4
        compare(path, tmp_path / name, run, [{"x": x}], rtol=0, atol=0)
