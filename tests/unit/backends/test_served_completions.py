"""What a server answers that is no completion is named; nothing of it is taken for what was asked for."""

import json
from typing import Any

import pytest

from trt_workbench.backends.served.completions import Completions
from trt_workbench.backends.served.http_client import HttpAnswer
from trt_workbench.core.errors import DeviceFailure, UsageProblem

TOKENS = [3, 1, 4]


class Client:
    """Gives one answer to everything."""

    address = "http://server"

    def __init__(self, choice: Any, status: int = 200, read: Any = None) -> None:
        self.body, self.status = json.dumps({"choices": choice, "usage": {"prompt_tokens": read}}).encode(), status

    def ask(self, *_: Any) -> HttpAnswer:
        return HttpAnswer(self.status, "", {}, self.body)


def asking(choice: Any) -> Completions:
    return Completions(Client([choice]), "m", lambda: pytest.fail("no tokenizer is needed"))  # type: ignore[arg-type]


def listed(**more: Any) -> dict[str, Any]:
    found = {"tokens": ["a"] * 4, "token_logprobs": [None, -1.0, -2.0, -3.0], "top_logprobs": [None, {}, {}, {}]}
    return {"text": "x", "logprobs": found | more}


@pytest.mark.parametrize(
    "choice",
    [
        7, [], "text", {"logprobs": 5}, {"logprobs": ["a"]}, {"logprobs": {"tokens": [1, 2], "token_logprobs": "abcd"}},
        {"prompt_logprobs": 3}, {"prompt_logprobs": [None, {}, {}]}, {"prompt_logprobs": [None, {"1": {}}, {"4": {}}]},
        {"prompt_logprobs": [None, {"1": 0.5}, {"4": 0.5}]}, listed(tokens=["token_id:3", "token_id:1", "token_id:5"]),
        listed(tokens=["token_id:x"] * 4), listed(token_logprobs=[None, None, -1.0]), listed(tokens=None),
        listed(top_logprobs=[None, {"a": "b"}, {"a": None}]), listed(top_logprobs=[1, 2, 3, 4]),
        {"prompt_logprobs": [None, {"1": {"logprob": 1.5}}, {"4": {"logprob": -1}}]},
        *(listed(token_logprobs=[None, -1.0, worth, -3.0]) for worth in (0.5, float("nan"), float("-inf"), 10**400)),
        listed(tokens=["a"]), listed(token_logprobs=[-1.0, -2.0, -3.0]), listed(top_logprobs=[None, {}, {}]),
    ],
)  # fmt: skip
def test_scores_of_no_form(choice: Any) -> None:
    with pytest.raises((DeviceFailure, UsageProblem), match=r"http://server$"):
        asking(choice).scores(TOKENS)


@pytest.mark.parametrize(
    "choice",
    [
        7, [], "text", {"token_ids": 4}, {"token_ids": ["x", "y"]}, {"token_ids": [1, 2, 3]}, {"token_ids": [1]},
        {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0]}}, {"logprobs": 5}, {"logprobs": {"tokens": [3]}},
        {"text": 5}, {}, {"text": "x", "logprobs": {"token_logprobs": [None]}}, {"logprobs": {"tokens": ["token_id:"]}},
        {"token_ids": [1, -2]}, {"token_ids": [1, 1.5]}, {"token_ids": [1, float("inf")]}, {"token_ids": [1, 2**40]},
        {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0, 3.0]}},
    ],
)  # fmt: skip
def test_continuations_of_no_form(choice: Any) -> None:
    with pytest.raises(DeviceFailure, match=r"http://server$"):
        asking(choice).generated(TOKENS, 2)


def test_a_place_without_other_tokens_says_only_whether_it_is_this_one() -> None:
    scores, likeliest = asking(listed(top_logprobs=None)).scores(TOKENS)
    assert (scores[1:], likeliest) == ([-1.0, -2.0], [-1, -1, -1])
    tops = [None, {"b": -0.5}, {"a": -2.0}, {}]
    assert asking(listed(top_logprobs=tops)).scores(TOKENS)[1] == [-1, -1, 4]
    ids = listed(tokens=[f"token_id:{one}" for one in (3, 1, 4, 9)], top_logprobs=[None, {"token_id:8": -0.5}, {}, {}])
    assert asking(ids).scores(TOKENS)[1] == [-1, 8, -1]


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_of_chats_alone_is_told_apart(status: int) -> None:
    client: Any = Client([{}], status)
    with pytest.raises(UsageProblem, match=r"at /v1/completions, which a server of chats alone lacks \("):
        Completions(client, "m", lambda: pytest.fail("no tokenizer is needed")).require()


@pytest.mark.parametrize("read", ["3", [3], 3.0])
def test_a_number_of_tokens_that_is_none_is_named(read: Any) -> None:
    client: Any = Client([listed()], read=read)
    with pytest.raises(DeviceFailure, match="form of a completion"):
        Completions(client, "m", lambda: pytest.fail("no tokenizer is needed")).scores(TOKENS)
