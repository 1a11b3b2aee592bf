import pytest

from trt_workbench.model.tensorrt_operators import TYPES, OperatorUse, why_not


def test_the_table_names_each_operator_once() -> None:
    assert len(TYPES) > 140
    assert {"Conv", "TopK", "GatherElements", "LayerNormalization"} <= TYPES.keys()
    assert not {"Unique", "QLinearConv", "Multinomial", "DFT"} & TYPES.keys()


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (OperatorUse("Conv", ("float32",)), ""),
        (OperatorUse("Conv", (None,)), ""),
        (OperatorUse("Unique", ("float32",)), "operator"),
        (OperatorUse("com.microsoft::Gelu", ("float32",)), "operator"),
        (OperatorUse("MatMul", ("int64", "int64")), "dtype: int64"),
        (OperatorUse("And", ("bool", "bool")), ""),
        (OperatorUse("Where", ("bool", "float32", "float32")), ""),
        (OperatorUse("Unsqueeze", ("float32", "int64"), (False, False)), "shape: input 1"),
        (OperatorUse("Unsqueeze", ("float32", "int64"), (False, True)), ""),
        (OperatorUse("TopK", ("float32", "int64"), (False, True), {1: 8400}), "size: K is 8400"),
        (OperatorUse("TopK", ("float32", "int64"), (False, True), {1: 300}), ""),
        (OperatorUse("MaxPool", ("float32",), rank=3), "shape: 2-D or 3-D"),
        (OperatorUse("MaxPool", ("float32",), rank=4, outputs=2), "output"),
        (OperatorUse("AveragePool", ("float32",), rank=4, attributes={"dilations": [2, 2]}), "attribute"),
        (OperatorUse("Resize", ("float32",), attributes={"mode": b"cubic"}), "attribute: mode cubic"),
        (OperatorUse("Resize", ("float32",), attributes={"mode": b"linear"}), ""),
        (OperatorUse("ScatterND", ("float32",), attributes={"reduction": b"add"}), "attribute"),
        (OperatorUse("LayerNormalization", ("float32",), outputs=3), "output"),
        (OperatorUse("Where", ("bool", "float32", "string")), "dtype: TensorRT has no strings"),
        (OperatorUse("Cast", ("float32",), attributes={"to": 8}), "dtype: TensorRT has no strings"),
        (OperatorUse("Cast", ("float32",), attributes={"to": 10}), ""),
    ],
)
def test_the_reason_names_operator_dtype_shape_or_size(use: OperatorUse, reason: str) -> None:
    found = why_not(use)
    assert found.startswith(reason) if reason else found == ""
