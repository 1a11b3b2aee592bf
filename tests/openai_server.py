"""A server of OpenAI's API in this process that runs the embedded language model, in the forms that real ones have.

What each form takes and gives follows the sources of these servers; only `transformers` itself is run by a test.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer
from trt_workbench.core.compare import log_softmax
from trt_workbench.core.workspace import models_dir
from trt_workbench.model.llm_directory import examine_llm_directory

MODEL = models_dir() / "tiny-lm"
_PLAIN = {"model", "prompt", "max_tokens", "temperature", "echo", "logprobs"}
# What a form refuses to know; None where it ignores unknown fields.
_FIELDS: dict[str, set[str] | None] = {
    "vllm": None,
    "older vllm": None,
    "echo": _PLAIN,
    "trtllm": _PLAIN | {"detokenize"},
    "transformers": _PLAIN,
}


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # beyond the queue Linux resets connections


class Refused(Exception):
    """A status other than 200, and its message."""


@cache
def _loaded(model: Path) -> tuple[Any, Any, threading.Lock]:
    """Return a model, its tokenizer, and a lock for whoever computes: all servers of a session have one."""
    directory = examine_llm_directory(model)
    loaded = get_backend("torch").load_language(directory, SessionOptions(extra={"device": "cpu"}))
    return loaded, load_tokenizer(directory), threading.Lock()


@dataclass
class OpenAiServer:
    """What is served, and how.

    Attributes:
        form: "vllm" (everything), "older vllm" (no `return_token_ids`, no `prompt_logprobs`), "echo" (texts of tokens
            alone), "trtllm" (ids of generated tokens, nothing of prompts), "transformers" (texts alone).
        fault: "worse" (flatter), "short" (a log-probability is left out), "other token" (the sixth that is generated),
            "mixed rows" (of requests at once), "ends early", "adds a token", "dies" (at the fourth request).
        token: that callers have to send.
        unready: status 503 for everything.
        positions: longest sequence.
    """

    form: str = "vllm"
    fault: str = ""
    token: str = ""
    unready: bool = False
    positions: int = 10_000
    model: Path = MODEL
    requests: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._model, self._tokenizer, self._lock = _loaded(self.model)
        self._waiting: list[list[int]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve, and yield the URL."""
        server = _Server(("127.0.0.1", 0), _handler(self))
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a request. Raises Refused."""
        self.requests.append(asked)
        known = _FIELDS[self.form]
        if known is not None and (unknown := sorted(asked.keys() - known)):
            raise Refused(422, f"Extra inputs are not permitted: {', '.join(unknown)}")
        if asked["model"] != "tiny-lm":
            raise Refused(404, f"The model `{asked['model']}` does not exist.")
        prompt, count = asked["prompt"], asked["max_tokens"]
        if self.form == "transformers" and not isinstance(prompt, str):
            raise Refused(400, "prompt must be a string.")
        tokens = self._tokenizer.encode(prompt).ids.tolist() if isinstance(prompt, str) else prompt
        if len(tokens) + count > self.positions:
            raise Refused(400, f"This model's maximum context length is {self.positions} tokens.")
        made, logprobs = self._generate(tokens, count)
        choice: dict[str, Any] = {"index": 0, "text": self._tokenizer.decode(made, skip_special=True)}
        choice["finish_reason"] = "stop" if len(made) < count else "length"
        if self.form == "vllm" and "prompt_logprobs" in asked:
            choice["prompt_logprobs"] = self._of_prompt(tokens)
        if asked.get("logprobs") and self.form != "transformers":
            choice["logprobs"] = self._listed(asked, tokens, made, logprobs)
        if (self.form == "vllm" and asked.get("return_token_ids")) or asked.get("detokenize") is False:
            choice["token_ids"] = made
            if self.form == "trtllm":
                choice["text"] = ""
        return {"choices": [choice], "usage": {"prompt_tokens": len(tokens) + (self.fault == "adds a token")}}

    def _scores(self, tokens: list[int]) -> NDArray[np.float64]:
        logits = self._model.logits(np.array([tokens]))[0]
        return np.asarray(log_softmax((logits / 2).astype(np.float32) if self.fault == "worse" else logits))

    def _generate(self, tokens: list[int], count: int) -> tuple[list[int], list[float]]:
        made: list[int] = []
        logprobs = []
        if self.fault == "mixed rows" and count > 1:
            with self._lock:
                self._waiting.append(tokens)
                tokens = self._waiting[-2 if len(self._waiting) > 2 else -1]
        for _ in range(count - (self.fault == "ends early" and count > 1)):
            place = self._scores([*tokens, *made])[-1]
            rank = -2 if self.fault == "other token" and len(made) == 5 else -1
            made.append(int(place.argsort()[rank]))
            logprobs.append(float(place[made[-1]]))
        return made, logprobs

    def _of_prompt(self, tokens: list[int]) -> list[Any]:
        places: list[Any] = [None]
        for place, token in zip(self._scores(tokens), tokens[1:], strict=False):
            places.append({str(one): {"logprob": float(place[one])} for one in (token, int(place.argmax()))})
        return places[:-1] if self.fault == "short" else places

    def _listed(self, asked: dict[str, Any], tokens: list[int], made: list[int], logprobs: list[float]) -> Any:
        as_ids = self.form in ("vllm", "older vllm") and asked.get("return_tokens_as_token_ids")

        def name(token: int) -> str:
            return f"token_id:{token}" if as_ids else self._tokenizer.decode([token])

        names, values, tops = [name(one) for one in made], list[Any](logprobs), list[Any]([{}] * len(made))
        if asked.get("echo") and self.form != "trtllm":
            places = self._scores(tokens)
            own: list[Any] = [None] + [float(row[one]) for row, one in zip(places, tokens[1:], strict=False)]
            best: list[Any] = [None] + [{name(int(row.argmax())): float(row.max())} for row in places[:-1]]
            names, values, tops = [name(one) for one in tokens] + names, own + values, best + tops
        if self.fault == "short":
            values = values[:-1]
        return {"tokens": names, "token_logprobs": values, "top_logprobs": tops}


def _handler(server: OpenAiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            self._answer(lambda: {"data": [{"id": "tiny-lm"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.fault == "dies" and len(server.requests) >= 3:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(2)
                return
            self._answer(lambda: server.complete(asked))

        def _answer(self, make: Any) -> None:
            try:
                if server.unready:
                    raise Refused(503, "the model is being loaded")
                if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                    raise Refused(401, "no")
                self._send(200, make())
            except Refused as refused:
                status, message = refused.args
                self._send(status, {"error": {"message": message}})

        def _send(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
