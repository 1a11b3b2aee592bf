"""Starts worker processes as forks of one process that has imported what they need: else each takes a second for it.

`ForkedWorkers.popen` stands in for `subprocess.Popen`, as far as `WorkerProcess` uses it. The server is this file as a
program. It has one thread (conftest.py keeps OpenBLAS to one), so that a fork of it is sound.
"""

import array
import atexit
import contextlib
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn


def import_package(*, torch: bool) -> None:
    """Import all modules of the package, but for those that need what is absent; those of PyTorch only with `torch`."""
    import trt_workbench

    root = Path(trt_workbench.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        with contextlib.suppress(ImportError):
            if torch or "import torch" not in path.read_text(encoding="utf-8"):
                __import__(name)


class ForkedWorkers:
    """The owner of the server, which starts with the first worker; a worker gets the environment of its own start."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._socket: socket.socket | None = None

    def popen(self, command: Sequence[str], **streams: Any) -> Any:
        """Start `python … -m MODULE` as a fork, and anything else as a process of its own."""
        if "-m" not in command:
            return subprocess.Popen(command, **streams)
        if self._socket is None:
            self._socket = self._start()
        return ForkedProcess(self._socket, command[command.index("-m") + 1], streams["stderr"])

    def _start(self) -> socket.socket:
        mine, its = socket.socketpair()
        command = [sys.executable, "-P", __file__, str(its.fileno()), "torch" if "torch" in sys.modules else ""]
        server = subprocess.Popen(command, env=self._environment, pass_fds=[its.fileno()])
        its.close()

        def end() -> None:
            mine.close()
            server.wait()

        atexit.register(end)
        return mine


class ForkedProcess:
    """Has the members of `subprocess.Popen` that `WorkerProcess` uses; text in, text out."""

    def __init__(self, server: socket.socket, module: str, stderr: IO[bytes]) -> None:
        requests, answers, state = os.pipe(), os.pipe(), os.pipe()
        its = (requests[0], answers[1], stderr.fileno(), state[1])
        order = {"module": module, "cwd": str(Path.cwd()), "environment": dict(os.environ)}
        body = json.dumps(order).encode()
        server.sendmsg([len(body).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", its))])
        server.sendall(body)
        for end in (requests[0], answers[1], state[1]):
            os.close(end)
        self.stdin = os.fdopen(requests[1], "w", encoding="utf-8")
        self.stdout = os.fdopen(answers[0], encoding="utf-8")
        self._state = os.fdopen(state[0])
        self.pid = int(self._state.readline())
        self.returncode: int | None = None

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as ends:
                ends.register(self._state, selectors.EVENT_READ)
                if not ends.select(timeout):
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
    """Run the module as `python -P -m` would, in this process, and end it."""
    code = 0
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["cwd"])
        for number, handle in enumerate(handles[:3]):
            os.dup2(handle, number)
        for handle in handles:
            os.close(handle)
        os.environ.clear()
        os.environ |= order["environment"]
        sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *searched]
        importlib.invalidate_caches()
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
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
    import_package(torch=sys.argv[2] == "torch")
    serve(socket.socket(fileno=int(sys.argv[1])))
