from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.core.hashing import hash_file
from trt_workbench.model.opened import sha256_of

GRAPH = "g (float[1,4] x) => (float[1,4] y) { y = MatMul(x, w) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32)}


def test_every_external_byte_counts(tmp_path: Path) -> None:
    model, data = tmp_path / "m.onnx", tmp_path / "w.bin"
    onnx.save(parse_onnx(GRAPH, WEIGHTS), model, save_as_external_data=True, location=data.name, size_threshold=0)
    before = sha256_of(model)
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    assert sha256_of(model) != before
    assert sha256_of(model) != hash_file(model)


@pytest.mark.parametrize("name", ["m.onnx", "m.plan", "m.pt2"])
def test_a_file_that_is_no_onnx_model_has_the_hash_of_its_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no model")
    assert sha256_of(path) == hash_file(path)
