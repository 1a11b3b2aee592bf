"""Commands that run at one time: so many, each with its log, and none left when the pool ends."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from trt_workbench_fleet.scheduler import CommandPool


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_so_many_run_at_one_time(tmp_path: Path) -> None:
    """Each waits until another one runs, and then long enough for a third."""
    code = "import pathlib, sys, time\nprint(time.time(), flush=True)\n"
    code += "while sum(one.stat().st_size > 0 for one in pathlib.Path(sys.argv[1]).iterdir()) < 2: time.sleep(0.01)\n"
    code += "time.sleep(0.3)\nprint(time.time())"
    with CommandPool(2) as pool:
        codes = [pool.start([*python(code), str(tmp_path)], tmp_path / f"{number}.log") for number in range(4)]
        assert [one.result() for one in codes] == [0] * 4
    spans = [tuple(map(float, (tmp_path / f"{number}.log").read_text().split())) for number in range(4)]
    assert max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans) == 2


def test_how_a_command_ended_is_returned(tmp_path: Path) -> None:
    with CommandPool(1) as pool:
        assert pool.start(python("raise SystemExit(7)"), tmp_path / "log").result() == 7
        killed = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert pool.start(killed, tmp_path / "log").result() == -9


def test_an_interrupt_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    started = tmp_path / "0.log"
    pool = CommandPool(1)
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    codes = [pool.start(python(code), tmp_path / f"{number}.log") for number in range(2)]

    def interrupted() -> None:
        with pool:
            while not (started.exists() and started.read_text().strip()):
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not psutil.pid_exists(int(started.read_text()))
    assert codes[0].result() == -15
    assert codes[1].cancelled() or codes[1].result() is None
