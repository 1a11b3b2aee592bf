"""The processes in which rows are scored."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trt_workbench.backends.registry import runs_plans
from trt_workbench.core.workers import Workers
from trt_workbench.decide.tried import DraftRow
from trt_workbench.quantize import TARGET

TIMEOUT_S = 3600.0
"""What a request to a process may take."""


class Scorers:
    """One process at a time: one for all rows of a runtime that builds engines, one for each row of any other.

    The builds of a runtime share TensorRT's builder so; making one takes longer than building a small engine. A context
    manager that ends the last process.
    """

    def __init__(self, logs: Path) -> None:
        """Let the processes print into files of a folder."""
        self._logs, self._stack = logs, ExitStack()
        self._name = ""
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
        """Return what scoring a row gives. Raises WorkerFailure as `Workers`."""
        name = one.place if runs_plans(one.backend) else f"{one.precision}-{one.place}"
        if name != self._name or self._workers is None:
            self._stack.close()
            self._workers = self._stack.enter_context(Workers(self._logs / f"score-{name}.log", TARGET))
            self._name = name
        return self._workers.ask(request, TIMEOUT_S)
