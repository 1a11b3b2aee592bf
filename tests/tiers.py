"""What a run of the tests leaves out, and what it says: a line every few seconds, and at the end what is left."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

EVERY_S = 5.0
# What may be left out, by its marker: in words, and the task that runs it.
_LEFT = {"long": ("marked long", "test-all"), "gpu": ("for a GPU", "test-gpu")}
_LAUNCHER = "tasks/run" if "TRTW_TASKS_RUN" in os.environ else "pixi run"
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Without either option all tests run."""
    parser.addoption("--quick", dest="tier", action="store_const", const="quick", help="leave out tests marked long")
    parser.addoption("--long", dest="tier", action="store_const", const="long", help="run what --quick leaves out")


def pytest_configure(config: pytest.Config) -> None:
    """Count, and speak where other processes run the tests: a thread of this one would disturb tests that fork."""
    config.stash[_LEFT_OUT] = Counter()
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Spoken(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what is long, of what other options have left; of parameters, the first `but` stay."""
    earlier, long = Counter[Any](), set[pytest.Item]()
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        if marker := item.get_closest_marker("long"):
            earlier[test] += 1
            if earlier[test] > marker.kwargs.get("but", 0):
                long.add(item)
    yield
    tier = config.getoption("tier")
    if tier and (left := [item for item in items if (item in long) == (tier == "quick")]):
        items[:] = [item for item in items if (item in long) == (tier == "long")]
        config.hook.pytest_deselected(items=left)
        config.stash[_LEFT_OUT]["long"] = len(left) if tier == "quick" else 0


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what needs a GPU; what `-k` leaves out was not asked for."""
    config = items[0].config
    if not config.option.keyword:
        config.stash[_LEFT_OUT]["gpu"] += sum(item.get_closest_marker("gpu") is not None for item in items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say at the end, below pytest's own last line, what was left out and which command runs that."""
    config: Any = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(config.stash[_LEFT_OUT])
    yield
    left_out, reporter = config.stash[_LEFT_OUT], config.pluginmanager.get_plugin("terminalreporter")
    if reporter and left_out.total() and not hasattr(config, "workeroutput"):
        each = [
            f"{left_out[name]} {what} (`{_LAUNCHER} {task}`)" for name, (what, task) in _LEFT.items() if left_out[name]
        ]
        reporter.write_line(f"tests left out: {', '.join(each)}")


class _Spoken:
    """Says how far the run is where a line has not ended for a while: dots alone do not end one."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._total, self._done = config, 0, 0
        self._ended, self._started = threading.Event(), time.monotonic()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._total = len(ids)

    def pytest_runtest_logfinish(self) -> None:
        self._done += 1

    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what the process left out: each has collected the same. One that crashed says nothing."""
        self._config.stash[_LEFT_OUT] |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        spoken, width = self._started, 0
        while reporter and not self._ended.wait(EVERY_S / 10):
            now, earlier = time.monotonic(), width
            width = reporter._tw.width_of_current_line
            if width < earlier:  # a line has ended
                spoken = now
            elif now - spoken >= EVERY_S:
                what = f"{self._done} of {self._total} tests" if self._total else "collecting tests"
                reporter.write(f"{chr(10) if width else ''}[{now - self._started:.0f} s] {what}\n", flush=True)
                spoken, width = now, 0
