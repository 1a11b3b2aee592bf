"""Triton's server, as the wheel of nvidia-pytriton 0.7.0 brings it: it starts without a GPU, with the backend python.

`TRTW_TRITON_PYTHON` names the Python of an environment that has that wheel, NumPy below 2 and this package, installed:
the server does not hand PYTHONPATH on. Without it, tests of the server are skipped.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

PYTHON = os.environ.get("TRTW_TRITON_PYTHON", "")
needs_tritonserver = pytest.mark.skipif(
    not PYTHON, reason="TRTW_TRITON_PYTHON names no Python with nvidia-pytriton 0.7.0 and NumPy 1.26"
)
_FACTS = (
    "import json, sys, sysconfig; print(json.dumps([sysconfig.get_path('purelib'), sysconfig.get_config_var('LIBDIR'), "
    "'%d.%d' % sys.version_info[:2]]))"
)


@dataclass
class Running:
    """A server: its URLs, its process and what it prints."""

    http: str
    grpc: str
    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> None:
        """Kill it, as a node that is lost does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def tritonserver(repository: Path, folder: Path) -> Iterator[Running]:
    """Serve a repository; what it prints goes into `folder`. Models that fail to load do not end it."""
    packages, libraries, version = json.loads(subprocess.check_output([PYTHON, "-c", _FACTS]))
    server = Path(packages) / "pytriton" / "tritonserver"
    backends = folder / "backends"
    shutil.copytree(server / "backends", backends, dirs_exist_ok=True)
    stub = "triton_python_backend_stub"
    shutil.copy(server / "python_backend_stubs" / version / stub, backends / "python" / stub)
    http, grpc = _free_ports()
    environment = {
        **os.environ,
        "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{Path(packages) / 'nvidia_pytriton.libs'}:{libraries}",
    }
    words = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
    ]
    words += [f"--http-port={http}", f"--grpc-port={grpc}", "--allow-metrics=false", "--exit-on-error=false"]
    words += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--strict-readiness=false"]
    log = folder / "tritonserver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environment)
    try:
        _wait(process, f"http://127.0.0.1:{http}/v2/health/ready", log)
        yield Running(f"http://127.0.0.1:{http}", f"grpc://127.0.0.1:{grpc}", process, log)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < ends:
        with suppress(OSError), urllib.request.urlopen(url):
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-4000:])


def _free_ports() -> tuple[int, int]:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as first,
        closing(socket.create_server(("127.0.0.1", 0))) as second,
    ):
        return first.getsockname()[1], second.getsockname()[1]
