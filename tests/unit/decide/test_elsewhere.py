"""The command that measures on another machine what this one cannot."""

from pathlib import Path

import pytest
from tests.texts import held

from trt_workbench.decide.elsewhere import command_elsewhere, words_elsewhere
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.quantize import CalibrationSettings


def test_a_command_for_a_card_holds_what_was_asked_and_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("a/m.onnx", "a/val.npz", "b/val.npz"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    asked = DecideSettings(
        data=tmp_path / "a/val.npz", max_latency_ms=2.5, max_memory_mib=512.0, keep=("AP", "f1@0.3"), search=False,
        expect={"AP": 0.391}, budget=60.0, repetitions=0, backends=("ort-cpu",), certain=True, seed=5,
    )  # fmt: skip
    calibration = CalibrationSettings(calibration=str(tmp_path / "b/val.npz"), imgsz=(480, 640), threads=2, seed=5)
    words = words_elsewhere(tmp_path / "a/m.onnx", asked, calibration)
    monkeypatch.delenv("PIXI_ENVIRONMENT_NAME", raising=False)
    held(command_elsewhere(words, ["fp16"]))
    monkeypatch.setenv("PIXI_PROJECT_ROOT", str(tmp_path))
    for name in ("dev", "dev-llm"):
        monkeypatch.setenv("PIXI_ENVIRONMENT_NAME", name)
        held(command_elsewhere(("m.onnx",), ["fp16", "int8"]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.py").touch()
    near = words_elsewhere(Path("./a/m.onnx"), DecideSettings(score="./score.py:f", data=Path("b")))
    assert near == ("m.onnx", "--data", "b", "--score", "score.py:f")
    assert words_elsewhere(None, DecideSettings(), CalibrationSettings(calibration="random")) == (
        "--calibration", "random",
    )  # fmt: skip
