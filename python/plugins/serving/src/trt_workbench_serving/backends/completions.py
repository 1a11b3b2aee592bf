"""`/v1/completions` of OpenAI's API: which fields of a request bring what we need is found out by asking the server."""

from __future__ import annotations

import http
import math
from collections.abc import Callable
from itertools import islice, repeat
from types import NoneType
from typing import Any, NoReturn

from trt_workbench.backends.language import Continuation
from trt_workbench.backends.torch.llm_tokenizer import LlmTokenizer
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench_serving.backends.calls import Refused
from trt_workbench_serving.backends.openai_client import OpenAiClient

Choice = dict[str, Any]
Fields = dict[str, Any]

_ID = "token_id:"
_AS_TEXT = "text of the prompt"
_SHORT = 2
# How far a log-probability may be above 0 for rounding.
_ROUNDED = 0.01
_MOST_TOKENS = 2**31
# Tried in this order until an answer has what is needed. Servers refuse fields that they do not know, or ignore them.
_SCORES: dict[str, Fields] = {
    "prompt_logprobs": {"prompt_logprobs": 1},
    "echo, token ids": {"echo": True, "logprobs": 1, "return_tokens_as_token_ids": True},
    "echo": {"echo": True, "logprobs": 1},
}
_TOKENS: dict[str, Fields] = {
    "token ids": {"return_token_ids": True, "return_tokens_as_token_ids": True, "logprobs": 1},
    "no text": {"detokenize": False, "logprobs": 1},
    "log-probabilities": {"logprobs": 1},
    "text": {},
    _AS_TEXT: {},
}


class Completions:
    """One model of one server.

    Attributes:
        ways: how the server is asked, by what it is asked for; filled as that is found out.
    """

    def __init__(self, client: OpenAiClient, model: str, tokenizer: Callable[[], LlmTokenizer]) -> None:
        """Take the server, the model's name there, and what loads the tokenizer of the model's folder."""
        self._client, self._model, self._tokenizer = client, model, tokenizer
        self.ways: dict[str, str] = {}

    def require(self) -> None:
        """Generate a token, so that a server that cannot is found before anything else is done.

        Raises:
            UsageProblem: the server refuses access, or does not complete texts with this model.
            DeviceFailure: the server failed, or is not ready.
        """
        answer = self._asked("a", 1, {})
        if isinstance(answer, str):
            raise UsageProblem(f"The server does not complete a text with model {self._model!r} ({answer}): {self}")

    def scores(self, tokens: list[int]) -> tuple[list[float], list[int]]:
        """Return the log-probability of each token, and the likeliest there; -1 where the server does not say which.

        Raises:
            UsageProblem: the server returns no log-probabilities of prompts, or refuses this one.
            DeviceFailure: the server failed, or its answer is not of the form.
        """
        if reason := self._find("log-probabilities", _SCORES, tokens, lambda one: _has_scores(one, _SHORT)):
            raise UsageProblem(
                f"The server gives no log-probabilities of prompts ({reason}), so that its model has no perplexity; "
                f"--modes generate compares what it generates: {self}"
            )
        choice = self._choice(self.ways["log-probabilities"], _SCORES, tokens, 1)
        try:
            found = choice.get("prompt_logprobs")
            return _of_echo(tokens, choice["logprobs"]) if found is None else _of_prompt(tokens, found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._refuse_form("log-probabilities are not those of the prompt", error)

    def generated(self, tokens: list[int], count: int) -> Continuation:
        """Return what the model generates greedily after a prompt.

        Raises:
            UsageProblem: the server refuses the prompt, or reads other tokens in it.
            DeviceFailure: the server failed, or its answer is not of the form.
        """
        if reason := self._find("tokens", _TOKENS, tokens, lambda one: _ids(one) is not None, or_first=True):
            raise UsageProblem(f"The server generates nothing ({reason}): {self}")
        choice = self._choice(self.ways["tokens"], _TOKENS, tokens, count)
        try:
            return _continuation(choice, count)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._refuse_form(f"answer is not one of {counted(count, 'token')}", error)

    def _find(
        self,
        what: str,
        ways: dict[str, Fields],
        tokens: list[int],
        suits: Callable[[Choice], bool],
        *,
        or_first: bool = False,
    ) -> str:
        """Find out how to ask, by the beginning of a prompt: the first way that suits, or else the first of all.

        Returns:
            why there is none, in the server's words; "" where there is one.
        """
        accepted, reason = "", ""
        for way in () if what in self.ways else ways:
            if way == _AS_TEXT and accepted:
                break
            answer = self._ask(way, ways[way], tokens if way == _AS_TEXT else tokens[:_SHORT], 1)
            try:
                fits = not isinstance(answer, str) and suits(answer)
            except (TypeError, ValueError, AttributeError) as error:
                self._refuse_form("answer has not the form of a completion", error)
            if isinstance(answer, str):
                reason = answer
            elif fits:
                self.ways[what] = way
                return ""
            else:
                accepted, reason = accepted or way, "its answer has none"
        if accepted and or_first:
            self.ways[what] = accepted
        return "" if what in self.ways else reason

    def _choice(self, way: str, ways: dict[str, Fields], tokens: list[int], count: int) -> Choice:
        answer = self._ask(way, ways[way], tokens, count)
        if isinstance(answer, str):
            raise UsageProblem(f"The server refuses a prompt of {counted(len(tokens), 'token')} ({answer}): {self}")
        return answer

    def _ask(self, way: str, fields: Fields, tokens: list[int], count: int) -> Choice | str:
        """Return the choice that the server gives; its reason where it refuses such a request."""
        as_text = way == _AS_TEXT
        answer = self._asked(self._text(tokens) if as_text else tokens, count, fields)
        if isinstance(answer, str):
            return answer
        choice, known = answer
        if known != len(tokens) and (as_text or known is not None):
            read = "does not say how many tokens it reads" if known is None else f"reads {counted(known, 'token')}"
            raise UsageProblem(
                f"The server {read} in a prompt of {len(tokens)}: it adds its own, such as one that begins "
                f"texts, or has another tokenizer: {self}"
            )
        return choice

    def _asked(self, prompt: list[int] | str, count: int, fields: Fields) -> tuple[Choice, int | None] | str:
        """Return what the server answers, and of how many tokens; its reason where it refuses such a request."""
        request = {"model": self._model, "prompt": prompt, "max_tokens": count, "temperature": 0}
        try:
            document = self._client.complete(request, fields)
            choice, known = document["choices"][0], (document.get("usage") or {}).get("prompt_tokens")
            if not isinstance(choice, dict) or type(known) not in (int, NoneType):
                raise TypeError(choice, known)
            return choice, known
        except Refused as refusal:
            if refusal.status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.UNPROCESSABLE_ENTITY):
                return refusal.reason
            raise
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            self._refuse_form("answer has not the form of a completion", error)

    def _text(self, tokens: list[int]) -> str:
        """Return the text of a prompt for a server that takes nothing else. Raises UsageProblem if it has none."""
        tokenizer = self._tokenizer()
        text = tokenizer.decode(tokens)
        if tokenizer.encode(text).ids.tolist() != tokens:
            raise UsageProblem(
                f"The server takes prompts as text, and the text of these {len(tokens)} tokens has others; pass "
                f"another --prompt: {self}"
            )
        return text

    def _refuse_form(self, what: str, error: Exception) -> NoReturn:
        raise DeviceFailure(f"The server's {what} ({error!r}): {self}") from error

    def __str__(self) -> str:
        """Return where the server is."""
        return str(self._client.address)


def _has_scores(choice: Choice, count: int) -> bool:
    """Whether there are log-probabilities of a prompt: a server that ignores `echo` has those of what follows it."""
    return choice.get("prompt_logprobs") is not None or len(_logprobs(choice).get("token_logprobs") or ()) >= count


def _logprobs(choice: Choice) -> dict[str, Any]:
    return choice.get("logprobs") or {}


def _require_each(tokens: list[int], listed: list[Any]) -> None:
    if len(listed) != len(tokens):
        raise ValueError(f"{len(listed)} for {len(tokens)} tokens")


def _of_prompt(tokens: list[int], listed: list[Any]) -> tuple[list[float], list[int]]:
    """Return log-probabilities and likeliest tokens of `prompt_logprobs`; the first token has none."""
    _require_each(tokens, listed)
    scores, likeliest = [float("nan")], [-1]
    for token, place in zip(tokens[1:], listed[1:], strict=True):
        scores.append(_checked(place[str(token)]["logprob"]))
        likeliest.append(int(max(place, key=lambda one: (place[one]["logprob"], -place[one].get("rank", 0)))))
    return scores, likeliest


def _of_echo(tokens: list[int], found: dict[str, Any]) -> tuple[list[float], list[int]]:
    """Return the same of `echo`, whose lists go on behind the prompt. A token's text does not say which token it is."""
    for column in (found["token_logprobs"], found.get("top_logprobs") or found["tokens"]):
        _require_each(found["tokens"], column)
    _require_each(tokens, found["tokens"][: len(tokens)])
    scores, likeliest = [float("nan")], [-1]
    columns = (found["tokens"], found["token_logprobs"], found.get("top_logprobs") or repeat({}))
    for token, name, score, top in islice(zip(tokens, *columns, strict=False), 1, None):
        if _id(name) not in (None, token):
            raise ValueError(f"{name} for token {token}")
        scores.append(_checked(score))
        best = max(top or {}, key=lambda one: top[one], default="")
        own = best and score >= top[best]
        likeliest.append(token if own else -1 if (other := _id(best)) is None else other)
    return scores, likeliest


def _checked(logprob: Any) -> float:
    """Return a log-probability. Raises TypeError or ValueError for what is none."""
    if not -math.inf < logprob < _ROUNDED:
        raise ValueError(f"{logprob!r} for a log-probability")
    return float(logprob)


def _id(name: str) -> int | None:
    return int(name.removeprefix(_ID)) if name.startswith(_ID) else None


def _ids(choice: Choice) -> tuple[int, ...] | None:
    """Return the ids of what was generated; None where the server names tokens by their texts."""
    if (listed := choice.get("token_ids")) is not None:
        if not all(type(one) is int and 0 <= one < _MOST_TOKENS for one in listed):
            raise ValueError("token ids that are none")
        return tuple(listed)
    names = _logprobs(choice).get("tokens") or ()
    found = tuple(one for one in map(_id, names) if one is not None)
    return found if found and len(found) == len(names) else None


def _continuation(choice: Choice, count: int) -> Continuation:
    ids, listed, ended = _ids(choice), _logprobs(choice).get("token_logprobs"), choice.get("finish_reason") == "stop"
    if ids is not None and (len(ids) > count or (len(ids) < count and not ended)):
        raise ValueError(f"{len(ids)} tokens")
    logprobs = tuple(map(_checked, listed)) if listed else None
    if ids is not None and logprobs is not None and len(logprobs) != len(ids):
        raise ValueError(f"{len(logprobs)} log-probabilities of {len(ids)} tokens")
    text = choice.get("text")
    if ids is None and not isinstance(text, str):
        raise ValueError(f"{text!r} for a text")
    return Continuation(ids, text or "", logprobs, ended)
