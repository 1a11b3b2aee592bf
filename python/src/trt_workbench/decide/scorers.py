"""The processes in which rows are scored."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trt_workbench.core.workers import WorkerProcess, Workers
from trt_workbench.decide.tried import DraftRow
from trt_workbench.quantize import SHARED, TARGET

TIMEOUT_S = 3600.0
"""What a request to a process may take."""


class Scorers:
    """One process for each row, but one for all several builds of a runtime, which share TensorRT's builder.

    A context manager that ends the last process.
    """

    def __init__(self, logs: Path) -> None:
        """Let the processes print into files of a folder."""
        self._logs, self._stack = logs, ExitStack()
        self._place = ""
        self._workers: Workers | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, at once where an error is under way."""
        self._stack.__exit__(kind, error, trace)

    def ask(self, one: DraftRow, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what scoring a row gives. Raises WorkerFailure as `WorkerProcess`."""
        if one.build is None:
            with WorkerProcess(self._logs / f"score-{one.precision}-{one.place}.log", TARGET) as worker:
                return worker.ask(request, TIMEOUT_S)
        if self._workers is None or one.place != self._place:
            self._stack.close()
            self._workers = self._stack.enter_context(Workers(self._logs / f"score-{one.place}.log", SHARED))
            self._place = one.place
        return self._workers.ask(request, TIMEOUT_S)
