"""What makes a kept candidate another one."""

from pathlib import Path

import numpy as np
from tests.onnx_text import write_onnx

from trt_workbench.decide.making import Candidates
from trt_workbench.decide.settings import CalibrationSettings, PlacementSettings
from trt_workbench.model.opened import Model


def test_another_tokenizer_at_the_same_place_makes_another_candidate(tmp_path: Path) -> None:
    path = write_onnx(
        tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }", {"w": np.eye(8, dtype="f4")}
    )
    (tmp_path / "a.txt").write_text("text")
    folders = []
    for words in ("{}", "[]"):
        (tmp_path / "tokenizer.json").write_text(words)
        folders.append(
            Candidates(Model.open(path), CalibrationSettings(str(tmp_path / "a.txt")))._folder(
                "int8", PlacementSettings()
            )
        )
    assert folders[0] != folders[1]
