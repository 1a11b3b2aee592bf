"""The patterns of docs/reference/known-faults.md on the TensorRT that is here, and their ways around.

A pattern that was found wrong on this version is expected to fail, strictly: XPASS(strict) says that it is fixed here,
and that the page and `wrong_on` have to say so. One that is only reported of this version may fail or not; on every
other version it must be right.
"""

from pathlib import Path

import pytest
from tests.fault_patterns import PATTERNS, Pattern

from trt_workbench.engine import native
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]


def verified(model: Path, precision: str) -> Verified:
    # cuBLAS and cuDNN take seconds to load, and no pattern needs them
    known = set(native.require("option_names")()["tactic_sources"]) & {"cublas", "cublas_lt", "cudnn"}
    fast = {"optimization_level": 0, "tactic_sources": [f"-{name}" for name in sorted(known)]}
    ranges = {"N": Range(1, 2, 4)}
    request = VerifyRequest(target=model, precision=precision, ranges=ranges, options=fast, quick=True)
    return verify(request, model.parent)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.name)
def test_the_pattern(pattern: Pattern, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    version = native.load_tensorrt()["version"]
    if version.startswith(pattern.wrong_on):
        reason = f"TensorRT {version} was found wrong; if it is right now, docs/reference/known-faults.md has to say so"
        request.applymarker(pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True))
    elif version.startswith(pattern.reported_on):
        reason = f"reported of TensorRT {version}; this graph has not been found wrong on it"
        request.applymarker(pytest.mark.xfail(reason=reason, raises=AssertionError, strict=False))
    pattern.write(tmp_path / "model.onnx")
    found = verified(tmp_path / "model.onnx", pattern.precision)
    assert found.failures == ()
    assert found.document["cases_unverified"] == 0


@pytest.mark.parametrize("pattern", [one for one in PATTERNS if one.around], ids=lambda one: one.name)
def test_the_way_around(pattern: Pattern, tmp_path: Path) -> None:
    assert pattern.around is not None
    pattern.around(tmp_path / "model.onnx")
    found = verified(tmp_path / "model.onnx", pattern.precision)
    assert found.failures == ()
    assert found.document["cases_unverified"] == 0
