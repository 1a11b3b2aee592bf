import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trt_workbench.bench.rundir import run_directory, taken_over
from trt_workbench.errors import UsageProblem


def test_a_committed_run_is_whole(tmp_path: Path) -> None:
    with run_directory("eval-coco", tmp_path / "run") as run:
        (run.path / "metrics.json").write_text("{}")
        assert not (tmp_path / "run").exists()
        run.commit("complete", images=3)
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["status"] == "complete"
    assert document["images"] == 3
    assert json.loads((tmp_path / "run" / "env.json").read_text())["python"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from trt_workbench.bench.rundir import RunDirectory
run = RunDirectory("bench", Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_staging_folder_of_a_killed_run_is_taken_over_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path / "run"], check=False)
    assert done.returncode == -signal.SIGKILL
    (staging,) = tmp_path.iterdir()
    for _ in range(2):
        with taken_over(staging), pytest.raises(UsageProblem, match="goes on with it"), taken_over(staging):
            pass


def test_a_finished_run_is_not_locked(tmp_path: Path) -> None:
    with run_directory("bench", tmp_path / "run") as run:
        with pytest.raises(UsageProblem, match="still writing"), taken_over(run.path):
            pass
        run.commit("complete")
    with taken_over(tmp_path / "run"):
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["env.json", "run.json"]


def test_a_failed_run_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with run_directory("eval-coco", tmp_path / "run") as run:
            (run.path / "metrics.json").write_text("{}")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_older_run_is_replaced_and_strangers_stay(tmp_path: Path) -> None:
    target = tmp_path / "run"
    (target / "plots").mkdir(parents=True)
    (target / "run.json").write_text("{}")
    (target / "plots" / "old.png").write_text("old")
    (target / "metrics.json").write_text("old")
    (target / "notes.txt").write_text("mine")
    with run_directory("eval-coco", target) as run:
        (run.path / "plots").mkdir()
        (run.path / "plots" / "new.png").write_text("new")
        (run.path / "metrics.json").write_text("new")
        run.commit("complete")
    assert (target / "metrics.json").read_text() == "new"
    assert [path.name for path in (target / "plots").iterdir()] == ["new.png"]
    assert (target / "notes.txt").read_text() == "mine"


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "mine.png").write_text("mine")
    with pytest.raises(UsageProblem, match="holds other files"), run_directory("eval-coco", tmp_path):
        pass
    assert (tmp_path / "plots" / "mine.png").read_text() == "mine"


def test_a_run_of_another_command_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "run.json").write_text('{"command": "bench"}')
    with pytest.raises(UsageProblem, match="holds a run of bench"), run_directory("profile", target):
        pass
    with run_directory("bench", target) as run:
        run.commit("complete")
    assert json.loads((target / "run.json").read_text())["status"] == "complete"


def test_default_place_is_under_the_output_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    with run_directory("eval-coco") as run:
        destination = run.commit("partial")
    assert destination.parent == tmp_path / "eval-coco"


def test_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(UsageProblem, match="is a file"), run_directory("eval-coco", tmp_path / "run"):
        pass


def test_output_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UsageProblem, match="cannot be written"), run_directory("eval-coco", tmp_path / "file" / "run"):
        pass
