"""Trying what may crash in a worker process, which lives on from request to request until it is suspect.

An engine that reads memory which is not its own can end the process, or kill its CUDA context: every later call in it
fails. So the worker is replaced after a crash, a failure of the device, a defect, and where a time limit is over.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trt_workbench.errors import CheckFailed, ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.measure.worker_process import WorkerFailure, WorkerProcess
from trt_workbench.system.interpreter import python_command
from trt_workbench.verify.crash import is_crash
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.settings import Range

COMMAND = tuple(python_command("-m", "trt_workbench.verify.worker"))
# Of a healthy process: it can go on.
_ERRORS = {error.__name__: error for error in (UsageProblem, ComponentMissing, CheckFailed)}


class Crashed(DeviceFailure):
    """What was tried ended its process, killed its device context, or did not answer in time.

    Attributes:
        timed_out: whether no answer came in time.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Isolated:
    """Workers, one at a time; the first is started by the first request. A context manager that ends the last."""

    def __init__(self, log: Path) -> None:
        """Let workers print into `log`."""
        self._log = log
        self._stack = contextlib.ExitStack()
        self._worker: WorkerProcess | None = None
        self._answered = 0  # by the worker that runs

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker, at once where an error is under way."""
        self._stack.__exit__(kind, error, trace)

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer to a request.

        One that fails in a worker which has answered others is asked once more in a new one: what failed there may be
        what an earlier request left.

        Raises:
            Crashed: the worker crashed, lost its device, or did not answer in time.
            DeviceFailure: the device is out of memory, or failed in another way of the moment.
            UsageProblem, ComponentMissing, CheckFailed: as what was tried raised it.
            RuntimeError: what was tried failed in another way; the text says how.
        """
        if self._worker is None:
            self._worker, self._answered = self._stack.enter_context(WorkerProcess(self._log, COMMAND)), 0
        try:
            answer = self._worker.ask(request, timeout_s)
        except WorkerFailure as failure:
            if failure.kind in _ERRORS:
                self._answered += 1
                raise _ERRORS[failure.kind](str(failure)) from failure
            used = self._answered
            self._discard()
            if used and failure.kind in ("crash", DeviceFailure.__name__):
                return self.ask(request, timeout_s)
            raise _error(failure) from failure
        self._answered += 1
        return answer

    def _discard(self) -> None:
        self._worker = None
        stack, self._stack = self._stack, contextlib.ExitStack()
        error = RuntimeError()  # it may hang: no time to end by itself
        stack.__exit__(RuntimeError, error, None)


def _error(failure: WorkerFailure) -> Exception:
    text = str(failure)
    if failure.kind in ("crash", "timeout"):
        return Crashed(text, timed_out=failure.kind == "timeout")
    if failure.kind == DeviceFailure.__name__:
        error = DeviceFailure(text)
        return Crashed(text) if is_crash(error) else error
    return RuntimeError(text)


def document_of(request: VerifyRequest) -> dict[str, Any]:
    """Return a request without a budget as JSON values, but for paths, which become texts on the way."""
    assert request.budget is None
    return asdict(request)


def request_of(document: dict[str, Any]) -> VerifyRequest:
    """Return the request that `document_of` was given."""
    model = Path(document["model"]) if document["model"] else None
    ranges = {name: Range(**sizes) for name, sizes in document["ranges"].items()}
    kept = {**document, "target": Path(document["target"]), "model": model, "ranges": ranges}
    return VerifyRequest(**{**kept, "inputs": tuple(document["inputs"])})
