"""Every operator of the torch backend against the test cases that the ONNX project publishes with its package."""

import functools
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


@functools.cache
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


@pytest.mark.long
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


FREE = {"equation", "value_string", "pattern", "locale", "delimiter"}


def run(model: onnx.ModelProto, given: list[Any], folder: Path) -> None:
    """Convert and run a model. Raises UsageProblem if it is refused."""
    onnx.save(model, folder / "word.onnx")
    module = convert(Model.open(folder / "word.onnx")).module
    with torch.inference_mode():
        module(*[as_torch(np.asarray(item)) for item in given])


@pytest.mark.long
def test_a_word_that_an_attribute_does_not_take_is_not_taken_for_another(tmp_path: Path) -> None:
    """ONNX Runtime refuses each; Conv's auto_pad was SAME_LOWER with any word, and Pad's mode the last one."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2,1,3] x) => (float[2,1,1,4] y)
      <float[1,16,3] w = {{{", ".join(["0.1"] * 48)}}}, float[1,16,4] r = {{{", ".join(["0.1"] * 64)}}}>
      {{ y = LSTM <hidden_size = 4, direction = "forward"> (x, w, r) }}"""
    tried = [(onnx.parser.parse_model(text), [np.zeros((2, 1, 3), np.float32)])]
    tried += [(case.model, case.data_sets[0][0]) for case in cases()]
    found: set[str] = set()
    for model, given in tried:
        for node in model.graph.node:
            for one in node.attribute:
                name = f"{node.op_type} {one.name}"
                if one.type != onnx.AttributeProto.STRING or one.name in FREE or name in found:
                    continue
                if any(isinstance(item, list | dict) or item is None for item in given):
                    continue
                try:
                    run(model, given, tmp_path)
                except UsageProblem:
                    continue
                found.add(name)
                right, one.s = one.s, b"linear_cubic"
                with refused(UsageProblem):
                    run(model, given, tmp_path)
                one.s = right
    assert {"LSTM direction", "Conv auto_pad", "BitShift direction", "Pad mode", "ScatterND reduction"} <= found


def test_an_operator_without_counterpart_is_named(tmp_path: Path) -> None:
    graph = """g (float[1,2,4] b, float[1,2,4] s) => (int64[2,3] k) {
      [suppress] k = NonMaxSuppression(b, s) m = me.MyOp(b)
    }"""
    write_onnx(tmp_path / "m.onnx", graph)
    with refused(UsageProblem) as caught:
        convert(Model.open(tmp_path / "m.onnx"))
    assert "ort-cpu" in str(caught.value)
