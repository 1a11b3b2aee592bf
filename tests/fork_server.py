"""Starts Python programs as forks of one process that has imported what they need: else each takes a second for it.

The server is this file as a program. It has one thread, as conftest.py keeps OpenBLAS to one, so that forks are sound.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
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
    """The owner of the server, which starts with the first fork; a fork gets the environment of its own start.

    What forks start by their `sys.executable`, such as workers, are forks, too; `folder` is for what that names.
    """

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self._started: bytes | None = None
        self._starting = Lock()

    def popen(self, command: Sequence[str], *, stderr: IO[bytes], **streams: Any) -> Any:
        """Stand in for `subprocess.Popen`: fork for a worker of this Python, and start a process for anything else."""
        if command[0] != sys.executable or _WORKER not in command:
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
        self, program: str, *arguments: object, timeout: float | None = None, **changes: Any
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

    def python(self, folder: Path, first: str = "") -> Path:
        """Write `bin/python` of an environment, each start of which, and of its workers, is a fork; return the folder.

        Of the interpreter's options it knows `-c` and `-m`; `first` is a program that each fork runs before.
        """
        _write_python(folder, self._address, first)
        return folder

    @property
    def executable(self) -> str:
        """The `sys.executable` of forks, each start of which is a fork."""
        assert self._address
        return str(self._folder / "bin" / "python")

    def _fork(self, order: dict[str, Any], *streams: int) -> Fork:
        return Fork(self._address, {"python": self.executable, "first": "", **order}, streams)

    @property
    def _address(self) -> bytes:
        with self._starting:
            if self._started is None:
                self._started = self._start()
            return self._started

    def _start(self) -> bytes:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("")  # Linux chooses a name that no file has
            listening.listen()
            command = [sys.executable, "-P", __file__, str(listening.fileno())]
            server = subprocess.Popen(
                command, env=self._environment, pass_fds=[listening.fileno()], stdin=subprocess.PIPE
            )
            atexit.register(server.communicate)  # it ends where its stdin does
            address = bytes(listening.getsockname())
        _write_python(self._folder, address, "")
        return address


def _write_python(folder: Path, address: bytes, first: str) -> None:
    script = folder / "bin" / "python"
    script.parent.mkdir(parents=True)
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
    call = f"from tests.fork_server import stand_in; stand_in({address!r}, {first!r})"
    script.write_text(f"#!{sys.executable} -IS\n{start}\n{call}\n")
    script.chmod(0o755)


class Fork:
    """Has the members of `subprocess.Popen` that its users need; text in, text out."""

    def __init__(self, server: bytes, order: dict[str, Any], streams: Sequence[int]) -> None:
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.returncode: int | None = None
        usual = {"cwd": str(Path.cwd()), "env": dict(os.environ), "torch": False}
        body = json.dumps({**usual, **order}, default=str).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server)
            socket.send_fds(connection, [len(body).to_bytes(4, "big")], streams)
            connection.sendall(body)
            self._state = connection.makefile()  # the fork is killed where nobody has it any more
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


def stand_in(server: bytes, first: str) -> NoReturn:
    """Be a fork that runs what the arguments of this interpreter name, to its end."""
    place = next(number for number, one in enumerate(sys.argv) if one in ("-c", "-m"))
    flag, what, *rest = sys.argv[place:]
    program = (
        {"program": what, "arguments": [flag, *rest]} if flag == "-c" else {"module": what, "arguments": [what, *rest]}
    )
    code = Fork(server, {**program, "python": sys.argv[0], "first": first}, (0, 1, 2)).wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(listening: socket.socket) -> None:
    """Fork for every order; write the number of each fork and, after its end, its exit code. End where stdin does."""
    waiting = selectors.DefaultSelector()
    waiting.register(listening, selectors.EVENT_READ)
    waiting.register(0, selectors.EVENT_READ)
    searched = [path for path in sys.path if path not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    running = set()
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listening:
                connection = listening.accept()[0]
                head, handles, _, _ = socket.recv_fds(connection, 4, 3)
                try:
                    order = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
                except (OSError, ValueError):  # who ordered was interrupted within the order
                    connection.close()
                    for handle in handles:
                        os.close(handle)
                    continue
                if order["torch"]:
                    import_package(torch=True)
                child = os.fork()
                if child == 0:
                    listening.close()
                    waiting.close()
                    connection.close()
                    become(order, handles, searched)
                for handle in handles:
                    os.close(handle)
                with contextlib.suppress(OSError):  # who ordered may be gone by now, which the next event says
                    connection.sendall(f"{child}\n".encode())
                running.add(child)
                waiting.register(connection, selectors.EVENT_READ, child)
                waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, connection))
            elif key.fd == 0:
                return
            elif isinstance(key.data, int):  # who ordered it is gone
                if key.data in running:
                    os.kill(key.data, signal.SIGKILL)
                    waiting.unregister(key.fileobj)
            else:
                child, connection = key.data
                running.remove(child)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                with connection, contextlib.suppress(KeyError, OSError):
                    waiting.unregister(connection)  # a KeyError where it is gone
                    connection.sendall(f"{code}\n".encode())


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
        sys.executable = order["python"]
        exec(compile(order["first"], "<string>", "exec"), {"__name__": "first"})
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

    matplotlib()  # by its settings
    import_package(torch=False)
    for name in ("jinja2", "matplotlib.figure", "numpy.random", "onnxruntime", "pynvml"):  # imported late
        importlib.import_module(name)
    gc.freeze()  # forks would copy what they look through for garbage
    serve(socket.socket(fileno=int(sys.argv[1])))
