"""What is counted of other programs, from counters that are set by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from trt_workbench.backends.measure import telemetry as contention
from trt_workbench.backends.measure.telemetry import ContentionWatch, own_cpu_s, own_processes

FIRST = {"user": 10.0, "nice": 1.0, "system": 5.0, "idle": 100.0, "iowait": 2.0, "irq": 0.25, "softirq": 0.5}
FIRST |= {"steal": 3.0}


def watched(monkeypatch: pytest.MonkeyPatch, seconds: float, own: float, ran: tuple[int, int], **later: float) -> Any:
    """Count from FIRST to `later` on top of it, in which the bench used `own` and the process `ran` and waited."""
    times = [FIRST, {name: value + later.get(name, 0.0) for name, value in FIRST.items()}]
    monkeypatch.setattr(psutil, "cpu_times", lambda: SimpleNamespace(**times.pop(0)))
    monkeypatch.setattr(psutil, "getloadavg", lambda: (0.5, 6.0, 7.0))
    used, scheduled = [20.0, 20.0 + own], [(1000, 500), (1000 + ran[0], 500 + ran[1])]
    monkeypatch.setattr(contention, "own_cpu_s", lambda: used.pop(0))
    monkeypatch.setattr(contention, "_scheduled", lambda _: scheduled.pop(0))
    return ContentionWatch(7).result(seconds)


def test_shares_are_those_of_the_time_between(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"user": 4.0, "nice": 0.5, "system": 2.0, "irq": 0.25, "softirq": 0.25, "idle": 8.0, "iowait": 2.0}
    seen = watched(monkeypatch, 2.0, 3.0, (300, 100), **more, steal=3.0)
    assert seen.load_average == 0.5
    assert seen.cpu_steal_share == pytest.approx(3 / 20)
    assert seen.cpu_others == pytest.approx((7 - 3) / 2)
    assert seen.cpu_wait_share == pytest.approx(0.25)


def test_a_little_more_of_its_own_than_of_all_is_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch, 1.0, 0.5, (1, 0), user=0.25, idle=0.5, steal=-0.1)
    assert (seen.cpu_others, seen.cpu_steal_share, seen.cpu_wait_share) == (0.0, 0.0, 0.0)


def test_a_little_of_others_is_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch, 0.5, 0.0, (0, 10), user=0.125, idle=0.25)
    assert (seen.cpu_others, seen.cpu_wait_share) == (0.25, None)  # it did not run: no share can be told


@pytest.mark.parametrize(("seconds", "more"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_without_time_there_is_no_share(monkeypatch: pytest.MonkeyPatch, seconds: float, more: float) -> None:
    seen = watched(monkeypatch, seconds, 0.0, (5, -1), user=more)
    assert (seen.cpu_others, seen.cpu_steal_share, seen.cpu_wait_share) == (None, None, None)


def test_a_system_that_does_not_count_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [SimpleNamespace(user=user, system=1.0, idle=idle) for user, idle in ((1.0, 1.0), (3.0, 2.0))]
    monkeypatch.setattr(psutil, "cpu_times", lambda: times[0])
    monkeypatch.setattr(contention, "own_cpu_s", lambda: 0.0)
    watch = ContentionWatch(1 << 30)  # no such process: nothing ran
    began = watch._began
    assert (began.busy_s, began.steal_s, began.total_s, began.ran_ns, began.waited_ns) == (2.0, 0.0, 3.0, 0, 0)
    times.pop(0)
    seen = watch.result(1.0)
    assert (seen.cpu_others, seen.cpu_steal_share, seen.cpu_wait_share) == (2.0, 0.0, None)


def test_the_benchs_own_time_is_that_of_all_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise psutil.NoSuchProcess(1)

    mine = [SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=1.5, system=0.25)) for _ in range(2)]
    monkeypatch.setattr(contention, "own_processes", lambda: [mine[0], SimpleNamespace(cpu_times=gone), mine[1]])
    assert own_cpu_s() == 3.5


def test_what_a_worker_started_is_the_benchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(psutil.Process, "children", lambda _, recursive: asked.append(recursive) or ["worker"])
    assert own_processes() == [psutil.Process(), "worker"]
    assert asked == [True]


def test_threads_are_added_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in {"1": "100 20 5\n", "2": "3 4 5\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    (tmp_path / "3").mkdir()  # it ended meanwhile
    monkeypatch.setattr(contention, "Path", lambda _: tmp_path)
    assert contention._scheduled(7) == (103, 24)
