import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fork_server import ForkServer
from tests.texts import held, refused

from trt_workbench.core import files
from trt_workbench.core.directory import RunDirectory, destination_of, finished_run, run_directory
from trt_workbench.core.errors import UsageProblem

ROOT = Path(__file__).parents[3]


def make_run(target: Path, command: str = "eval-coco", **contents: str) -> Path:
    """Fill a run directory as a command does."""
    with run_directory(command, target) as run:
        for name, text in contents.items():
            (run.path / name).parent.mkdir(parents=True, exist_ok=True)
            (run.path / name).write_text(text)
        return run.commit("complete")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_committed_run_is_whole(tmp_path: Path) -> None:
    with run_directory("eval-coco", tmp_path / "run") as run:
        (run.path / "metrics.json").write_text("{}")
        assert not (tmp_path / "run").exists()
        run.commit("complete", images=3)
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["status"] == "complete"
    assert document["images"] == 3
    assert json.loads((tmp_path / "run" / "env.json").read_text())["python"]
    assert names(tmp_path) == ["run"]
    assert finished_run() == tmp_path / "run"


def test_a_failed_run_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with run_directory("eval-coco", tmp_path / "run") as run:
            (run.path / "metrics.json").write_text("{}")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []
    assert finished_run() is None


def test_an_older_run_is_replaced_and_what_is_the_users_stays(tmp_path: Path) -> None:
    target = make_run(tmp_path / "run", **{"metrics.json": "old", "layers.json": "old", "plots/old.png": "old"})
    (target / "report.html").write_text("of the old run")
    (target / "notes.txt").write_text("mine")
    (target / "more").mkdir()
    (target / "more" / "notes.txt").write_text("mine, too")
    (target / "link").symlink_to("/nowhere")
    target.chmod(0o750)
    make_run(target, **{"metrics.json": "new", "plots/new.png": "new"})
    assert (target / "metrics.json").read_text() == "new"
    assert names(target / "plots") == ["new.png"]
    assert names(target) == ["env.json", "link", "metrics.json", "more", "notes.txt", "plots", "run.json"]
    assert (target / "notes.txt").read_text() == "mine"
    assert (target / "more" / "notes.txt").read_text() == "mine, too"
    assert target.stat().st_mode & 0o777 == 0o750
    assert names(tmp_path) == ["run"]


def test_what_a_run_has_made_is_never_replaced_by_what_lay_there(tmp_path: Path) -> None:
    old = {"unheard-of.json": "old", "sides/one.json": "old"}
    target = make_run(tmp_path / "run", **old)
    make_run(target, **dict.fromkeys(old, "new"))
    assert [(target / name).read_text() for name in old] == ["new", "new"]


_REPLACES = """
import os, signal, sys
from pathlib import Path
from trt_workbench.core.directory import run_directory
from trt_workbench.core import files
if sys.argv[3] == "renames":
    files._exchange = lambda *_: False
steps = iter(range(int(sys.argv[2])))
def trap(event, arguments):
    # every system call that changes names: os.rename and shutil's removals are audited, the exchange goes by ctypes
    if event in ("os.rename", "os.remove", "os.rmdir", "ctypes.call_function", "os.link") and armed:
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
armed = False
sys.addaudithook(trap)
with run_directory("eval-coco", Path(sys.argv[1])) as run:
    (run.path / "metrics.json").write_text("new")
    armed = True
    run.commit("complete")
armed = False
"""


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_whenever_a_replacing_run_is_killed_one_run_is_whole(fork_server: ForkServer, tmp_path: Path, way: str) -> None:
    seen = []
    for steps in range(40):
        target = make_run(tmp_path / str(steps) / "run", **{"metrics.json": "old"})
        (target / "notes.txt").write_text("mine")
        done = fork_server.run(_REPLACES, target, steps, way)
        with run_directory("eval-coco", target):  # what a killed one has left is put right by the next
            found = (target / "metrics.json").read_text()
            assert json.loads((target / "run.json").read_text())["status"] == "complete"
            assert (target / "notes.txt").read_text() == "mine"
        seen.append(found)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert seen[0] == "old"
    assert seen[-1] == "new"
    assert seen == sorted(seen, reverse=True)
    assert len(seen) > 3


_KILLED = """
import os, signal, sys
from pathlib import Path
from trt_workbench.core.directory import RunDirectory
RunDirectory("bench", Path(sys.argv[1])).begin()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_leaves_goes_when_its_place_is_taken(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path / "run"], check=False)
    assert done.returncode == -signal.SIGKILL
    (staging,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert destination_of(staging) == tmp_path / "run"
    (tmp_path / ".running.20260101T000000Z-abcdef.staging").mkdir()  # of another place
    make_run(tmp_path / "run", "bench")
    assert names(tmp_path) == [".running.20260101T000000Z-abcdef.staging", "run"]


def test_a_place_in_use_is_refused(tmp_path: Path) -> None:
    with run_directory("eval-coco", tmp_path / "run") as first:
        (first.path / "metrics.json").write_text("first")
        for _ in range(2):
            with (
                refused(UsageProblem),
                run_directory("eval-coco", tmp_path / "run"),
            ):
                pass
        first.commit("complete")
    make_run(tmp_path / "run")
    assert names(tmp_path) == ["run"]


_RACES = """
import sys, time
from pathlib import Path
from trt_workbench.core.directory import run_directory
from trt_workbench.core.errors import UsageProblem
while not Path(sys.argv[2]).exists():
    time.sleep(0.001)
try:
    with run_directory("eval-coco", Path(sys.argv[1])) as run:
        (run.path / "plots").mkdir()
        for number in range(20):
            (run.path / "plots" / f"{number}.txt").write_text(sys.argv[3])
            time.sleep(0.01)
        run.commit("complete", number=sys.argv[3])
except UsageProblem as error:
    sys.exit(error.exit_code)
"""


def test_of_runs_at_once_into_one_place_each_is_whole_or_refused(tmp_path: Path, fork_server: ForkServer) -> None:
    start = tmp_path / "start"
    with Path(os.devnull).open("wb") as nothing:
        runs = [
            fork_server.start(_RACES, tmp_path / "run", start, number, stdout=nothing, stderr=nothing)
            for number in range(4)
        ]
    start.touch()
    codes = [run.wait(60) for run in runs]
    assert set(codes) <= {0, 2}
    assert codes.count(0) >= 1
    number = json.loads((tmp_path / "run" / "run.json").read_text())["number"]
    assert {(tmp_path / "run" / "plots" / f"{count}.txt").read_text() for count in range(20)} == {number}
    assert names(tmp_path) == ["run", "start"]


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run" / "plots").mkdir(parents=True)
    (tmp_path / "run" / "plots" / "mine.png").write_text("mine")
    with refused(UsageProblem):
        make_run(tmp_path / "run")
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / "plots" / "mine.png").read_text() == "mine"


OURS: dict[str, Any] = {
    "schema_version": 1, "command": "eval-coco", "run_id": "20260101T000000Z-abcdef", "status": "complete",
    "started_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip


def _without_environment(folder: Path) -> None:
    (folder / "env.json").unlink()


def _linked(folder: Path) -> None:
    (folder / "run.json").rename(folder.parent / "elsewhere.json")
    (folder / "run.json").symlink_to(folder.parent / "elsewhere.json")


@pytest.mark.parametrize(
    ("document", "change"),
    [
        ({}, None),
        ({**OURS, "schema_version": 2}, None),
        ({**OURS, "run_id": "1"}, None),
        ({**OURS, "status": "fine"}, None),
        ({key: value for key, value in OURS.items() if key != "started_at"}, None),
        ([], None),
        (OURS, _without_environment),
        (OURS, _linked),
    ],
)
def test_a_folder_that_is_not_provably_a_run_is_left_alone(
    tmp_path: Path, document: Any, change: Callable[[Path], None] | None
) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "run.json").write_text(json.dumps(document))
    (target / "env.json").write_text('{"schema_version": 1, "command_line": []}')
    (target / "metrics.json").write_text("mine")
    if change:
        change(target)
    with refused(UsageProblem):
        make_run(target)
    assert (target / "metrics.json").read_text() == "mine"


def test_a_run_of_another_command_is_left_alone(tmp_path: Path) -> None:
    target = make_run(tmp_path / "run", "bench", **{"records.jsonl": "measured"})
    with refused(UsageProblem):
        make_run(target, "profile")
    assert (target / "records.jsonl").read_text() == "measured"
    make_run(target, "bench")
    assert json.loads((target / "run.json").read_text())["status"] == "complete"


def test_default_place_is_under_the_output_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    with run_directory("eval-coco") as run:
        destination = run.commit("partial")
    assert destination.parent == tmp_path / "eval-coco"


def test_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with refused(UsageProblem):
        make_run(tmp_path / "run")
    assert names(tmp_path) == ["run"]


def test_output_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with refused(UsageProblem):
        make_run(tmp_path / "file" / "run")


def test_the_current_folder_is_not_replaced_below_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(UsageProblem):
        make_run(Path())
    assert names(tmp_path) == []


_NO_LOCK_FITS = """
import os
from pathlib import Path
from trt_workbench.core.directory import run_directory
os.getuid() or os.setuid(65534)
with run_directory("bench", Path("/proc")):
    pass
"""


def test_a_mount_point_is_refused_as_one_where_no_lock_fits_beside_it(fork_server: ForkServer) -> None:
    """As the volume of a container for a user who is not root."""
    held(fork_server.run(_NO_LOCK_FITS).stderr.splitlines()[-1])


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    make_run(tmp_path / "real", **{"metrics.json": "old"})
    (tmp_path / "run").symlink_to("real")
    make_run(tmp_path / "run", **{"metrics.json": "new"})
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "real" / "metrics.json").read_text() == "new"
    assert names(tmp_path) == ["real", "run"]


# As a user: root may read anywhere.
_NOT_MOVED = """
import sys
from pathlib import Path
from tests.fuzz.surroundings import obey_permissions
from trt_workbench.core.directory import run_directory
from trt_workbench.core.errors import UsageProblem
obey_permissions()
with run_directory("bench", Path(sys.argv[1])) as run:
    (run.path / "records.jsonl").write_text("measured")
    Path(sys.argv[1]).write_text("somebody else's file")
    try:
        run.commit("complete")
    except UsageProblem as error:
        print(error, (run.path / "records.jsonl").read_text(), sep="\\n")
"""


def test_a_finished_run_that_cannot_be_moved_is_kept(tmp_path: Path, fork_server: ForkServer) -> None:
    done = fork_server.run(_NOT_MOVED, tmp_path / "run", env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    held(done.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_a_run_is_put_in_its_place_comes_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    target = make_run(tmp_path / "run", **{"metrics.json": "old"})
    exchange = files._exchange

    def interrupted(one: Path, other: Path) -> bool:
        os.kill(os.getpid(), number)
        return exchange(one, other)

    monkeypatch.setattr(files, "_exchange", interrupted)
    earlier = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            make_run(target, **{"metrics.json": "new"})
    finally:
        signal.signal(number, earlier)
    assert (target / "metrics.json").read_text() == "new"
    assert finished_run() == target
    assert names(tmp_path) == ["run"]


def test_an_interrupt_while_a_run_begins_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trt_workbench.core.environment.collect_environment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_run(tmp_path / "run")
    assert names(tmp_path) == []


def test_nothing_is_made_before_a_run_begins(tmp_path: Path) -> None:
    RunDirectory("bench", tmp_path / "run").discard()
    assert names(tmp_path) == []
