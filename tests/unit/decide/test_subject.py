"""Which models a decision can be made about."""

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.decide.candidates import make_candidate
from trt_workbench.decide.request import DecideSettings
from trt_workbench.decide.settings import CalibrationSettings
from trt_workbench.decide.subject import subject_of
from trt_workbench.errors import UsageProblem


@pytest.mark.parametrize(("to", "words"), [("int8", "quantised already"), ("fp16", "computes in fp16")])
def test_a_model_in_a_low_precision_is_no_baseline(tmp_path: Path, to: str, words: str) -> None:
    text = "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    low = tmp_path / "low.onnx"
    make_candidate(path, to, low, calibration=CalibrationSettings(calibration="random"))  # type: ignore[arg-type]
    np.save(tmp_path / "a.npy", np.ones((8, 8), np.float32))
    with pytest.raises(UsageProblem, match=words):
        subject_of(low, DecideSettings(data=tmp_path / "a.npy"), CalibrationSettings(), lambda _: None)


@pytest.mark.parametrize(("data", "overlap"), [(None, True), ("./a.npy", True), ("b.npy", False)])
def test_ranges_found_on_what_is_scored_are_an_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str | None, *, overlap: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_onnx(tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = Relu(x) }")
    for value, name in enumerate(("a.npy", "b.npy")):
        np.save(name, np.full((8, 8), value, np.float32))
    asked = DecideSettings(data=tmp_path / "a.npy")
    found = subject_of(path, asked, CalibrationSettings(calibration=data), lambda _: None)
    assert found.task.overlap == overlap
