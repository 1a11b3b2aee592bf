from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.preflight import examine_model


def linear(path: Path, *, operator: str = "MatMul", domain: str = "", external: bool = True) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="n", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(np.eye(4, dtype=np.float16), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    return onnx.load(path, load_external_data=False)


def set_external(path: Path, **entries: str) -> None:
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


def test_facts(tmp_path: Path) -> None:
    linear(tmp_path / "m.onnx")
    facts = examine_model(tmp_path / "m.onnx")
    assert [str(tensor.dtype) for tensor in facts.inputs] == ["float16"]
    assert facts.inputs[0].shape == ("batch", 4)
    assert facts.inputs[0].is_dynamic
    assert facts.outputs[0].shape is None
    assert facts.operators == {"MatMul": 1}
    assert facts.opset == 17
    assert facts.external_files == (tmp_path / "w.bin",)
    assert not facts.is_quantized


def test_operators_inside_subgraphs_are_seen(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["a", "s"], ["b"])],
        "then",
        [],
        [helper.make_tensor_value_info("b", TensorProto.INT8, None)],
        [numpy_helper.from_array(np.float32(1), "a"), numpy_helper.from_array(np.float32(1), "s")],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)],
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    facts = examine_model(tmp_path / "m.onnx")
    assert facts.operators == {"If": 1, "QuantizeLinear": 2}
    assert facts.is_quantized


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w.bin", ""])
def test_external_data_may_not_leave_the_folder(tmp_path: Path, location: str) -> None:
    linear(tmp_path / "m.onnx")
    set_external(tmp_path / "m.onnx", location=location)
    with pytest.raises(UsageProblem, match="leaves its folder"):
        examine_model(tmp_path / "m.onnx")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    linear(folder / "m.onnx")
    (folder / "w.bin").rename(tmp_path / "blob")
    (folder / "w.bin").symlink_to(tmp_path / "blob")
    with pytest.raises(UsageProblem, match="copy the file beside the model"):
        examine_model(folder / "m.onnx")


def test_missing_and_truncated_external_data(tmp_path: Path) -> None:
    linear(tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(b"1234")
    with pytest.raises(UsageProblem, match=r"has 4 bytes, tensor w ends at 32"):
        examine_model(tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(UsageProblem, match=r"w\.bin is missing"):
        examine_model(tmp_path / "m.onnx")


@pytest.mark.parametrize(("offset", "length"), [("-8", "4"), ("x", "1"), ("30", "4")])
def test_places_that_cannot_be(tmp_path: Path, offset: str, length: str) -> None:
    linear(tmp_path / "m.onnx")
    set_external(tmp_path / "m.onnx", location="w.bin", offset=offset, length=length)
    with pytest.raises(UsageProblem):
        examine_model(tmp_path / "m.onnx")


def test_an_engine_in_disguise(tmp_path: Path) -> None:
    linear(tmp_path / "m.onnx", operator="EPContext", domain="com.microsoft", external=False)
    with pytest.raises(UsageProblem, match="compiled engine"):
        examine_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no model", b"version https://git-lfs"])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(UsageProblem, match=r"not a whole ONNX model|no ONNX graph"):
        examine_model(tmp_path / "m.onnx")
    with pytest.raises(UsageProblem, match="does not exist"):
        examine_model(tmp_path / "none.onnx")
