"""A stand-in for a worker process: the same conversation in this process, where tests plant their faults."""

import io
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trt_workbench.core.errors import error_of
from trt_workbench.core.serving import resolve, serve
from trt_workbench.core.workers import WorkerFailure


class InProcessWorker:
    """Has the interface of `WorkerProcess`; what answers is made anew for each request."""

    def __init__(self, log: Path, target: str, environment: object = None, *, stack: object = None) -> None:
        """Take what a process would be started with."""
        del log, environment, stack
        self._target = target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is no process to end."""

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:  # noqa: ARG002 - it has no way to end a call
        answers = io.StringIO()
        serve(resolve(self._target), io.StringIO(json.dumps(request, default=str) + "\n"), answers)
        answer: dict[str, Any] = json.loads(answers.getvalue())
        if not answer.pop("ok"):
            raise WorkerFailure(answer["error"], answer["kind"], alive=True, error=error_of(answer))
        return answer
