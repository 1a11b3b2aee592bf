"""Models before they are made low."""

from pathlib import Path

import pytest
from onnx import parser

from trt_workbench.errors import UsageProblem
from trt_workbench.onnxtools.quantize.preparation import raise_opset


def test_a_model_that_onnx_cannot_convert_is_refused_in_one_sentence() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, lost) }'
    )
    with pytest.raises(UsageProblem, match=r"ONNX cannot convert it .*lost"):
        raise_opset(model, "fp8", Path("m.onnx"))
