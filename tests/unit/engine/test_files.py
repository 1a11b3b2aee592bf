import os
from pathlib import Path

import pytest

from trt_workbench.engine.files import atomic_writer, write_json, write_text


def test_an_error_keeps_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")

    def fail() -> None:
        with atomic_writer(path, "w") as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "file", "text")
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        write_text(tmp_path, "text")
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    write_text(tmp_path / "ours", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "file.json", {"value": float("nan")})
    assert list(tmp_path.iterdir()) == []
