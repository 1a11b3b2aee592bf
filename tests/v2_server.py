"""A server of the Open Inference Protocol in this process, with the faults that real ones have.

It runs an ONNX file on the processor, puts waiting calls together as a dynamic batcher does, and speaks HTTP alone.
"""

import contextlib
import http
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench_serving.backends.datatypes import NUMPY, PROTOCOL

Arrays = dict[str, NDArray[Any]]
# Why a request is refused, as Triton puts it.
_TOO_LARGE = "inference request batch-size must be <= {} for '{}'"

_CROWD = 8


@dataclass
class V2Server:
    """What is served, and how.

    Attributes:
        model: ONNX file.
        name: of the served model; the file's by default.
        token: that callers have to send.
        ready: whether the model is loaded; where it is not, why.
        binary: whether tensors may be bytes behind the JSON.
        config: whether the configuration is told, as Triton does.
        most: rows of a batch.
        wait_s: how long a call waits for others, to run as one batch with them; 0 for no batching.
        fault: "rows rotated" in merged batches, "reversed batch", "another version", "no output", "short", "not json",
            "not deflated", "dies" (closes every connection from the third call on), "resets" (those of more than
            eight), "fails", "busy".
        slow_s: how long each call takes longer, until the server ends.
        specs: what replaces the description of tensors, such as `{"inputs": [...]}`.
        says: what replaces the server's description of itself.
    """

    model: Path
    name: str = ""
    token: str = ""
    ready: str = ""
    binary: bool = True
    config: bool = True
    most: int = 16
    wait_s: float = 0.0
    fault: str = ""
    slow_s: float = 0.0
    specs: dict[str, Any] = field(default_factory=dict)
    says: dict[str, Any] = field(default_factory=dict)
    requests: int = 0
    calls: int = 0
    merged: int = 0  # batches of more than one call

    def __post_init__(self) -> None:
        self.name = self.name or self.model.stem
        self._session: Session = OrtCpuBackend().load(self.model, SessionOptions(threads=1, concurrency=16))
        self._waiting: list[tuple[Arrays, threading.Event, list[Arrays]]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve, and yield the URL."""
        server = self._server = _Server(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            self.end()
            server.shutdown()
            self.end_connections()
            server.server_close()
            thread.join()

    def end(self) -> None:
        """Let slow calls end."""
        self._ended.set()

    def end_connections(self) -> None:
        """Close what is open, as a server does after a while."""
        while self._server.open:
            with contextlib.suppress(OSError):  # gone already
                self._server.open.pop().shutdown(socket.SHUT_RDWR)

    def described(self) -> dict[str, Any]:
        """Return the model's metadata."""

        def listed(specs: Any) -> list[dict[str, Any]]:
            return [
                {"name": s.name, "datatype": PROTOCOL[s.dtype], "shape": [-1 if d is None else d for d in s.shape]}
                for s in specs
            ]

        tensors = {"inputs": listed(self._session.inputs), "outputs": listed(self._session.outputs)}
        return {"name": self.name, "versions": ["1"], "platform": "double", **tensors, **self.specs}

    def configured(self) -> dict[str, Any]:
        """Return the model's configuration."""
        batching = {"dynamic_batching": {"max_queue_delay_microseconds": round(self.wait_s * 1e6)}}
        groups = [{"name": self.name, "kind": "KIND_CPU", "count": 1, "gpus": []}]
        return {
            "name": self.name,
            "max_batch_size": self.most,
            "instance_group": groups,
            **(batching if self.wait_s else {}),
        }

    def run(self, inputs: Arrays) -> Arrays:
        """Run one call, with those that come meanwhile."""
        with self._lock:
            self.calls += 1
        self._ended.wait(self.slow_s)
        if not self.wait_s:
            return self._spoilt(self._session.run(inputs))
        done, answers = threading.Event(), list[Arrays]()
        with self._lock:
            self._waiting.append((inputs, done, answers))
            is_first = len(self._waiting) == 1
        if is_first:
            time.sleep(self.wait_s)
            self._run_waiting()
        done.wait()
        return answers[0]

    def _run_waiting(self) -> None:
        with self._lock:
            calls, self._waiting = self._waiting, []
        sizes = [len(next(iter(inputs.values()))) for inputs, _, _ in calls]
        whole = {name: np.concatenate([one[0][name] for one in calls]) for name in calls[0][0]}
        found = self._session.run(whole)
        if len(calls) > 1:
            self.merged += 1
            if self.fault == "rows rotated":
                found = {name: np.roll(array, 1, axis=0) for name, array in found.items()}
        start = 0
        for (_, done, answers), size in zip(calls, sizes, strict=True):
            answers.append(self._spoilt({name: array[start : start + size] for name, array in found.items()}))
            start += size
            done.set()

    def _spoilt(self, found: Arrays) -> Arrays:
        if self.fault == "reversed batch":
            return {name: array[::-1] for name, array in found.items()}
        if self.fault == "short":
            return {name: array[:, :-1] for name, array in found.items()}
        return dict(list(found.items())[1:]) if self.fault == "no output" else found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # rows that come at once connect at once; beyond the queue Linux resets them

    def __init__(self, *arguments: Any) -> None:
        self.open: list[Any] = []
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is no news."""


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Give the one request these bytes, and yield the URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as door:

        def once() -> None:
            line, _ = door.accept()
            door.close()  # who asks again is refused
            with closing(line):
                line.recv(4096)
                line.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
        thread.join()


def _handler(server: V2Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            self._served(b"")

        def do_POST(self) -> None:
            self._served(self.rfile.read(int(self.headers["Content-Length"])))

        def _served(self, body: bytes) -> None:
            server.requests += 1
            if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                self._json({"error": "no"}, http.HTTPStatus.UNAUTHORIZED)
                return
            own = f"/v2/models/{server.name}"
            path = unquote(self.path).replace("/versions/1", "")
            if path == "/v2":
                extensions = ["binary_tensor_data"] if server.binary else []
                self._json({"name": "double", "version": "1.0", "extensions": extensions, **server.says})
            elif path == f"{own}/ready":
                self._json({}, http.HTTPStatus.BAD_REQUEST if server.ready else http.HTTPStatus.OK)
            elif path == "/v2/repository/index":
                self._json([{"name": server.name, "version": "1", "state": "?", "reason": server.ready}])
            elif path == own and not server.ready:
                self._json(server.described())
            elif path == f"{own}/config" and server.config:
                self._json(server.configured())
            elif path == f"{own}/infer":
                self._infer(body)
            else:
                self._json({"error": f"not found: {self.path}"}, http.HTTPStatus.NOT_FOUND)

        def _infer(self, body: bytes) -> None:
            crowded = server.fault == "resets" and len(server._server.open) > _CROWD
            if crowded or (server.fault == "dies" and server.calls >= 2):
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if server.fault in ("fails", "busy") and server.calls >= 2:
                busy = server.fault == "busy"
                status = http.HTTPStatus.TOO_MANY_REQUESTS if busy else http.HTTPStatus.INTERNAL_SERVER_ERROR
                self._json({"error": "no memory"}, status)
                return
            size = int(self.headers.get("Inference-Header-Content-Length", len(body)))
            asked = json.loads(body[:size])
            refusal = _refusal(asked, body[size:], server.described(), binary=server.binary)
            inputs = {} if refusal else _inputs(asked, body[size:])
            if not refusal and len(next(iter(inputs.values()))) > server.most:
                refusal = _TOO_LARGE.format(server.most, server.name)
            if refusal:
                self._json({"error": refusal}, http.HTTPStatus.BAD_REQUEST)
                return
            self._answer(server.run(inputs), {one["name"] for one in asked.get("outputs", ()) if _is_binary(one)})

        def _answer(self, found: Arrays, as_bytes: set[str]) -> None:
            """Send bytes for the outputs that were asked for so, numbers for all others."""
            outputs, blobs = [], []
            for name, array in found.items():
                one = {"name": name, "datatype": PROTOCOL[array.dtype.name], "shape": list(array.shape)}
                if name in as_bytes:
                    blobs.append(array.tobytes())
                    one["parameters"] = {"binary_data_size": len(blobs[-1])}
                else:
                    one["data"] = array.reshape(-1).tolist()
                outputs.append(one)
            version = str(server.calls) if server.fault == "another version" else "1"
            head = json.dumps({"model_name": server.name, "model_version": version, "outputs": outputs}).encode()
            if server.fault == "not json":
                head = b"<html>"
            more = {"Inference-Header-Content-Length": str(len(head))} if blobs else {}
            if server.fault == "not deflated":
                more["Content-Encoding"] = "deflate"
            self._send(b"".join([head, *blobs]), http.HTTPStatus.OK, more)

        def _json(self, document: Any, status: http.HTTPStatus = http.HTTPStatus.OK) -> None:
            self._send(json.dumps(document).encode(), status, {"Content-Type": "application/json"})

        def _send(self, body: bytes, status: http.HTTPStatus, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _is_binary(output: dict[str, Any]) -> bool:
    return bool(output.get("parameters", {}).get("binary_data"))


def _refusal(asked: dict[str, Any], rest: bytes, model: dict[str, Any], *, binary: bool) -> str:
    """Return why Triton refuses a request; "" where it does not. A server without the extension knows no bytes."""
    inputs = {one["name"]: one["datatype"] for one in model["inputs"]}
    given = {one["name"]: one["datatype"] for one in asked["inputs"]}
    outputs = {one["name"] for one in model["outputs"]}
    if unknown := sorted(given.keys() - inputs) or sorted({one["name"] for one in asked.get("outputs", ())} - outputs):
        return f"unexpected inference input or output '{unknown[0]}' for model '{model['name']}'"
    if given.keys() != inputs.keys():
        return f"expected {len(inputs)} inputs but got {len(given)} inputs for model '{model['name']}'"
    if wrong := [name for name, datatype in given.items() if inputs[name] != datatype]:
        return f"inference input '{wrong[0]}' data-type is '{given[wrong[0]]}', but the model expects another"
    blobs = 0
    for one in asked["inputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        blobs += size or 0
        expected = int(np.prod(one["shape"])) * numpy_dtype(NUMPY[one["datatype"]]).itemsize
        if size not in (None, expected):
            return f"inference input '{one['name']}': unexpected total byte size {size}, expecting {expected}"
    if blobs != len(rest) or (not binary and (rest or any(map(_is_binary, asked.get("outputs", ()))))):
        return "unexpected bytes behind the JSON"
    return ""


def _inputs(asked: dict[str, Any], rest: bytes) -> Arrays:
    found = {}
    for one in asked["inputs"]:
        kind = numpy_dtype(NUMPY[one["datatype"]])
        if "data" in one:
            found[one["name"]] = np.array(one["data"], kind).reshape(one["shape"])
        else:
            blob = one["parameters"]["binary_data_size"]
            found[one["name"]] = np.frombuffer(rest[:blob], kind).reshape(one["shape"])
            rest = rest[blob:]
    return found
