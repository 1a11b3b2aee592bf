"""What the backend openai asks a server for, by the types of OpenAI's own client."""

import json
from typing import Any

import pytest

from trt_workbench.core.errors import UsageProblem
from trt_workbench_serving.backends.completions import Completions
from trt_workbench_serving.backends.http_client import HttpAnswer

types = pytest.importorskip("openai.types.completion_create_params")
pytestmark = pytest.mark.readers
# Fields that vLLM and TensorRT-LLM add to the request.
THEIRS = {"prompt_logprobs", "return_tokens_as_token_ids", "return_token_ids", "detokenize"}


class Refusing:
    """A server that takes no request, so that every way of asking is tried."""

    address = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def ask(self, _: str, body: bytes, headers: dict[str, str]) -> HttpAnswer:
        assert headers == {"Content-Type": "application/json"}
        self.asked.append(json.loads(body))
        return HttpAnswer(400, "Bad Request", {}, b"{}")


def test_every_request_is_one_of_openais_api() -> None:
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
