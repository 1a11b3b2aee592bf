"""The backend `openai`: a language model on a server of OpenAI's API, by its log-probabilities and tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.backends.language import Continuation, LanguageBackend, LanguageModel, PromptScores
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.precision import parse
from trt_workbench.model.llm_directory import LlmDirectory
from trt_workbench_serving.backends.address import Address
from trt_workbench_serving.backends.calls import opening
from trt_workbench_serving.backends.completions import Completions
from trt_workbench_serving.backends.openai_client import OpenAiClient

_Found = TypeVar("_Found")
PORTS = {"http": 8000, "https": 443}
OPTIONS = {
    "url": Option(str, help="URL of the server, without /v1."),
    "model": Option(str, help="Name of the served model; the only one of the server by default."),
    "timeout_s": Option(float, default=300.0, minimum=0.001, help="Longest time that an answer may take, seconds."),
}


class OpenAiBackend(Backend, LanguageBackend):
    """A served language model. It takes the tokens that `eval-llm` makes; the server's own tokenizer has no part."""

    name: ClassVar[str] = "openai"
    file_kinds: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
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

    def load_language(self, directory: LlmDirectory, options: SessionOptions) -> LanguageModel:
        """Return the served model. Raises as `LanguageBackend.load_language`."""
        address, extra = _checked({name: value for name, value in options.extra.items() if name != "device"})
        client = OpenAiClient(address, extra["timeout_s"])
        with opening(client.close):
            return ServedLlm(client, extra["model"] or _only_model(client), directory)


class ServedLlm:
    """A model on a server."""

    def __init__(self, client: OpenAiClient, model: str, directory: LlmDirectory) -> None:
        """Take a model that the server has, and the folder that it was made from.

        Raises:
            UsageProblem: the server refuses access, or does not complete texts with this model.
            DeviceFailure: the server failed, or is not ready.
        """
        self._client = client
        self._completions = Completions(client, model, cache(lambda: load_tokenizer(directory)))
        self._completions.require()
        ways = self._completions.ways
        self.provenance: Mapping[str, Any] = {
            "device": "server", "url": str(client.address), "model": model, "asked_by": ways,
        }  # fmt: skip

    def prompt_scores(self, input_ids: NDArray[np.int64]) -> PromptScores:
        """Return the log-probability of each token after those before it, and the likeliest token there.

        Raises:
            UsageProblem: the server does not return log-probabilities of prompts, or refuses the request.
            DeviceFailure: the server failed, or its answer is not of the form.
        """
        rows = self._at_once(self._completions.scores, input_ids)
        return PromptScores(np.array([one for one, _ in rows]), np.array([one for _, one in rows], np.int64))

    def continuations(self, input_ids: NDArray[np.int64], count: int) -> list[Continuation]:
        """Return what the server generates after each prompt; all of them are asked for at once.

        Raises:
            UsageProblem: the server refuses the prompts.
            DeviceFailure: the server failed, or its answer is not of the form.
        """
        return self._at_once(lambda tokens: self._completions.generated(tokens, count), input_ids)

    def _at_once(self, ask: Callable[[list[int]], _Found], input_ids: NDArray[np.int64]) -> list[_Found]:
        """Ask for the first row alone, which finds out how, and for the others at the same time."""
        first, *others = input_ids.tolist()
        found = [ask(first)]
        if others:
            with ThreadPoolExecutor(len(others)) as pool:
                found += pool.map(ask, others)
        return found

    def explained(self, input_ids: NDArray[np.int64]) -> str:  # noqa: ARG002 - a graph in a session needs it
        """Return nothing: a server shows no inner values."""
        return ""

    def logits(self, input_ids: NDArray[np.int64]) -> NDArray[np.float32]:  # noqa: ARG002 - the interface's name
        """Raise UsageProblem: a server returns log-probabilities of tokens, not logits."""
        raise UsageProblem(
            "A server returns no logits: eval-llm compares the perplexity and the tokens of backend openai."
        )

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


def _checked(options: Mapping[str, Any]) -> tuple[Address, dict[str, Any]]:
    extra = checked_extra(OpenAiBackend.name, OPTIONS, options)
    if not extra["url"]:
        raise UsageProblem(
            "Backend openai scores a model on a server; pass its URL: --option openai:url=http://localhost:8000."
        )
    return Address.read(extra["url"], PORTS), extra


def _only_model(client: OpenAiClient) -> str:
    known = client.models()
    if len(known) == 1:
        return known[0]
    names = f"several models: {', '.join(known)}" if known else "no models in its list"
    raise UsageProblem(f"The server has {names}. Pass --option openai:model=NAME: {client.address}")
