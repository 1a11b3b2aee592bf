"""A worker process and the conversation with it. Its crash, hang or lack of memory is an answer, never our end."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_TAIL_CHARACTERS = 600


class WorkerFailure(Exception):
    """The worker did not answer as asked; the text says what happened. Becomes a failed record.

    Attributes:
        kind: "crash", "timeout", or the class of error that the worker met.
        alive: whether the worker can take another request.
    """

    def __init__(self, message: str, kind: str, *, alive: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.alive = alive


class WorkerProcess:
    """One worker. A context manager that ends the process."""

    def __init__(self, log: Path, command: Sequence[str]) -> None:
        """Start the process; what it prints goes to `log`."""
        self._log_path = log
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            # Ctrl-C in a terminal reaches the whole group; the worker's end is ours to decide.
            start_new_session=True,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Return the worker itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, kindly first."""
        with contextlib.suppress(OSError, ValueError):
            self._write({"verb": "close"})
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=0 if error else 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return its answer. Raises WorkerFailure as `answer`."""
        self.send(request)
        return self.answer(timeout_s)

    def send(self, request: dict[str, Any]) -> None:
        """Send a request; `answer` fetches what comes of it."""
        with contextlib.suppress(OSError):  # a dead worker: the missing answer says so
            self._write(request)

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """Return the answer to the oldest request that has none yet.

        Raises:
            WorkerFailure: the worker met an error, ended, or took longer than `timeout_s`.
        """
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self._process.kill()
            raise WorkerFailure(f"no answer within {timeout_s:g} s", "timeout", alive=False) from None
        if line is None:
            raise WorkerFailure(self._death(), "crash", alive=False)
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise WorkerFailure(answer["error"], answer["kind"], alive=True)
        return answer

    def _write(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _death(self) -> str:
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._log.flush()
        said = self._log_path.read_text(encoding="utf-8", errors="replace").strip()[-_TAIL_CHARACTERS:]
        return f"the process {how}" + (f"; its last words: {said}" if said else "")
