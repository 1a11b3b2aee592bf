"""Hashes of models: what tells two of them apart in the records."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.bench.model_files import model_hash
from trt_workbench.engine.hashing import hash_file


def test_weights_outside_the_file_count(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [weights],
    )
    path, data = tmp_path / "m.onnx", tmp_path / "m.data"
    onnx.save(helper.make_model(graph), path, save_as_external_data=True, location=data.name)
    own, before = hash_file(path), model_hash(path)
    data.write_bytes(bytes(data.stat().st_size))
    assert hash_file(path) == own
    assert model_hash(path) != before


def test_a_file_that_is_no_model_has_the_hash_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    assert model_hash(path) == hash_file(path)
