"""The backend openai: a small server in this process that scores prompts with the model itself, or does not."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.texts import held

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.backends.served.http_client import HttpClient
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import models_dir
from trt_workbench.model.llm_directory import examine_llm_directory

pytest.importorskip("torch")
MODEL = models_dir() / "tiny-lm"


@contextmanager
def served(fault: str = "") -> Iterator[str]:
    """Serve the embedded model as vLLM does: log-probabilities of the prompt's tokens and of the likeliest, by id."""
    from trt_workbench.core.compare import log_softmax

    model = get_backend("torch").load_language(examine_llm_directory(MODEL), SessionOptions(extra={"device": "cpu"}))

    def scored(tokens: list[int]) -> Any:
        found = log_softmax(model.logits(np.array([tokens]))[0])
        if fault == "worse":
            found = log_softmax((found / 2).astype(np.float32))
        places: list[Any] = [None]
        for place, token in zip(found, tokens[1:], strict=False):
            likeliest = int(place.argmax())
            places.append({str(one): {"logprob": float(place[one])} for one in (token, likeliest)})
        return places[:-1] if fault == "short" else places

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            self._send({"data": [{"id": "tiny-lm"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            choice: dict[str, Any] = {"text": "x"}
            if fault == "refuses":
                self._send({"error": {"message": "prompt_logprobs is not supported"}}, 400)
                return
            if fault != "none":
                choice["prompt_logprobs"] = scored(asked["prompt"])
            self._send({"choices": [choice]})

        def _send(self, document: Any, status: int = 200) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def words(url: str, run: Path) -> tuple[object, ...]:
    text = MODEL / "held-out.txt"
    asked = ("eval-llm", MODEL, "--text", text, "--limit", 128, "--window", 64, "--backends", "openai", "--no-report")
    return (*asked, "--option", f"openai:url={url}", "--output", run)


def test_a_served_model_has_the_perplexity_of_the_model(tmp_path: Path) -> None:
    with served() as url:
        found = json_of(*words(url, tmp_path / "run"))
    torch, openai = found["backends"]
    assert openai["perplexity"] == pytest.approx(torch["perplexity"], rel=1e-6)
    assert (openai["tokens"], openai["top1_agreement"]) == (torch["tokens"], 1.0)
    assert openai["kl_divergence"] is None
    assert openai["provenance"]["model"] == "tiny-lm"


def test_a_server_that_computes_something_else_fails_the_gate(tmp_path: Path) -> None:
    with served("worse") as url:
        result = trtw(*words(url, tmp_path / "run"))
    assert result.exit_code == 1, result.output
    assert "openai:fp32: perplexity" in result.stderr


@pytest.mark.parametrize(("fault", "code"), [("none", 2), ("refuses", 2), ("short", 4)])
def test_a_server_without_log_probabilities_of_prompts_is_refused(tmp_path: Path, fault: str, code: int) -> None:
    with served(fault) as url:
        held(stderr_of(*words(url, tmp_path / "run"), code=code).splitlines()[-1])


def test_a_refused_model_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = [], HttpClient.close
    monkeypatch.setattr(HttpClient, "close", lambda client: closed.append(close(client)))
    with served() as url, pytest.raises(UsageProblem, match="no model 'other'"):
        get_backend("openai").load_language(
            examine_llm_directory(MODEL), SessionOptions(extra={"url": url, "model": "other"})
        )
    assert len(closed) == 1


def test_a_server_has_to_be_named_and_there(tmp_path: Path) -> None:
    asked = ("eval-llm", MODEL, "--text", MODEL / "held-out.txt", "--backends", "openai", "--output", tmp_path / "run")
    held(stderr_of(*asked))
    assert "No server answers" in stderr_of(*asked, "--option", "openai:url=http://127.0.0.1:9", code=3)
