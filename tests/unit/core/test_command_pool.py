"""Commands that run at one time: so many, each with its log, and none left when the pool ends."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from trt_workbench.core.workers import CommandPool


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_so_many_run_at_one_time(tmp_path: Path) -> None:
    code = "import time; print(time.time(), flush=True); time.sleep(0.3); print(time.time())"
    with CommandPool(2) as pool:
        codes = [pool.start(python(code), tmp_path / f"{number}.log") for number in range(4)]
        assert [one.result(60) for one in codes] == [0] * 4
    spans = [tuple(map(float, (tmp_path / f"{number}.log").read_text().split())) for number in range(4)]
    assert max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans) == 2


def test_how_a_command_ended_is_returned(tmp_path: Path) -> None:
    with CommandPool(1) as pool:
        assert pool.start(python("raise SystemExit(7)"), tmp_path / "log").result(60) == 7
        killed = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert pool.start(killed, tmp_path / "log").result(60) == -9


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
