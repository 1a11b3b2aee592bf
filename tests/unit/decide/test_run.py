"""The rows of a decision before anything is scored."""

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.decide.request import DecideSettings
from trt_workbench.decide.run import DecideRun
from trt_workbench.decide.settings import CalibrationSettings
from trt_workbench.decide.subject import Subject, subject_of
from trt_workbench.decide.task import Likeness
from trt_workbench.decide.tried import Tried


def test_a_failure_is_one_on_every_runtime_whatever_its_words(tmp_path: Path) -> None:
    """The message names the file, `budget.onnx`; nothing was left out for a budget."""
    weights = {"w": np.ones((7, 5), np.float32)}  # too small for blocks of 16
    model = write_onnx(tmp_path / "budget.onnx", "g (float[n,7] x) => (float[n,5] y) { y = MatMul(x, w) }", weights)
    calibration = CalibrationSettings()
    subject = Subject(model, Likeness(model, calibration, "cosine"), calibration)
    notes: list[str] = []
    run = DecideRun(subject, DecideSettings(), tmp_path, lambda *_: None, notes.append)
    run._unavailable = {}
    rows = [Tried("nvfp4", "ort-cpu"), Tried("nvfp4", "trt")]
    run._make(rows)
    assert [row.state for row in rows] == ["failed", "failed"]
    assert all("budget.onnx" in (row.reason or "") for row in rows)
    assert notes == ["Making nvfp4"]
    assert run.left_out == []


@pytest.mark.parametrize(("left_s", "repetitions"), [(1000.0, 9), (18.0, 9), (16.0, 7), (13.0, 3), (8.0, 0)])
def test_a_budget_takes_repetitions_before_it_takes_latencies(tmp_path: Path, left_s: float, repetitions: int) -> None:
    calibration = CalibrationSettings()
    subject = Subject(tmp_path / "m.onnx", Likeness(tmp_path / "m.onnx", calibration, "cosine"), calibration)
    run = DecideRun(subject, DecideSettings(budget=3600.0), tmp_path, lambda *_: None, lambda _: None)
    run._began -= 3600.0 - left_s
    assert run._repetitions(2) == repetitions
    assert (run.left_out != []) == (repetitions < 9)
    # and what is scored leaves them their time
    assert run._is_late("it was not scored", run._measuring_s(2, 9)) == (left_s < 18)


@pytest.mark.parametrize(("factor", "state"), [(1.0, None), (1 / 2.4, None), (1 / 255, "failed")])
def test_calibration_data_of_another_normalisation_are_refused_or_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, state: str | None
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)}
    model = write_onnx(tmp_path / "m.onnx", "g (float[n,3,8,8] x) => (float[n,4,6,6] y) { y = Conv(x, w) }", weights)
    for seed, (name, by) in enumerate((("scored", 1.0), ("calibration", factor))):
        values = np.random.default_rng(seed).uniform(0, 255, (12, 3, 8, 8)) * by
        np.save(tmp_path / f"{name}.npy", values.astype(np.float32))
    asked = DecideSettings(data=tmp_path / "scored.npy", search=False)
    calibration = CalibrationSettings(str(tmp_path / "calibration.npy"))
    run = DecideRun(
        subject_of(model, asked, calibration, lambda _: None), asked, tmp_path, lambda *_: None, lambda _: None
    )
    run._unavailable = {}
    row = Tried("int8", "ort-cpu")
    run._make([row])
    assert row.state == state
    assert ("normalised in different ways" in (row.reason or "")) == (state == "failed")
    assert ("may have been normalised" in " ".join(run.notes)) == (factor == 1 / 2.4)
