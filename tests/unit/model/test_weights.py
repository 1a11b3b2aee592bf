"""Questions about a graph are answered without its weights."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.onnx_text import write_onnx

from trt_workbench.model.low_precision.cast import cast_model
from trt_workbench.model.low_precision.preparation import prepare
from trt_workbench.model.low_precision.watch import computed_floats
from trt_workbench.model.noise import with_rounding
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.rewrites import REWRITES
from trt_workbench.model.sanitize.sanitize import default_rewrites, sanitize
from trt_workbench.model.weights import inferred, save_model

GRAPH = """g (float[n,128] x) => (float[n,128] y) {
  a = MatMul(x, v) b = Relu(a) c = MatMul(b, w) s = Constant <value = int64[2] {-1, 128}> () y = Reshape(c, s)
}"""
MOST_BYTES = 16_384


@pytest.fixture
def path(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(0).standard_normal((2, 128, 128), np.float32)
    return write_onnx(tmp_path / "m.onnx", GRAPH, {"v": drawn[0], "w": drawn[1]})


def test_shapes_are_inferred_without_the_file_of_the_weights(tmp_path: Path, path: Path) -> None:
    onnx.save(onnx.load(path), tmp_path / "e.onnx", save_as_external_data=True, location="e.data", size_threshold=0)
    (tmp_path / "e.data").unlink()
    beside = onnx.load(tmp_path / "e.onnx", load_external_data=False)
    for model in (beside, onnx.load(path)):
        typed = inferred(model)
        assert typed.ByteSize() < MOST_BYTES
        known = {value.name: value.type.tensor_type.shape.dim[-1].dim_value for value in typed.graph.value_info}
        assert known == {"a": 128, "b": 128, "c": 128, "s": 2}


def test_shape_inference_is_never_given_large_weights(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, sizes = onnx.shape_inference.infer_shapes, list[int]()

    def noted(model: onnx.ModelProto, *rest: Any, **named: Any) -> onnx.ModelProto:
        sizes.append(model.ByteSize())
        return own(model, *rest, **named)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", noted)
    source = Model.open(path)
    sanitize(source, tuple(REWRITES))
    model, _ = prepare(source)
    cast_model(model, "fp16")
    computed_floats(model)
    rounded = with_rounding(model, 1e-3, 0)
    assert len(sizes) > 10
    assert max(sizes) < MOST_BYTES
    assert {one.name for one in rounded.graph.initializer if len(one.raw_data) == 4 * 128 * 128} == {"v", "w"}


def test_no_weight_is_read_as_an_array_where_a_rewrite_has_no_use_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, read = numpy_helper.to_array, list[str]()

    def noted(tensor: onnx.TensorProto, *rest: Any) -> Any:
        read.append(tensor.name)
        return own(tensor, *rest)

    monkeypatch.setattr(numpy_helper, "to_array", noted)
    sanitize(Model.open(path), default_rewrites())
    assert not {"v", "w"} & set(read)


def test_a_model_is_written_as_protobuf_would_and_not_by_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(path)
    model.graph.initializer[0].doc_string = "of the first"
    model.graph.initializer.append(onnx.helper.make_tensor("typed", onnx.TensorProto.FLOAT, [5000], [0.5] * 5000))
    model.graph.initializer.append(onnx.helper.make_tensor("text", onnx.TensorProto.STRING, [2], [b"a", b"b"]))
    model.metadata_props.add(key="k", value="v")
    monkeypatch.setattr(onnx, "save", None)
    save_model(model, tmp_path / "written.onnx")
    assert onnx.load(tmp_path / "written.onnx") == model
