"""Every operator of the torch backend against the test cases that the ONNX project publishes with its package."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

torch = pytest.importorskip("torch")
conversion = pytest.importorskip("trt_workbench.backends.torch.onnx_torch.convert")
as_torch = pytest.importorskip("trt_workbench.backends.torch.onnx_torch.dtypes").as_torch
convert, SUPPORTED = conversion.convert, conversion.SUPPORTED

# Cases that are out of scope: training, and reductions over nothing.
EXCLUDED = ("training_dropout", "empty_set")
# Of a half type a sum may differ by its last bit, and by more where the order of the sums differs.
TOLERANCES = {torch.float16: (5e-3, 5e-3), torch.bfloat16: (3e-2, 3e-2)}
# The project publishes no case of the first that stands alone, and none of the others with constant weights;
# test_convert.py and test_recurrent.py compare them with ONNX Runtime.
UNPUBLISHED = {"LayerNormalization", "LSTM", "GRU", "RNN"}
EXPANDED_STEP = 5
# Fewer cases than this would mean that the comparison has lost its substance.
FEWEST_CASES = 750


def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the makers of the cases divide by zero on purpose
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    chosen = [case for case in found if case.model is not None and is_ours(case)]
    # an "expanded" case is an operator spelled out by others: a part of them shows that compositions work
    spelled_out = [case for case in chosen if "_expanded" in case.name]
    return [case for case in chosen if "_expanded" not in case.name] + spelled_out[::EXPANDED_STEP]


def is_ours(case: Any) -> bool:
    nodes = case.model.graph.node
    known = all(node.op_type in SUPPORTED and node.domain in ("", "ai.onnx") for node in nodes)
    return known and not any(part in case.name for part in EXCLUDED)


def check(case: Any, folder: Path) -> bool:
    """Compare one case; False if the converter refuses it."""
    onnx.save(case.model, folder / "case.onnx")
    for given, expected in case.data_sets:
        if any(isinstance(item, list | dict) or item is None for item in [*given, *expected]):
            return False
        try:
            module = convert(Model.open(folder / "case.onnx")).module
            with torch.inference_mode():
                results = module(*[as_torch(np.asarray(item)) for item in given])
        except UsageProblem:
            return False
        for result, item in zip(results, expected, strict=True):
            wanted = as_torch(np.asarray(item))
            relative, absolute = TOLERANCES.get(wanted.dtype, (1e-3, 1e-5))
            torch.testing.assert_close(result, wanted, rtol=relative, atol=absolute, equal_nan=True)
    return True


@pytest.mark.slow
def test_every_supported_operator_agrees_with_onnx(tmp_path: Path) -> None:
    passed, failed, covered = 0, [], set()
    for case in cases():
        try:
            if check(case, tmp_path):
                passed += 1
                covered |= {node.op_type for node in case.model.graph.node}
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__} {' '.join(str(error).split())[:200]}")
    assert failed == []
    assert passed >= FEWEST_CASES
    assert SUPPORTED - covered == UNPUBLISHED


def test_an_operator_without_counterpart_is_named(tmp_path: Path) -> None:
    graph = """g (float[1,2,4] b, float[1,2,4] s) => (int64[2,3] k) {
      [suppress] k = NonMaxSuppression(b, s) m = me.MyOp(b)
    }"""
    write_onnx(tmp_path / "m.onnx", graph)
    with refused(UsageProblem) as caught:
        convert(Model.open(tmp_path / "m.onnx"))
    assert "ort-cpu" in str(caught.value)
