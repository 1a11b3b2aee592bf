"""What makes a kept candidate another one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx

from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import Candidate
from trt_workbench.quantize.making import Candidates
from trt_workbench.quantize.settings import CalibrationSettings


def test_another_tokenizer_at_the_same_place_makes_another_candidate(tmp_path: Path) -> None:
    path = write_onnx(
        tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }", {"w": np.eye(8, dtype="f4")}
    )
    (tmp_path / "a.txt").write_text("text")
    folders = []
    for words in ("{}", "[]"):
        (tmp_path / "tokenizer.json").write_text(words)
        folders.append(Candidates(Model.open(path), CalibrationSettings(str(tmp_path / "a.txt")))._folder("int8"))
    assert folders[0] != folders[1]


def edited(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes(bytes(text))


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def removed(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("harm", [edited, cut_short, removed])
@pytest.mark.parametrize("name", ["m.int8.onnx", "m.int8.json", "m.int8.onnx.seal.json"])
def test_a_kept_candidate_that_changed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, harm: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    weights = {"w": np.linspace(-1, 1, 64, dtype="f4").reshape(8, 8)}
    path = write_onnx(tmp_path / "m.onnx", "g (float[n,8] x) => (float[n,8] y) { y = MatMul(x, w) }", weights)
    notes: list[str] = []
    settings = CalibrationSettings("random", samples=8)

    def make() -> Candidate:
        return Candidates(Model.open(path), settings, note=notes.append).make("int8")

    first = make()
    files = {file.name: file.read_bytes() for file in first.path.parent.iterdir()}
    assert make() == first
    assert notes == []
    harm(first.path.with_name(name))
    again = make()
    assert again.evidence == first.evidence
    assert {file.name: file.read_bytes() for file in first.path.parent.iterdir()} == files
    assert bool(notes) is not (harm is removed and name.endswith("seal.json")), "without a seal there is nothing kept"
    assert all("created again" in note for note in notes)
