"""OpenAI's API, spoken by its own client, which sends nothing here but what is asked for."""

from __future__ import annotations

import json
import ssl
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

from trt_workbench import __version__
from trt_workbench_serving.backends.address import Address, hidden, token
from trt_workbench_serving.backends.calls import Calls

_NO_SUCH = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_HEADERS = ("host", "content-type", "content-length")


class OpenAiClient:
    """Asks one server; several threads may at once.

    Every method raises UsageProblem for what the server refuses, DeviceFailure where it fails, is away or too slow.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long an answer may take. Nothing is sent yet."""
        import openai

        own = {
            "user-agent": f"trt-workbench/{__version__}",
            **({"authorization": f"Bearer {key}"} if (key := token()) else {}),
        }

        async def reduce(request: Any) -> None:
            """Drop what describes this machine, and what OPENAI_… of the environment means for OpenAI alone."""
            needed = {name: request.headers[name] for name in _HEADERS if name in request.headers}
            request.headers = type(request.headers)({**needed, **own})

        http = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,
            trust_env=False,
            verify=ssl.create_default_context(),
            event_hooks={"request": [reduce]},
        )
        self._client = openai.AsyncOpenAI(
            api_key="-", base_url=f"{address}/v1", max_retries=0, timeout=None, http_client=http
        )
        self._calls, self.address = Calls(address, timeout_s), address

    def models(self) -> list[str]:
        """Return the names of the models that the server has."""

        async def listed() -> list[str]:
            return [str(one.id) for one in (await self._client.models.list()).data]

        return [hidden(one) for one in self._asked(listed(), "list its models")]

    def complete(self, request: dict[str, Any], fields: dict[str, Any]) -> Any:
        """Return a completion as JSON values.

        Args:
            request: of OpenAI's API.
            fields: what other servers take as well.
        """
        call = self._client.completions.create(**request, extra_body=fields)
        what = f"complete a text with model {request['model']!r}"
        found = self._asked(call, what, " at /v1/completions, which a server of chats alone lacks")
        return json.loads(hidden(json.dumps(found.to_dict(warnings=False))))

    def close(self) -> None:
        """End the connections."""
        self._calls.answer(self._client.close())

    def _asked(self, call: Coroutine[Any, Any, Any], what: str, where: str = "") -> Any:
        import openai

        try:
            return self._calls.answer(call)
        except openai.APIStatusError as error:
            status = error.status_code
            self._calls.refuse(status, _said(error.body), what + (where if status in _NO_SUCH else ""))
        except openai.APIConnectionError as error:
            raise self._calls.away(error.__cause__ or error) from error
        except (openai.OpenAIError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise self._calls.broken(error) from error


def _said(found: Any) -> str:
    """Return the server's message on what went wrong; "" without one."""
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and key in found:
            found = found[key]
    return found if isinstance(found, str) else "" if found is None else json.dumps(found)
