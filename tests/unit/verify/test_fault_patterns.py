"""The graphs of known faults are valid and right in ONNX Runtime; their ways around compute the same."""

from pathlib import Path

import numpy as np
import pytest
from tests.fault_patterns import PATTERNS, Pattern

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
