"""Starts Python programs as forks of one process that has imported what they need: else each takes a second for it.

The server is this file as a program. It has one thread, as conftest.py keeps OpenBLAS to one, so that forks are sound.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, NoReturn

_WORKER = "trt_workbench.core.serving"


def import_package(*, torch: bool) -> None:
    """Import all modules of the package, but for those that need what is absent; those of PyTorch only with `torch`."""
    import trt_workbench

    root = Path(trt_workbench.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        with contextlib.suppress(ImportError):
            if torch or "import torch" not in path.read_text(encoding="utf-8"):
                __import__(name)


class ForkServer:
    """The owner of the server, which starts with the first fork; a fork gets the environment of its own start."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._socket: socket.socket | None = None
        self._ordering = Lock()

    def popen(self, command: Sequence[str], *, stderr: IO[bytes], **streams: Any) -> Any:
        """Stand in for `subprocess.Popen`: fork for a worker, and start a process for anything else."""
        if _WORKER not in command:
            return subprocess.Popen(command, stderr=stderr, **streams)
        requests, answers = os.pipe(), os.pipe()
        order = {"module": _WORKER, "arguments": command[command.index(_WORKER) :], "env": streams.get("env")}
        order["torch"] = "torch" in sys.modules
        order = {name: value for name, value in order.items() if value is not None}
        worker = self._fork(order, requests[0], answers[1], stderr.fileno())
        os.close(requests[0])
        os.close(answers[1])
        worker.stdin = os.fdopen(requests[1], "w", encoding="utf-8")
        worker.stdout = os.fdopen(answers[0], encoding="utf-8")
        return worker

    def start(self, program: str, *arguments: object, stdout: IO[bytes], stderr: IO[bytes], **changes: Any) -> Fork:
        """Run `python -c program arguments…`; `cwd` and `env` as `subprocess.Popen`'s; `torch`: it is imported."""
        order = {"program": program, "arguments": ["-c", *map(str, arguments)], **changes}
        with Path(os.devnull).open() as nothing:
            return self._fork(order, nothing.fileno(), stdout.fileno(), stderr.fileno())

    def run(
        self, program: str, *arguments: object, timeout: float = 120, **changes: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -c program arguments…` to its end, with its output as text."""
        with TemporaryFile() as stdout, TemporaryFile() as stderr:
            process = self.start(program, *arguments, stdout=stdout, stderr=stderr, **changes)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess([program], code, *texts)

    def _fork(self, order: dict[str, Any], *streams: int) -> Fork:
        with self._ordering:
            if self._socket is None:
                self._socket = self._start()
            usual = {"cwd": str(Path.cwd()), "env": dict(os.environ), "torch": False}
            return Fork(self._socket, {**usual, **order}, streams)

    def _start(self) -> socket.socket:
        mine, its = socket.socketpair()
        command = [sys.executable, "-P", __file__, str(its.fileno())]
        server = subprocess.Popen(command, env=self._environment, pass_fds=[its.fileno()])
        its.close()

        def end() -> None:
            mine.close()
            server.wait()

        atexit.register(end)
        return mine


class Fork:
    """Has the members of `subprocess.Popen` that its users need; text in, text out."""

    def __init__(self, server: socket.socket, order: dict[str, Any], streams: Sequence[int]) -> None:
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.returncode: int | None = None
        state = os.pipe()
        body = json.dumps(order, default=str).encode()
        socket.send_fds(server, [len(body).to_bytes(4, "big")], [*streams, state[1]])
        server.sendall(body)
        os.close(state[1])
        self._state = os.fdopen(state[0])
        self.pid = int(self._state.readline())

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._state], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0)
            self.returncode = int(self._state.readline())
            self._state.close()
        return self.returncode


def serve(orders: socket.socket) -> None:
    """Fork for every order; write the number of each fork and, after its end, its exit code."""
    waiting = selectors.DefaultSelector()
    waiting.register(orders, selectors.EVENT_READ)
    searched = [path for path in sys.path if path not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    while True:
        for key, _ in waiting.select():
            if key.fileobj is orders:
                head, handles, _, _ = socket.recv_fds(orders, 4, 4)
                if not head:
                    return
                order = json.loads(orders.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
                if order["torch"]:
                    import_package(torch=True)
                child = os.fork()
                if child == 0:
                    orders.close()
                    waiting.close()
                    become(order, handles, searched)
                for handle in handles[:3]:
                    os.close(handle)
                os.write(handles[3], f"{child}\n".encode())
                waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, handles[3]))
            else:
                child, state = key.data
                with contextlib.suppress(BrokenPipeError):
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    os.write(state, f"{code}\n".encode())
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                os.close(state)


def become(order: dict[str, Any], handles: Sequence[int], searched: Sequence[str]) -> NoReturn:
    """Run the module as `python -P -m` would, or the program as `python -c`, in this process, and end it."""
    code = 0
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup would have switched off for the tests, too
        os.chdir(order["cwd"])
        for number, handle in enumerate(handles[:3]):
            os.dup2(handle, number)
        for handle in handles:
            os.close(handle)
        os.environ.clear()
        os.environ |= order["env"]
        tempfile.tempdir = None  # the server's
        sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *searched]
        importlib.invalidate_caches()
        sys.argv = order["arguments"]
        if "program" in order:
            exec(compile(order["program"], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.modules.pop(order["module"], None)
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the whole group: the tests end the server
    from trt_workbench.report.style import matplotlib

    matplotlib()  # for the forks
    import_package(torch=False)
    serve(socket.socket(fileno=int(sys.argv[1])))
