"""`transformers serve` on loopback: it gives texts of generated tokens, and no log-probabilities."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.in_app import json_of, stderr_of
from tests.openai_server import MODEL
from tests.texts import held

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(
    not getattr(transformers.utils.import_utils, "is_serve_available", bool)(),
    reason="transformers serve needs fastapi, uvicorn and openai (transformers[serving])",
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, and the tokenizer of the embedded model."""
    import torch

    folder = tmp_path_factory.mktemp("llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL / name, folder / name)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=2048, bos_token_id=None, eos_token_id=None, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "hub").mkdir()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    words = ["serve", str(llama), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    program = "from transformers.cli.transformers import main; main()"
    variables = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=log, stderr=log, env=variables)
    try:
        ends = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < ends:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.2)
        else:
            raise AssertionError((folder / "log").read_text(errors="replace")[-4000:])
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def words(llama: Path, url: str, run: Path, *more: object) -> tuple[object, ...]:
    options = (f"openai:url={url}", f"openai:model={llama}")
    asked = ("eval-llm", llama, "--text", MODEL / "held-out.txt", "--backends", "openai", "--no-report", *more)
    return (*asked, *(part for option in options for part in ("--option", option)), "--output", run)


def test_it_generates_what_the_model_generates(llama: Path, url: str, tmp_path: Path) -> None:
    more = ("--modes", "generate", "--prompt", 16, "--new-tokens", 24, "--batch", 2)
    (row,) = json_of(*words(llama, url, tmp_path / "run", *more))["generation"]
    assert row["failure"] is None
    assert (row["agreement"]["compared"], row["agreement"]["tokens"]) == ("text", 24)
    assert row["agreement"]["max_logprob_difference"] is None
    assert row["provenance"]["asked_by"] == {"tokens": "text of the prompt"}


def test_its_model_has_no_perplexity(llama: Path, url: str, tmp_path: Path) -> None:
    held(stderr_of(*words(llama, url, tmp_path / "run", "--limit", 64, "--window", 32)).splitlines()[-1])


def test_it_has_to_be_told_the_model(llama: Path, url: str, tmp_path: Path) -> None:
    """It lists the models of its cache, which the folder that it serves is not among."""
    asked = [one for one in words(llama, url, tmp_path / "run") if not str(one).startswith("openai:model=")]
    asked = [one for place, one in enumerate(asked) if one != "--option" or asked[place + 1] != "--output"]
    held(stderr_of(*asked).splitlines()[-1])
