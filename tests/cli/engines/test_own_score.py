"""`eval-vision --score` on a plan: its samples are those of the model beside it, its outputs the engine's."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, stdout_of

SCORE = """def apart(outputs, target):
    return float(abs(outputs["total"] - target).max())
apart.better = "lower"
"""


@pytest.fixture
def plan(model: Path, tmp_path: Path) -> Path:
    stdout_of("build-engine", model, "-o", tmp_path / "model.plan")
    return tmp_path / "model.plan"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    monkeypatch.chdir(tmp_path)
    x, y = np.random.default_rng(1).random((2, 40, 3), np.float32) + 1
    np.savez("data.npz", x=x, y=y, target=x + y + np.arange(40, dtype=np.float32)[:, None] / 1000)
    Path("apart.py").write_text(SCORE)
    return ("--data", "data.npz", "--score", "apart.py:apart")


def test_a_plan_is_scored_as_its_model_is(plan: Path, model: Path, asked: tuple[object, ...]) -> None:
    found = json_of("eval-vision", plan, *asked, "--batch", 2, "--output", "engine")
    own = json_of("eval-vision", model, *asked, "--batch", 2, "--output", "model")
    assert (found["backend"], own["backend"]) == ("trt", "ort-cpu")
    assert found["model"] == str(plan.absolute())
    assert found["model_sha256"] != own["model_sha256"]
    assert found["score"]["value"] == own["score"]["value"] == pytest.approx(0.0195, rel=1e-4)


def test_what_is_scored_is_the_plan_and_not_the_model_beside_it(
    plan: Path, asked: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "2")
    found = json_of("eval-vision", plan, *asked, "--batch", 2, "--output", "run", code=1)
    assert found["score"]["value"] != pytest.approx(0.0195, rel=1e-4)


def test_a_plan_without_its_model_says_what_is_missing(plan: Path, model: Path, asked: tuple[object, ...]) -> None:
    shutil.move(model, "elsewhere.onnx")
    said = stderr_of("eval-vision", plan, *asked, "--output", "run", code=2)
    assert f"the model that the plan was built from; keep it, and the plan's manifest, beside the plan: {plan}" in said
    assert not Path("run").exists()
