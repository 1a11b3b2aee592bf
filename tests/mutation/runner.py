"""Running tests on a mutant, in a forked process whose import system gives them the changed module."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_MEMORY = 4 * 2**30  # bytes of address space: a changed size must not take all of the machine's


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds one module, and gives a source of its own for it."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self._path, loader=self) if name == self._name else None

    def get_filename(self, name: str) -> str:  # noqa: ARG002
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:  # noqa: ARG002
        return self._source.encode()


class _Quick:
    """Examples of hypothesis that are the same every time; what fails is neither shrunk nor kept."""

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutation")


def preload() -> list[ModuleType]:
    """Import what every forked process would import anew; nothing of the project's own."""
    import hypothesis.strategies
    import numpy.testing
    import onnx
    import psutil
    import pydantic

    return [hypothesis.strategies, numpy.testing, onnx, psutil, pydantic]


def start(name: str, path: Path, source: str, tests: Sequence[str], log: Path) -> int:
    """Fork a process that runs the tests on a module with this source; it ends with pytest's exit code.

    What it prints is in `log`.
    """
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(written, stream)
        sys.meta_path.insert(0, _Changed(name, path, source))
        words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
        words += ["-W", "ignore::pytest.PytestAssertRewriteWarning", *tests]  # of what was imported before
        code = int(pytest.main(words, plugins=[_Quick()]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def outcomes(
    name: str, path: Path, sources: Sequence[str], tests: Sequence[str], processes: int, limit_s: float, logs: Path
) -> Iterator[tuple[int, int, float]]:
    """Run the tests on every source, several at once.

    Yields:
        The source's place, pytest's exit code (-9 for one that did not end within `limit_s`), and seconds.
    """
    waiting, running = list(enumerate(sources)), dict[int, tuple[int, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                place, source = waiting.pop(0)
                running[start(name, path, source, tests, logs / f"{place}.log")] = place, time.monotonic()
            for child, (place, began) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                took = time.monotonic() - began
                if not ended and took < limit_s:
                    continue
                _end(child)
                if not ended:
                    _, status = os.waitpid(child, 0)
                del running[child]
                yield place, os.waitstatus_to_exitcode(status), took
            time.sleep(0.01)
    finally:
        for child in running:
            _end(child)


def _end(group: int) -> None:
    """End a process and what its tests left running."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
