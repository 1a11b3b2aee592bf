"""The script of a bug report: short, sound Python, and it asks for what the trial asked for."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import parse_onnx

from trt_workbench.core.compare import Difference
from trt_workbench.engine.profiles import Profile
from trt_workbench.verify.bisect import Bisected
from trt_workbench.verify.cut import Cut
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.reproduction import script
from trt_workbench.verify.trials import Outcome, Verdict
from trt_workbench.verify.yardstick import Limit

X = np.ones((2, 3), np.float32)


def of(
    backend: str,
    precision: str = "fp32",
    provenance: Any = None,
    profile: str = "",
    operator: str = "Exp",
    **options: Any,
) -> str:
    model = parse_onnx("part (float[2,3] x) => (float[2,3] y) { y = Exp(x) }")
    cut = Cut(model, {"x": X}, {"y": X}, Profile.model_validate(profile) if profile else None)
    limits = {"y": Limit("fp32", 1e-6, 2e-6, 0.0, 1e-7)}
    verdict = Verdict("wrong", ("y",), 10.0)
    outcome = Outcome(cut, verdict, {"x": X}, {"y": X}, {"y": X}, {"y": Difference()}, limits, provenance or {})
    found = Bisected(nodes=("exp",), operators=(operator,), outcome=outcome)
    request = VerifyRequest(target=Path("m.onnx"), backend=backend, precision=precision, options=options)
    text = script(request, found)
    compile(text, "reproduce.py", "exec")
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 200
    return text


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_name_in_a_model_is_no_line_of_the_script(quote: str) -> None:
    name = f"Exp{3 * quote}\nraise SystemExit(3)\n\\N{{DIGIT ONE}}{3 * quote}\\"
    tree = ast.parse(of("ort-cpu", operator=name))
    assert name in str(ast.get_docstring(tree, clean=False))
    assert not any(isinstance(node, ast.Raise) for node in ast.walk(tree))


@pytest.fixture(autouse=True)
def _available(monkeypatch: pytest.MonkeyPatch) -> None:
    from trt_workbench.backends.base import Availability
    from trt_workbench.verify import opening

    class Backend:
        def availability(self) -> Availability:
            return Availability(ok=True, versions={"tensorrt": "8.6.0"})

    monkeypatch.setattr(opening, "require_backend", lambda *_: Backend())


@pytest.mark.parametrize(
    ("precision", "options", "lines"),
    [
        ("fp32", {}, ["config.clear_flag(trt.BuilderFlag.TF32)"]),
        ("fp16", {}, ["config.set_flag(trt.BuilderFlag.FP16)", "config.clear_flag(trt.BuilderFlag.TF32)"]),
        ("fp32+tf32", {"optimization_level": 0}, ["config.builder_optimization_level = 0"]),
        (
            "fp32",
            {"tactic_sources": ["-cublas", "-cublas_lt", "-cudnn"], "optimization_level": 3},
            [
                "config.set_tactic_sources(config.get_tactic_sources() & ~(1 << int(trt.TacticSource.CUBLAS) | "
                "1 << int(trt.TacticSource.CUBLAS_LT) | 1 << int(trt.TacticSource.CUDNN)))"
            ],
        ),
        (
            "bf16",
            {"profile": "x:1x3/2x3/4x3", "tactic_sources": "-CUDNN", "optimization_level": 5},
            ["for name, shapes in {'x': ((1, 3), (2, 3), (4, 3))}.items(): profile.set_shape(name, *shapes)"],
        ),
    ],
)
def test_of_tensorrt_it_sets_the_builder_as_the_trial_did(
    precision: str, options: dict[str, Any], lines: list[str]
) -> None:
    text = of("trt", precision, **options)
    assert "tensorrt as trt" in text
    for line in lines:
        assert line in text.splitlines()
    assert ("TF32" in text) == ("tf32" not in precision)


@pytest.mark.parametrize(
    ("precision", "more"),
    [("int8", {}), ("fp32", {"max_tactics": 3}), ("fp16", {"provenance": {"converted_file": "model.onnx"}})],
)
def test_what_it_cannot_say_in_few_lines_it_asks_this_package_for(precision: str, more: dict[str, Any]) -> None:
    text = of("trt", precision, **more)
    assert "require_backend('trt').load(here / \"minimal.onnx\", options)" in text
    assert f"precision={precision!r}" in text


def test_of_onnx_runtime_it_names_the_provider() -> None:
    assert 'providers=["CUDAExecutionProvider"]' in of("ort-cuda")
    assert "require_backend('ort-cuda')" in of("ort-cuda", "fp16")


def test_of_others_it_asks_this_package() -> None:
    assert "require_backend('torch-compile')" in of("torch-compile")


def test_a_complex_reference_keeps_both_parts_in_the_script() -> None:
    """What was found is real, and equals the reference's real part."""
    from trt_workbench.verify.reproduction import _END
    from trt_workbench.verify.trials import _of_type

    found, exact = np.ones(4, np.float32), np.full(4, 1 + 2j, np.complex64)
    np.testing.assert_array_equal(_of_type(exact, found), exact)
    assert _of_type(exact.real.astype(np.float64), found).dtype == np.float32
    for want, code in ((exact, 1), (found, 0)):
        with pytest.raises(SystemExit) as ended:
            exec(
                "import sys\n" + _END.format(explained=1e-6), {"np": np, "found": {"y": found}, "expected": {"y": want}}
            )
        assert ended.value.code == code
