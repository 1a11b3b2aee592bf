"""The graphs of known faults are valid and right in ONNX Runtime; their ways around compute the same."""

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from tests.fault_patterns import PATTERNS, Pattern
from tests.onnx_text import write_onnx

from trt_workbench.backends.measure.inputs import random_inputs
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.space import model_space

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "known-faults.md"
each = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.name)


@each
def test_the_graph_is_right_where_its_runtime_is(pattern: Pattern, tmp_path: Path) -> None:
    pattern.write(tmp_path / "model.onnx")
    request = VerifyRequest(tmp_path / "model.onnx", backend="ort-cpu", quick=True, ranges={"N": Range(1, 2, 3)})
    found = verify(request, tmp_path)
    assert found.document["verdict"] == "consistent", found.failures


@pytest.mark.parametrize("pattern", [one for one in PATTERNS if one.around], ids=lambda one: one.name)
def test_the_way_around_computes_the_same(pattern: Pattern, tmp_path: Path) -> None:
    assert pattern.around is not None
    pattern.write(tmp_path / "wrong.onnx")
    pattern.around(tmp_path / "around.onnx")
    with (
        OrtCpuBackend().load(tmp_path / "wrong.onnx") as first,
        OrtCpuBackend().load(tmp_path / "around.onnx") as other,
    ):
        names = {spec.name: ["N" if dim is None else dim for dim in spec.shape] for spec in first.inputs}
        shapes = model_space(first.inputs, names, {"N": Range(3, 3, 3)}).case({}).shapes
        inputs = random_inputs(first.inputs, shapes, 0)
        wanted, found = first.run(inputs), other.run(inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


@each
def test_the_page_has_a_section_of_it(pattern: Pattern) -> None:
    assert f"\n## {pattern.name}\n" in PAGE.read_text(encoding="utf-8")


# What the page says of ONNX Runtime, on the version that it names; XPASS(strict) says that a fault is gone.
of_onnxruntime = pytest.mark.skipif(
    (ort.__version__, platform.machine()) != ("1.31.1", "x86_64"), reason="the page is of ONNX Runtime 1.31.1, x86-64"
)
LEVELS = (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC)
_LOADED = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


@of_onnxruntime
@pytest.mark.parametrize("level", [LEVELS[0], pytest.param(LEVELS[1], marks=pytest.mark.xfail(strict=True))])
def test_onnxruntime_takes_zeros_before_a_pool_for_its_padding(
    level: ort.GraphOptimizationLevel, tmp_path: Path
) -> None:
    text = "g (float[1,1,4,4] x) => (float[1,1,4,4] y) { p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3]>(p) }"
    model = write_onnx(tmp_path / "m.onnx", text, {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])})
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    (found,) = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(
        None, {"x": np.full((1, 1, 4, 4), -1, np.float32)}
    )
    assert found[0, 0, 0].tolist() == [0, 0, 0, 0]


@of_onnxruntime
@pytest.mark.xfail(strict=True)
def test_onnxruntime_loads_a_product_in_fp16(tmp_path: Path) -> None:
    text = """g (float16[4,3,2,4] x) => (float16[3,4,5] y) {
        r = Reshape(x, shape) t = Transpose<perm=[1,0,2]>(r) y = MatMul(t, w)
    }"""
    arrays = {"shape": np.array([0, 0, -1]), "w": np.ones((8, 5), np.float16)}
    model = write_onnx(tmp_path / "m.onnx", text, arrays)
    assert subprocess.run([sys.executable, "-c", _LOADED, model], capture_output=True, check=False).returncode == 0


@of_onnxruntime
@pytest.mark.xfail(strict=True)
def test_onnxruntime_gives_the_size_of_a_pool_that_onnx_says(tmp_path: Path) -> None:
    text = "g (float[1,1,4,2] x) => (float[] y) { y = MaxPool<kernel_shape=[1,3], strides=[1,2]>(x) }"
    session = ort.InferenceSession(write_onnx(tmp_path / "m.onnx", text), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.ones((1, 1, 4, 2), np.float32)})
    assert found.shape == (1, 1, 4, 0)
