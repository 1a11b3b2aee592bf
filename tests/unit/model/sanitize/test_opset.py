"""Models of newer operator sets in opset 17, with ONNX Runtime as the judge."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.in_onnxruntime import run
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.request import check_formats
from trt_workbench.engine.target import Target
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.opset import left_behind, misread
from trt_workbench.model.sanitize.sanitize import sanitize

X = np.random.default_rng(0).standard_normal((2, 3, 4, 4), np.float32)
REDUCTIONS = ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
CONSTANTS = {
    "last": [3], "two": [1, 3], "zero": [0], "none": [], "pads": [0, 0, 1, 1, 0, 0, 0, 0], "pads2": [1, 1],
    "larger": [2, 3, 8, 8], "smaller": [2, 3, 2, 2], "flat": [-1],
}  # fmt: skip


def written(path: Path, nodes: str, version: int) -> Path:
    """Write a model of one input, x [2,3,4,4], whose nodes read a few constants of whole numbers."""
    constants = {name: np.array(value, np.int64) for name, value in CONSTANTS.items()}
    text = f"{nodes} y = Reshape(result, flat)"  # whatever its shape is
    return write_onnx(path, f"g (float[2,3,4,4] x) => (float[N] y) {{ {text} }}", constants, opset=version)


@pytest.mark.parametrize("version", [18, 20, 22])
@pytest.mark.parametrize(
    ("nodes", "wrong_on_8"),
    [
        *((f"result = Reduce{name}<keepdims=0>(x, two)", True) for name in REDUCTIONS),
        *((f"result = Reduce{name}(x, last)", True) for name in REDUCTIONS),
        ("result = ReduceMax(x)", False),
        ("result = ReduceMean<noop_with_empty_axes=0>(x, none)", True),
        ("result = ReduceSum(x, last)", False),
        ("a, b = Split<axis=2, num_outputs=2>(x) result = Sub(a, b)", False),
        ("result = Resize<mode=\"nearest\", antialias=0>(x, , , larger)", False),
        ("result = Pad(x, pads)", False),
        ("c = Cast<to=6>(x) result = Cast<to=1>(c)", False),
        ("t = Transpose<perm=[1,0,2,3]>(x) result = Reshape(t, flat)", False),
        ("result = AveragePool<kernel_shape=[2,2]>(x)", False),
        ("m = ReduceMean<keepdims=0>(x) f = Constant<value_float=0.0>() yes = Greater(m, f)"
         " result = If (yes) <then_branch = a () => (float[A,B] r) { r = ReduceMax<keepdims=0>(x, two) },"
         " else_branch = b () => (float[A,B] s) { s = ReduceMin<keepdims=0>(x, two) }>", True),
    ],
)  # fmt: skip
def test_what_opset_17_can_say_stays_the_same(tmp_path: Path, nodes: str, wrong_on_8: bool, version: int) -> None:
    path = written(tmp_path / "m.onnx", nodes, version)
    model = Model.open(path)
    assert bool(misread(model.proto)) == wrong_on_8
    rewritten, report = sanitize(model, ["opset-17"])
    onnx.checker.check_model(rewritten, full_check=True)
    assert [entry.version for entry in rewritten.opset_import] == [17]
    assert report.changes["opset-17"][0] == f"opset {version} is now 17"
    np.testing.assert_allclose(run(rewritten, {"x": X})[0], run(path, {"x": X})[0], rtol=1e-6)  # another kernel may sum
    assert not misread(rewritten)
    assert sanitize(model, ["opset-17"])[1].changes == report.changes  # the opened model is as it was


@pytest.mark.parametrize(
    "nodes",
    [
        "s = Shape(x) axes = Slice(s, zero, last) result = ReduceMax(x, axes)",
        "result = ReduceMean<noop_with_empty_axes=1>(x, none)",
        'result = Resize<mode="linear", antialias=1>(x, , , smaller)',
        "result = Pad(x, pads2, , last)",
        "result = AveragePool<kernel_shape=[2,2], dilations=[2,2]>(x)",
    ],
)
def test_what_it_cannot_say_is_left_alone(tmp_path: Path, nodes: str) -> None:
    model = Model.open(written(tmp_path / "m.onnx", nodes, 19))
    operator = nodes.split("result = ")[1].split("(")[0].split("<")[0]
    assert left_behind(model.proto) == misread(model.proto) == [operator]
    _, report = sanitize(model, ["opset-17"])
    assert report.changes["opset-17"] == []


def test_operators_that_17_lacks_are_for_the_parser_to_refuse(tmp_path: Path) -> None:
    model = Model.open(written(tmp_path / "m.onnx", "result = Gelu(x)", 20))
    assert left_behind(model.proto) == ["Gelu"]
    assert misread(model.proto) == []


def test_a_build_that_would_misread_the_model_is_refused(tmp_path: Path) -> None:
    model = Model.open(written(tmp_path / "m.onnx", "result = ReduceMean(x, last)", 18))
    settings = BuildSettings()
    for version in ("10.0.1", "11.1.0", None):
        check_formats(model, settings, _target(version))
    with refused(UsageProblem):
        check_formats(model, settings, _target("8.6.1"))
    older = Model.open(written(tmp_path / "old.onnx", "result = ReduceMax<axes=[3]>(x)", 17))
    check_formats(older, settings, _target("8.6.1"))


def _target(version: str | None) -> Target:
    absent = dict.fromkeys(field.name for field in dataclasses.fields(Target))
    return Target(**{**absent, "tensorrt_version": version})
