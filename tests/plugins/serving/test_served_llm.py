"""The backend openai against a small server that runs the model itself, in the forms of real ones or with faults."""

from pathlib import Path
from typing import Any

import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.openai_server import MODEL, OpenAiServer
from tests.texts import held
from tests.unit.conftest import _forked_workers  # noqa: F401 - of every test here

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.llm_directory import examine_llm_directory
from trt_workbench_serving.backends.openai_client import OpenAiClient

pytest.importorskip("torch")

PERPLEXITY = ("--limit", 128, "--window", 64)
TOKENS = ("--modes", "generate", "--prompt", "12,24", "--new-tokens", 16, "--batch", 3)


def words(url: str, run: Path, *more: object) -> tuple[object, ...]:
    text = run.with_name("text.txt")
    text.write_text((MODEL / "held-out.txt").read_text()[:2000])
    asked = ("eval-llm", MODEL, "--text", text, "--backends", "openai", "--no-report", *more)
    return (*asked, "--option", f"openai:url={url}", "--output", run)


@pytest.mark.parametrize("form", ["vllm", "older vllm", "echo"])
def test_a_served_model_has_the_perplexity_of_the_model(tmp_path: Path, form: str) -> None:
    with OpenAiServer(form).running() as url:
        found = json_of(*words(url, tmp_path / "run", *PERPLEXITY))
    torch, openai = found["backends"]
    assert openai["perplexity"] == pytest.approx(torch["perplexity"], rel=1e-6)
    assert openai["tokens"] == torch["tokens"]
    assert openai["kl_divergence"] is None
    # a token's text does not say which token it is
    assert openai["top1_agreement"] == (None if form == "echo" else 1.0)
    ways = {"vllm": "prompt_logprobs", "older vllm": "echo, token ids", "echo": "echo"}
    assert openai["provenance"]["asked_by"] == {"log-probabilities": ways[form]}


def test_a_page_shows_what_a_server_does_not_say_as_such(tmp_path: Path) -> None:
    with OpenAiServer("echo").running() as url:
        more = ("--modes", "perplexity,generate", *TOKENS[2:])
        asked = [one for one in words(url, tmp_path / "run", *PERPLEXITY, *more) if one != "--no-report"]
        printed = trtw(*asked).stdout
    assert " - " in printed
    assert "all, by text" in printed
    assert '<td class="text">all, by text</td>' in (tmp_path / "run" / "report.html").read_text()
    assert "<td>\N{EN DASH}</td>" in (tmp_path / "run" / "report.html").read_text()


def test_a_server_that_computes_something_else_fails_the_gate(tmp_path: Path) -> None:
    with OpenAiServer(fault="worse").running() as url:
        result = trtw(*words(url, tmp_path / "run", *PERPLEXITY))
    assert result.exit_code == 1, result.output
    assert "openai:fp32: perplexity" in result.stderr


@pytest.mark.parametrize(("form", "fault", "code"), [("trtllm", "", 2), ("transformers", "", 2), ("vllm", "short", 4)])
def test_a_server_without_log_probabilities_of_prompts_is_refused(
    tmp_path: Path, form: str, fault: str, code: int
) -> None:
    with OpenAiServer(form, fault).running() as url:
        held(stderr_of(*words(url, tmp_path / "run", *PERPLEXITY), code=code).splitlines()[-1])


@pytest.mark.parametrize("form", ["vllm", "older vllm", "echo", "trtllm", "transformers"])
def test_a_served_model_generates_what_the_model_generates(tmp_path: Path, form: str) -> None:
    server = OpenAiServer(form)
    with server.running() as url:
        found = json_of(*words(url, tmp_path / "run", *TOKENS))
    ways = {
        "vllm": "token ids", "older vllm": "token ids", "echo": "log-probabilities", "trtllm": "no text",
        "transformers": "text of the prompt",
    }  # fmt: skip
    assert [row["prompt_tokens"] for row in found["generation"]] == [12, 24]
    for row in found["generation"]:
        agreement = row["agreement"]
        assert (agreement["sequences"], agreement["tokens"], agreement["first_difference"]) == (3, 16, None)
        assert agreement["compared"] == ("text" if form in ("echo", "transformers") else "tokens")
        error = agreement["max_logprob_difference"]
        assert error is None if form == "transformers" else error < 1e-5
        assert agreement["max_logit_difference"] is None
        assert row["provenance"]["asked_by"] == {"tokens": ways[form]}
    assert len(server.requests) <= 1 + 5 + 2 * 3  # once it is known how to ask, that is the only way


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("vllm", "other token"), ("echo", "other token"), ("transformers", "other token"),
        ("vllm", "ends early"), ("transformers", "ends early"), ("vllm", "worse"), ("echo", "worse"),
    ],
)  # fmt: skip
def test_a_server_that_generates_something_else_is_found(tmp_path: Path, form: str, fault: str) -> None:
    with OpenAiServer(form, fault).running() as url:
        found = json_of(*words(url, tmp_path / "run", *TOKENS), code=1)
    failures = [row["failure"] for row in found["generation"]]
    assert {row["error_kind"] for row in found["generation"]} == {"Disagreement"}
    held(*failures)


def test_rows_that_a_server_mixes_up_are_found(tmp_path: Path) -> None:
    """Only where several are asked for at once: which of them, is chance."""
    for batch, code in ((1, 0), (3, 1)):
        with OpenAiServer(fault="mixed rows").running() as url:
            more = (*TOKENS[:-1], batch)
            found = json_of(*words(url, tmp_path / f"run-{batch}", *more), code=code)
        assert [row["failure"] is None for row in found["generation"]] == [batch == 1] * 2


def test_a_server_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    with OpenAiServer(fault="adds a token").running() as url:
        held(stderr_of(*words(url, tmp_path / "run", *PERPLEXITY)).splitlines()[-1])


def failing(run: Path, server: OpenAiServer, code: int, *more: object) -> str:
    with server.running() as url:
        return stderr_of(*words(url, run, *more), code=code).splitlines()[-1]


def test_what_is_wrong_with_a_server_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    held(
        failing(run, OpenAiServer(token="secret"), 2, *PERPLEXITY),
        failing(run, OpenAiServer(unready=True), 3, *PERPLEXITY),
        failing(run, OpenAiServer(positions=32), 2, *PERPLEXITY),
        failing(run, OpenAiServer(positions=20), 2, *TOKENS),
        failing(run, OpenAiServer(fault="dies"), 4, *PERPLEXITY, "--stride", 8),
        failing(run, OpenAiServer(fault="dies"), 4, *TOKENS),
        failing(run, OpenAiServer(), 2, *PERPLEXITY, "--option", "openai:model=other"),
    )
    assert not run.exists()
    monkeypatch.setenv("TRTW_SERVER_TOKEN", "wrong")
    held(failing(run, OpenAiServer(token="secret"), 2, *PERPLEXITY))
    monkeypatch.setenv("TRTW_SERVER_TOKEN", "secret")
    with OpenAiServer(token="secret").running() as url:
        assert json_of(*words(url, run, *PERPLEXITY))["passed"]
    assert "secret" not in "".join(path.read_text() for path in run.rglob("*.json*"))


def test_a_refused_model_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = list[Any](), OpenAiClient.close
    monkeypatch.setattr(OpenAiClient, "close", lambda client: closed.append(close(client)))
    with OpenAiServer().running() as url, pytest.raises(UsageProblem, match="`other` does not exist"):
        get_backend("openai").load_language(
            examine_llm_directory(MODEL), SessionOptions(extra={"url": url, "model": "other"})
        )
    assert len(closed) == 1


def test_a_server_has_to_be_named_and_there(tmp_path: Path) -> None:
    asked = ("eval-llm", MODEL, "--text", MODEL / "held-out.txt", "--backends", "openai", "--output", tmp_path / "run")
    held(stderr_of(*asked))
    assert "No server answers" in stderr_of(*asked, "--option", "openai:url=http://127.0.0.1:9", code=3)
