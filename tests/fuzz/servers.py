"""A server whose answers are wrong in a way that the request's path says, in a process of its own."""

import json
import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from tests.fuzz.mutations import mutate_bytes, mutate_document

TOKEN = "SECRET-TOKEN"
PORT = "TRTW_FUZZ_PORT"
_SECONDS = 20.0  # that an answer drips
_MODEL = {
    "name": "plain",
    "platform": "p",
    "versions": ["1"],
    "inputs": [{"name": name, "datatype": "FP32", "shape": [-1, 3]} for name in ("x", "y")],
    "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, 3]} for name in ("total", "share")],
}
_OUTPUTS = [{**one, "shape": [2, 3], "data": [0.5] * 6} for one in _MODEL["outputs"]]  # type: ignore[index]
_SOUND = {
    "/v2": {"name": "s", "version": "1", "extensions": []},
    "/ready": {"ready": True},
    "/config": {"max_batch_size": 0, "parameters": {"a": {"string_value": "b"}}},
    "/infer": {"model_version": "1", "outputs": _OUTPUTS},
    "/models": {"data": [{"id": "plain"}]},
    "/index": [{"name": "plain", "state": "READY"}],
    "/completions": {"choices": [{"text": "a", "logprobs": None}], "usage": {"prompt_tokens": 1}},
}
_HEAD = b"HTTP/1.1 200 OK\r\n"
_DRIPS = [(b"", b"H"), (_HEAD + b"X", b"X"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")]
_DRIPS += [(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"), (_HEAD + b"Content-Length: 99999\r\n\r\n", b" ")]


@contextmanager
def hostile_server() -> Iterator[None]:
    """Serve while the block runs; the port is in the environment."""
    door = socket.create_server(("127.0.0.1", 0))
    child = os.fork()  # not multiprocessing's, which each forked command would join at its end
    if child == 0:
        _serve(door)
    os.environ[PORT] = str(door.getsockname()[1])
    door.close()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        del os.environ[PORT]


def _serve(door: socket.socket) -> NoReturn:
    while True:
        line, _ = door.accept()
        threading.Thread(target=_answer, args=(line,), daemon=True).start()


def _answer(line: socket.socket) -> None:
    with line, suppress(OSError, IndexError, UnicodeError):
        line.settimeout(_SECONDS)
        asked = line.recv(65536)
        if said := re.search(rb"(?i)content-length: *([0-9]+)", asked):
            while len(asked.partition(b"\r\n\r\n")[2]) < int(said[1]) and (more := line.recv(65536)):
                asked += more
        path = asked.split(b" ")[1].decode("latin-1")
        _, number, *rest = path.split("/", 2)
        rng = random.Random(f"{number}:{path if rng_is_late(number) else ''}")
        end = "/" + "/".join(rest)
        sound = next((found for name, found in _SOUND.items() if end.endswith(name)), _MODEL)
        kind = rng.random()
        if kind < 0.25:
            start, drop = rng.choice(_DRIPS)
            line.sendall(start)
            until = time.monotonic() + _SECONDS
            while time.monotonic() < until:
                line.sendall(drop)
                time.sleep(0.05)
            return
        token = next((one for one in asked.split(b"\r\n") if one.lower().startswith(b"authorization")), b"")
        text = json.dumps(sound)
        document = json.loads(text.replace("plain", token.decode("latin-1")) if kind < 0.4 else text)
        if kind < 0.8:
            document = mutate_document(document, rng)
        body = json.dumps(document).encode()
        if kind > 0.93:
            body = mutate_bytes(body, rng)
        status = rng.choice(
            [b"200 OK"] * 6 + [b"400 " + token, b"401 no", b"302 Found\r\nLocation: /x", b"503 later", b"999 \xff"]
        )
        if not status.startswith(b"200"):
            body = json.dumps({"error": f"denied for {token.decode('latin-1')}"}).encode()
        line.sendall(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


def rng_is_late(number: str) -> bool:
    """Whether the fault of a server is another at each path, so that it comes after answers that are sound."""
    return random.Random(number).random() < 0.7
