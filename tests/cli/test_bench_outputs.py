"""What `trtw bench` times is compared with a reference: a backend that is wrong at batch 2 alone is never ranked."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_bench import write_config
from tests.in_app import measured, stdout_of, trtw
from tests.onnx_text import write_onnx

pytestmark = pytest.mark.usefixtures("blank_pictures")

# A backend of its own module: ONNX Runtime's, but every row after the first is off.
FAKE = """
import os
from trt_workbench.backends.ort.cpu import OrtCpuBackend

class FakeBackend(OrtCpuBackend):
    name = "fake"

    def _load(self, model, options):
        session = super()._load(model, options)
        infer = session._infer

        def wrong(inputs):
            outputs = infer(inputs)
            for array in outputs.values():
                array[1:] += float(os.environ.get("FAKE_ERROR", "0"))
            return outputs

        session._infer = wrong
        return session
"""


@pytest.fixture
def fake(tmp_path: Path, outside_backend: Callable[..., None]) -> None:
    """Install a backend that nothing in the package names."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "fake_backend.py").write_text(FAKE)
    outside_backend("fake", "fake_backend:FakeBackend", tmp_path / "lib")


@pytest.fixture
def config(tmp_path: Path, fake: None) -> Path:  # noqa: ARG001
    return write_config(tmp_path, "{backend: ort-cpu}, {backend: fake}")


@pytest.mark.long
def test_a_backend_that_is_wrong_at_batch_two_alone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ERROR", "2.0")
    run = tmp_path / "run"
    result = trtw("bench", config, "--output", run)
    assert result.exit_code == 1
    assert "Wrong outputs at 1 point, not ranked; tiny b2 on fake:" in result.stderr
    assert "y differs by" in result.stderr
    assert result.stdout.startswith("Wrong outputs at 1 of 4 points")
    outcomes = {(one.batch, one.backend): one.status for one in measured(run)}
    assert outcomes == {(1, "ort-cpu"): "ok", (1, "fake"): "ok", (2, "ort-cpu"): "ok", (2, "fake"): "wrong"}
    matched = next(one for one in measured(run) if one.batch == 1 and one.backend == "fake").outputs
    assert (matched["state"], matched["reference"], matched["tolerance"]) == (
        "matched",
        "ort-cpu fp32",
        {"usual": 1e-4, "wrong": 4e-4},
    )
    assert matched["tensors"]["y"]["relative_l2"] == 0
    assert matched["tensors"]["y"]["cosine"] == pytest.approx(1)
    wrong = next(one for one in measured(run) if one.status == "wrong")
    assert wrong.latency_ms is None
    assert wrong.outputs["tensors"]["y"]["row"] == 1
    assert "not ranked" in (run / "report.md").read_text().split("- ")[1]
    assert not list(run.glob(".reference*"))
    good = tmp_path / "good"
    monkeypatch.setenv("FAKE_ERROR", "0")
    assert trtw("bench", config, "--output", good).exit_code == 0
    compared = trtw("compare", good, run, "--json")
    assert compared.exit_code == 1
    assert "wrong in B" in {point["outcome"] for point in json.loads(compared.stdout)["points"]}


@pytest.mark.long
def test_what_is_not_compared_is_said(config: Path, tmp_path: Path) -> None:
    config.write_text("compare_outputs: false\n" + config.read_text())
    said = " ".join(stdout_of("bench", config, "--output", tmp_path / "run").split())
    assert "The outputs of 4 points were not compared with a reference: the configuration sets compare_out" in said
    assert {(one.outputs or {})["state"] for one in measured(tmp_path / "run")} == {"not compared"}


def test_what_rounding_alone_makes_is_neither_far_nor_wrong(config: Path, tmp_path: Path) -> None:
    """A difference of two large sums: in half precision it is rounding, whatever computes it."""
    pytest.importorskip("torch")
    weights = {"h": np.float32(512.0)}
    text = "g (float[batch,64] x) => (float[batch,64] y) { big = Add(x, h) y = Sub(big, h) }"
    write_onnx(tmp_path / "m.onnx", text, weights)
    settings = config.read_text().replace("{backend: fake}", "{backend: torch, precision: fp16}")
    config.write_text(settings.replace("batch: [1, 2]", "batch: 2"))
    assert trtw("bench", config, "--output", tmp_path / "run").exit_code == 0
    found = [one for one in measured(tmp_path / "run") if one.backend == "torch"]
    assert [one.status for one in found] == ["ok"] * 2
    for one in found:
        tensor = one.outputs["tensors"]["y"]
        assert tensor["relative_l2"] > one.outputs["tolerance"]["usual"]
        assert 0.5 < tensor["rounding"] / tensor["relative_l2"] < 2
        assert (one.outputs["state"], one.outputs["reason"]) == ("matched", None)
