import fcntl
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from trt_workbench.core import files
from trt_workbench.core.files import (
    NameLock,
    anything,
    atomic_writer,
    path_within,
    replace_folder,
    scratch_folder,
    write_text,
)


def test_an_error_keeps_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")

    def fail() -> None:
        with atomic_writer(path, "w", over=anything) as file:
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


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    replace_folder(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "file").read_text() == "new"


def test_what_cannot_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "absent", tmp_path / "old")
    assert (tmp_path / "old").is_dir()


def test_a_signal_while_a_lock_is_taken_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def interrupted(file: int, how: int) -> None:
        signal.raise_signal(signal.SIGINT)
        flock(file, how)

    monkeypatch.setattr("fcntl.flock", interrupted)
    lock = NameLock(tmp_path / "lock")
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_name_has_one_holder(tmp_path: Path) -> None:
    one, other = NameLock(tmp_path / "lock"), NameLock(tmp_path / "lock")
    assert one.acquire()
    assert not other.acquire()
    one.release()
    assert other.acquire()
    assert not one.acquire()
    other.release()
    one.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/etc/passwd", "..", "../a", "a/../../b", "a/../b", ".", ""])
def test_names_that_lead_out_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="points outside its folder"):
        path_within(tmp_path, name)


@pytest.mark.parametrize("name", ["a.jpg", "a/b.jpg", "a..b", "./a.jpg"])
def test_names_within_a_folder(tmp_path: Path, name: str) -> None:
    assert path_within(tmp_path, name).is_relative_to(tmp_path)


@pytest.mark.parametrize("function", ["mkdtemp", "rmtree"])
def test_an_interrupt_leaves_no_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """It comes once while the folder is made, and once while it is removed."""
    module = tempfile if function == "mkdtemp" else shutil
    real = getattr(module, function)

    def interrupted(*words: object, **more: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return real(*words, **more)

    monkeypatch.setattr(module, function, interrupted)

    def use() -> None:
        with scratch_folder(parent=tmp_path) as folder:
            (folder / "file").write_text("x")

    with pytest.raises(KeyboardInterrupt):
        use()
    assert list(tmp_path.iterdir()) == []
