"""What is said of a path that is not there or is something else, and which files are replaced."""

import os
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import is_signed, require_file, signed, write_bytes, write_text


@pytest.mark.parametrize("name", ["absent.onnx", "folder", "model.onnx", "Folder/absent.onnx"])
def test_a_file_that_is_not_there_and_what_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "Model.onnx").touch()
    require_file("model file", tmp_path / "Model.onnx")
    with refused(UsageProblem):
        require_file("model file", tmp_path / name)


@pytest.mark.parametrize("folder", ["", "runs/one", "runs/.one.20260101T000000Z-0123ab.staging"])
def test_only_what_is_ours_is_replaced(folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "figures.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "runs/one").mkdir(parents=True, exist_ok=True)
    (tmp_path / "runs/one/run.json").touch()
    write_text(path, "first")
    if folder:
        write_text(path, "second")
        return
    with refused(UsageProblem):
        write_text(path, "second")
    with refused(UsageProblem):
        write_bytes(path, b"second", over=is_signed)
    assert path.read_text() == "first"
    write_text(path, signed("second"), over=lambda file: file.read_text() == "first")
    write_text(path, signed("third\n"), over=is_signed)
    path.write_text(path.read_text().replace("third", "mine"))
    with refused(UsageProblem):
        write_text(path, "fourth", over=is_signed)
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["figures.json"]


def test_files_have_the_umask_of_the_process_in_every_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "umask", asked.append)
    write_text(tmp_path / "one", "x")
    (tmp_path / "other").touch()
    assert (tmp_path / "one").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert asked == []  # to ask is to change it for a moment, for all threads
