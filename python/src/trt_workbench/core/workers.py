"""Python processes of our own: workers that answer requests, and snippets that answer once.

A failure of such a process (crash, hang, out of memory) is a result here and never ends ours. `serving.py` is the
worker's side. Nothing is imported from the current folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from trt_workbench.core.errors import DeviceFailure, WorkbenchError, error_of

if TYPE_CHECKING:
    from trt_workbench.core.stack import Stack

CRASH, TIMEOUT = "crash", "timeout"
TEMPORARY = "trtw-worker-"
"""What the name of a worker's folder of temporary files begins with."""
STACK = "TRTW_STACK"
"""Variable of a process that runs in a stack (`core/stack.py`): folders for the end of its import path."""
NO_LIMIT_S = 7 * 24 * 3600.0
"""What takes as long as its input asks for may take."""
# As `-m`, which would look for the module before anything could be put on the import path.
_RUN_MODULE = """import runpy, sys
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_TAIL_CHARACTERS = 600
# What a worker may take to end once it is asked to.
GRACE_S = 20.0


def python_command(
    *arguments: str, python: str | Path | None = None, packages: Sequence[str] | None = None, first: str = ""
) -> list[str]:
    """Return the command line that runs Python with `arguments`, such as "-m" and a module.

    Plain `-m` and `-c` would put the current folder first on the import path: a file `json.py` in it would be executed.

    Args:
        arguments: of Python; in a stack "-m" or "-c" comes first.
        python: the interpreter; None for that of this process.
        packages: folders for the end of its import path; None for those that this process has of its stack.
        first: lines of code that run before it, "-m" or "-c" being first of the arguments.
    """
    if packages is None:
        packages = [one for one in os.environ.get(STACK, "").split(os.pathsep) if one]
    if packages:
        first += f"import sys; sys.path += {list(packages)!r}\n"
    if first:
        flag, what, *rest = arguments
        if flag == "-m":
            what, rest = _RUN_MODULE, [what, *rest]
        arguments = ("-c", first + what, *rest)
    return [str(python or sys.executable), "-P", *arguments]


def last_words(code: int, stderr: str) -> str:
    """Return what a process said last: of a traceback the error, of other programs three lines; else how it ended."""
    said = [one.strip() for one in stderr.splitlines() if one.strip()]
    lines = 1 if any(one.startswith("Traceback ") for one in said) else 3
    return " ".join(said[-lines:]) or f"the process {ended_how(code)}"


def ended_how(code: int) -> str:
    """Return how a process with this exit code ended, as the end of a sentence; below zero it is a signal's number."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (", probably because memory ran out" if name == "SIGKILL" else "")


class WorkerFailure(Exception):
    """The process did not answer as asked; the text says what happened.

    Attributes:
        kind: "crash", "timeout", or the class of error that the worker met.
        error: what was raised in the worker for users to see; None after a crash, a timeout or a defect.
        alive: whether the worker can take another request.
    """

    def __init__(self, message: str, kind: str, *, alive: bool, error: WorkbenchError | None = None) -> None:
        super().__init__(message)
        self.kind, self.alive, self.error = kind, alive, error

    @property
    def is_sound(self) -> bool:
        """Whether the worker refused and is as good as before; a device that failed may stay so."""
        return self.alive and self.error is not None and not isinstance(self.error, DeviceFailure)


class WorkerProcess(AbstractContextManager["WorkerProcess"]):
    """One worker. A context manager that ends the process and what it started, and removes what it left in TMPDIR."""

    def __init__(
        self, log: Path, target: str, environment: Mapping[str, str] | None = None, *, stack: Stack | None = None
    ) -> None:
        """Start the process.

        Args:
            log: what it prints is added there.
            target: "MODULE" with a function, or "MODULE:CLASS" with a method, for each request; they are called by the
                request's "verb" with the request, a dict, and return a dict. A class may have `close`.
            environment: variables that differ from those of this process, or of the stack.
            stack: whose Python runs it; None for ours.
        """
        self._log_path = log
        self._log = log.open("ab")
        self._log_start = self._log.tell()
        # its own: a worker that crashes or is killed removes nothing
        self._temporary = tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
        try:
            serving = "trt_workbench.core.serving"
            self._process = subprocess.Popen(
                (stack.python if stack else python_command)("-m", serving, target),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env={
                    **(stack.variables if stack else os.environ),
                    **(environment or {}),
                    "TMPDIR": self._temporary.name,
                },
                # Ctrl-C in a terminal reaches the whole group; the worker's end is ours to decide.
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            self._temporary.cleanup()
            raise
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, kindly first, but at once where an error is under way."""
        with contextlib.suppress(OSError, ValueError):
            self._write({"verb": "close"})
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0 if error else GRACE_S)
        finally:
            self.kill()
            self._reader.join()
            if self._process.stdout:
                self._process.stdout.close()
            self._log.close()
            self._temporary.cleanup()

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return its answer. Raises WorkerFailure as `answer`."""
        self.send(request)
        return self.answer(timeout_s)

    def send(self, request: Mapping[str, Any]) -> None:
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
            self.kill()
            raise WorkerFailure(f"no answer within {timeout_s:g} s", TIMEOUT, alive=False) from None
        if line is None or not line.endswith("\n"):  # the end may come within an answer
            self._answers.put(None)
            raise WorkerFailure(self._death(), CRASH, alive=False)
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise WorkerFailure(answer["error"], answer["kind"], alive=True, error=error_of(answer))
        return answer

    def _write(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def interrupt(self) -> None:
        """Let the process hear Ctrl-C, which does not reach it by itself."""
        with contextlib.suppress(OSError):
            os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """End the process and what it has started, which are a group of their own."""
        signal_group(self._process, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _death(self) -> str:
        ended = ended_how(self._process.wait())
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace").strip()[-_TAIL_CHARACTERS:]
        return f"the process {ended}" + (f"; its last output: {said}" if said else "")


class Workers:
    """Workers of one kind, one at a time: the first request starts the first, and a suspect one is replaced.

    Memory that was overwritten, or a device that failed, makes every later call in a process suspect. So a worker is
    replaced after a crash, a failure of the device, a defect, and a time limit. A context manager that ends the last.
    """

    def __init__(self, log: Path, target: str, stack: Stack | None = None) -> None:
        """Let workers print into `log`; `target` and `stack` as of WorkerProcess."""
        self._log, self._target, self._of_stack = log, target, stack
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

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer to a request.

        One that crashes, or finds the device failed, in a worker which has answered others is asked once more in a new
        one: what failed there may be what an earlier request left.

        Raises:
            WorkerFailure: as of WorkerProcess.
        """
        if self._worker is None:
            worker = WorkerProcess(self._log, self._target, stack=self._of_stack)
            self._worker, self._answered = self._stack.enter_context(worker), 0
        try:
            answer = self._worker.ask(request, timeout_s)
        except WorkerFailure as failure:
            if failure.is_sound:
                self._answered += 1
                raise
            used = self._answered
            self._discard()
            if used and (failure.kind == CRASH or isinstance(failure.error, DeviceFailure)):
                return self.ask(request, timeout_s)
            raise
        self._answered += 1
        return answer

    def _discard(self) -> None:
        self._worker = None
        stack, self._stack = self._stack, contextlib.ExitStack()
        error = RuntimeError()  # it may hang: no time to end by itself
        stack.__exit__(RuntimeError, error, None)


@dataclass(frozen=True)
class Ended:
    """A process that ran to its end, or to its limit of time.

    Attributes:
        code: exit code; below zero the number of the signal that killed it; None where the time was over.
        stdout: what it printed.
        stderr: likewise.
    """

    code: int | None
    stdout: str
    stderr: str


def run_to_end(command: list[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end; where the time is over, or we are interrupted, all that it started ends with it."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return Ended(None, "", "")
        except BaseException:
            _end(process)
            raise
    return Ended(process.returncode, stdout, stderr)


def signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Send a signal to a process and what it has started, which are a group of their own."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it has started, kindly first: a container outlives its client that is killed."""
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            signal_group(process, signal.SIGTERM)
            process.communicate(timeout=GRACE_S)
    finally:
        signal_group(process, signal.SIGKILL)


def started(command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command in a group of its own, that reads nothing and prints into `log`. Raises OSError."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def ask_python(code: str, *arguments: str, timeout_s: float = 120, environment: Mapping[str, str] | None = None) -> Any:
    """Run Python code in a process of its own and return the JSON value that it prints last.

    Raises:
        WorkerFailure: it failed, took longer than `timeout_s`, or printed no such value.
    """
    return ask_command(python_command("-c", code, *arguments), timeout_s, environment)


def ask_command(command: list[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> Any:
    """Run a command and return the JSON value that it prints last. Raises WorkerFailure as `ask_python`."""
    try:
        ended = run_to_end(command, timeout_s, environment)
    except OSError as error:
        raise WorkerFailure(f"{command[0]} cannot be started ({error.strerror})", CRASH, alive=False) from error
    if ended.code is None:
        raise WorkerFailure(f"no answer within {timeout_s:g} s", TIMEOUT, alive=False)
    if ended.code:
        raise WorkerFailure(last_words(ended.code, ended.stderr), CRASH, alive=False)
    try:
        return json.loads(ended.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise WorkerFailure("its answer cannot be read", CRASH, alive=False) from error
