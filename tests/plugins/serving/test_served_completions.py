"""What the backend openai asks a server for, by the types of OpenAI's own client, and what it tells it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from tests.texts import refused
from tests.v2_server import answering

from trt_workbench import __version__
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench_serving.backends.address import TOKEN, Address
from trt_workbench_serving.backends.calls import Refused
from trt_workbench_serving.backends.completions import Completions
from trt_workbench_serving.backends.openai_client import OpenAiClient

# Fields that vLLM and TensorRT-LLM add to the request.
THEIRS = {"prompt_logprobs", "return_tokens_as_token_ids", "return_token_ids", "detokenize"}


class Refusing:
    """A server that takes no request, so that every way of asking is tried."""

    address = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def complete(self, request: dict[str, Any], fields: dict[str, Any]) -> None:
        self.asked.append({**request, **fields})
        refusal = Refused("no")
        refusal.status, refusal.reason = 400, "no"
        raise refusal


def test_every_request_is_one_of_openais_api() -> None:
    from openai.types import completion_create_params as types
    from pydantic import TypeAdapter, with_config

    server = Refusing()
    completions = Completions(server, "m", lambda: Texts())  # type: ignore[arg-type]
    for asked in (lambda: completions.scores([1, 2, 3]), lambda: completions.generated([1, 2, 3], 2)):
        with pytest.raises(UsageProblem):
            asked()
    request = TypeAdapter(with_config(extra="forbid")(types.CompletionCreateParamsNonStreaming))
    assert len(server.asked) >= 8
    for one in server.asked:
        request.validate_python({name: value for name, value in one.items() if name not in THEIRS}, strict=True)
    assert {name for one in server.asked for name in one} >= THEIRS
    with pytest.raises(ValueError, match="max_token"):
        request.validate_python({**server.asked[0], "max_token": 1})


class Texts:
    """A tokenizer whose texts are their tokens."""

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))

    def encode(self, text: str) -> Any:
        import numpy as np

        return type("Encoded", (), {"ids": np.array([int(word) for word in text.split()])})


class Recording(BaseHTTPRequestHandler):
    """Answers with a redirect if `to` is set, else with a list of models; keeps what came."""

    came: ClassVar[list[dict[str, str]]] = []
    to = ""

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.came.append({name.lower(): value for name, value in self.headers.items()})
        body = b'{"data": [{"id": "one"}]}'
        self.send_response(307 if self.to else 200)
        if self.to:
            self.send_header("Location", self.to)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def recording(to: str = "") -> Iterator[tuple[str, list[dict[str, str]]]]:
    handler = type("Handler", (Recording,), {"came": [], "to": to})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler.came  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def asking(url: str, timeout_s: float = 60) -> Iterator[OpenAiClient]:
    with closing(OpenAiClient(Address.read(url, {"http": 80}), timeout_s)) as client:
        yield client


def test_a_server_is_told_nothing_but_the_request_and_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what OpenAI's client says of the machine, nor what is meant for OpenAI."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Theirs: theirs\nAuthorization: Bearer theirs")
    for own in ("", "ours"):
        monkeypatch.setenv(TOKEN, own)
        with recording() as (url, came), asking(url) as client:
            assert client.models() == ["one"]
        sent = {"host": url.removeprefix("http://"), "user-agent": f"trt-workbench/{__version__}"}
        assert came == [{**sent, **({"authorization": "Bearer ours"} if own else {})}]


def test_neither_a_redirect_nor_a_proxy_takes_a_request_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with recording() as (other, came):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other)
        with recording(to=f"{other}/v1/models") as (url, _), asking(url) as client, refused(UsageProblem):
            client.models()
        assert not came


def test_an_answer_in_drops_ends_in_time() -> None:
    done = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as door:

        def drip() -> None:
            line, _ = door.accept()
            with closing(line), suppress(OSError):
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not done.wait(0.05):
                    line.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with asking(f"http://127.0.0.1:{door.getsockname()[1]}", 0.5) as client, refused(DeviceFailure):
                client.models()
            assert thread.is_alive()
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"<html>", b'{"choices": 3}', b'{"choices": [1]}', b'"a"', b"[" * 90_000]
)
def test_what_is_no_completion_is_refused(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with answering(head % len(body) + body) as url, asking(url) as client:
        completions = Completions(client, "m", lambda: Texts())  # type: ignore[arg-type, return-value]
        with pytest.raises(DeviceFailure, match="The server's answer"):
            completions.require()


def test_a_token_that_the_server_returns_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    body = b'{"error": {"message": "denied for Bearer secret, se\\u0063ret"}}'
    head = b"HTTP/1.1 400 secret\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering(head + body) as url, asking(url) as client, refused(UsageProblem):
        client.models()
