"""Models before they are made low."""

from pathlib import Path

import numpy as np
import onnx
from onnx import parser
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.constants import constants
from trt_workbench.model.low_precision.preparation import prepare, raise_opset
from trt_workbench.model.opened import Model


def test_a_model_that_onnx_cannot_convert_is_refused_in_one_sentence() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, lost) }'
    )
    with refused(UsageProblem) as caught:
        raise_opset(model, "fp8", Path("m.onnx"))
    assert "lost" in str(caught.value)


def test_weights_that_are_cast_or_laid_out_anew_are_weights(tmp_path: Path) -> None:
    text = """g (float[n,3,8,8] x) => (float[n,6] y, float16[4,3,1,1] half) {
      wide = Cast<to=1>(half) [first] a = Conv(x, wide)
      turned = Transpose<perm=[1,0,2,3]>(odd) same = Identity(turned) [second] b = Conv(a, same)
      p = GlobalAveragePool(b) f = Flatten(p)
      shape = Constant<value_ints=[5, 6]>() long = Constant<value_floats=[VALUES]>() table = Reshape(long, shape)
      [third] y = MatMul(f, table)
    }""".replace("VALUES", ",".join(f"{value}.5" for value in range(30)))
    rng = np.random.default_rng(0)
    arrays = {"half": rng.standard_normal((4, 3, 1, 1)).astype(np.float16),
              "odd": rng.standard_normal((4, 5, 1, 1)).astype(np.float32)}  # fmt: skip
    model, groups = prepare(Model.open(write_onnx(tmp_path / "m.onnx", text, arrays)))
    assert [(group.name, group.weight) for group in groups] == [
        ("first", "wide"), ("second", "same"), ("third", "table"),
    ]  # fmt: skip
    assert [node.op_type for node in model.graph.node] == ["Conv", "Conv", "GlobalAveragePool", "Flatten", "MatMul"]
    values = constants(model.graph)
    assert values.keys() == {"half", "wide", "same", "table"}  # half is an output, too
    assert values["wide"].dtype == np.float32
    assert (values["same"] == arrays["odd"].transpose(1, 0, 2, 3)).all()
    onnx.checker.check_model(model)


def test_a_weight_that_is_read_as_it_is_and_laid_out_anew(tmp_path: Path) -> None:
    text = """g (float[n,4] x) => (float[n,4] y) {
      wide = Cast<to=1>(half) turned = Transpose(wide) [first] a = MatMul(x, turned) [second] y = MatMul(a, wide)
    }"""
    half = np.arange(16, dtype=np.float16).reshape(4, 4)
    model, groups = prepare(Model.open(write_onnx(tmp_path / "m.onnx", text, {"half": half})))
    assert [(group.name, group.weight) for group in groups] == [("first", "turned"), ("second", "wide")]
    assert constants(model.graph).keys() == {"wide", "turned"}


def test_sparse_weights_are_refused(tmp_path: Path) -> None:
    write_onnx(path := tmp_path / "m.onnx", "g (float[2,4] x) => (float[2,4] y) { w = Constant() y = MatMul(x, w) }")
    model = onnx.load(path)
    values, indices = (onnx.numpy_helper.from_array(one, "v") for one in (np.ones(2, np.float32), np.arange(2)))
    sparse = onnx.helper.make_sparse_tensor(values, indices, [4, 4])
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("sparse_value", sparse))
    path.write_bytes(model.SerializeToString())
    with refused(UsageProblem):
        prepare(Model.open(path))
