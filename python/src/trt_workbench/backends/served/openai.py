"""The backend `openai`: a language model as a server of OpenAI's API runs it, by its log-probabilities (vLLM)."""

from __future__ import annotations

import http
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.backends.language import LanguageModel, PromptScores
from trt_workbench.backends.served.address import Address
from trt_workbench.backends.served.failures import opening, refuse_status
from trt_workbench.backends.served.http_client import HttpClient
from trt_workbench.core.errors import DeviceFailure, UsageProblem, did_you_mean
from trt_workbench.core.precision import parse
from trt_workbench.model.llm_directory import LlmDirectory

PORTS = {"http": 8000, "https": 443}
OPTIONS = {
    "url": Option(str, help="URL of the server, without /v1."),
    "model": Option(str, help="Name of the served model; the only one of the server by default."),
    "timeout_s": Option(float, default=300.0, minimum=0.001, help="Longest time that an answer may take, seconds."),
}


class OpenAiBackend(Backend):
    """A served language model. It takes the tokens that `eval-llm` makes; the server's own tokenizer has no part."""

    name: ClassVar[str] = "openai"
    file_kinds: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    language: ClassVar[bool] = True
    served: ClassVar[bool] = True

    def availability(self) -> Availability:
        """Say that it can serve: only a URL says whether there is a server."""
        return Availability(ok=True)

    def check_precision(self, precision: str) -> None:
        """Raise UsageProblem for what is no precision: the server is said to compute in it."""
        parse(precision)

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an unknown or wrong option, or where no server is named."""
        self.check_precision(options.precision)
        self.check_language_options(options.extra)

    def check_language_options(self, options: Mapping[str, Any]) -> None:
        """Raise UsageProblem for an unknown or wrong option, or where no server is named."""
        _checked(options)

    def load(self, model: Path, options: SessionOptions | None = None) -> Session:  # noqa: ARG002
        """Raise UsageProblem: it has no tensors."""
        raise UsageProblem(f"Backend openai scores language models by eval-llm, and runs no file: {model}")

    def _load(self, model: Path, options: SessionOptions) -> Session:
        return self.load(model, options)

    def load_language(self, directory: LlmDirectory, options: SessionOptions) -> LanguageModel:  # noqa: ARG002
        """Return the served model. Raises as `Backend.load_language`."""
        address, extra = _checked({name: value for name, value in options.extra.items() if name != "device"})
        client = HttpClient(address, extra["timeout_s"])
        with opening(address, client):
            return ServedLlm(client, _model(client, extra["model"]))


class ServedLlm:
    """A model on a server."""

    def __init__(self, client: HttpClient, model: str) -> None:
        """Take a model that the server has."""
        self._client, self._model = client, model
        self.provenance: Mapping[str, Any] = {"device": "server", "url": str(client.address), "model": model}

    def prompt_scores(self, input_ids: NDArray[np.int64]) -> PromptScores:
        """Return the log-probability of each token after those before it, and the likeliest token there.

        Raises:
            UsageProblem: the server does not return log-probabilities of prompts, or refuses the request.
            DeviceFailure: the server failed, or its answer is not of the form.
        """
        rows = [self._row(row.tolist()) for row in input_ids]
        return PromptScores(np.array([one for one, _ in rows]), np.array([one for _, one in rows], np.int64))

    def _row(self, tokens: list[int]) -> tuple[list[float], list[int]]:
        asked = {"model": self._model, "prompt": tokens, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1}
        headers = {"Content-Type": "application/json"}
        answer = self._client.ask("/v1/completions", json.dumps(asked).encode(), headers)
        if answer.status != http.HTTPStatus.OK:
            what = f"return log-probabilities of a prompt of {len(tokens)} tokens"
            refuse_status(self._client.address, answer.status, answer.reason, answer.said, what)
        try:
            found = answer.document()["choices"][0].get("prompt_logprobs")
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise self._broken(error) from error
        if found is None:
            raise UsageProblem(
                "The server returns no log-probabilities of prompts (prompt_logprobs), so that its model has no "
                f"perplexity. vLLM returns them: {self._client.address}"
            )
        try:
            return _read(tokens, found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> DeviceFailure:
        return DeviceFailure(
            f"The server's log-probabilities are not those of the prompt ({error!r}): {self._client.address}"
        )

    def explained(self, input_ids: NDArray[np.int64]) -> str:  # noqa: ARG002 - a graph in a session needs it
        """Return nothing: a server shows no inner values."""
        return ""

    def logits(self, input_ids: NDArray[np.int64]) -> NDArray[np.float32]:  # noqa: ARG002 - the interface's name
        """Raise UsageProblem: a server returns log-probabilities of tokens, not logits."""
        raise UsageProblem("Backend openai compares the perplexity alone: a server returns no logits.")

    last_logits = step = logits

    def prefill(self, input_ids: NDArray[np.int64], capacity: int) -> NDArray[np.float32]:  # noqa: ARG002
        """Raise UsageProblem as `logits`."""
        return self.logits(input_ids)

    def memory_bytes(self) -> dict[str, int]:
        """Return nothing: a server does not say."""
        return {}

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def _read(tokens: list[int], listed: list[Any]) -> tuple[list[float], list[int]]:
    """Return log-probabilities and likeliest tokens; the first token has none. Raises as it meets another form."""
    if len(listed) != len(tokens):
        raise ValueError(f"{len(listed)} for {len(tokens)} tokens")
    scores, likeliest = [float("nan")], [-1]
    for token, place in zip(tokens[1:], listed[1:], strict=True):
        scores.append(float(place[str(token)]["logprob"]))
        likeliest.append(int(max(place, key=lambda one: (place[one]["logprob"], -place[one].get("rank", 0)))))
    return scores, likeliest


def _checked(options: Mapping[str, Any]) -> tuple[Address, dict[str, Any]]:
    extra = checked_extra(OpenAiBackend.name, OPTIONS, options)
    if not extra["url"]:
        raise UsageProblem(
            "Backend openai scores a model on a server; pass its URL: --option openai:url=http://localhost:8000."
        )
    return Address.read(extra["url"], PORTS), extra


def _model(client: HttpClient, asked: str | None) -> str:
    found = client.get("/v1/models", "list its models")
    try:
        known = [str(one["id"]) for one in found["data"]]
    except (KeyError, TypeError) as error:
        raise DeviceFailure(f"The server does not speak OpenAI's API: {client.address}") from error
    if asked is None and len(known) == 1:
        return known[0]
    if asked not in known:
        names = f"no model {asked!r}; {did_you_mean(asked, known)}" if asked else f"several models: {', '.join(known)}."
        raise UsageProblem(f"The server has {names} Pass --option openai:model=NAME: {client.address}")
    return asked
