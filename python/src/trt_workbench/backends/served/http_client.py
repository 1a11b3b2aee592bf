"""HTTP to a server: one connection a thread, a time limit for whole answers, no redirects, no proxies."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trt_workbench import __version__
from trt_workbench.backends.served.address import Address, token
from trt_workbench.backends.served.failures import no_answer, refuse_status, too_slow
from trt_workbench.core.sizes import sized

PORTS = {"http": 80, "https": 443}
_PIECE = 1 << 20
_MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class HttpAnswer:
    """What came back: its status with the words for it, headers with names in lower case, and the body."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        """Return the body's JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def said(self) -> str:
        """The server's message on what went wrong; "" without one."""
        found = self.document()
        for key in ("error", "message", "detail"):
            if isinstance(found, dict) and key in found:
                found = found[key]
        return found if isinstance(found, str) else "" if found is None else json.dumps(found)


class HttpClient:
    """Asks one server. Several threads may use it at once; `close` ends the connections of all of them."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long one answer may take."""
        self.address, self._timeout_s = address, timeout_s
        self._own = threading.local()
        self._every: list[http.client.HTTPConnection] = []
        self._headers = {"User-Agent": f"trt-workbench/{__version__}"}
        if own := token():
            self._headers["Authorization"] = f"Bearer {own}"

    def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, *, method: str = ""
    ) -> HttpAnswer:
        """Return the server's answer, whatever its status.

        Args:
            path: below the address, with its slash.
            body: to send.
            headers: of it.
            method: by default GET, or POST with a body.

        Raises:
            NoAnswer: the server could not be reached, or broke the connection off.
            TooSlow: the answer took too long.
        """
        ends = time.monotonic() + self._timeout_s
        request = (method or ("GET" if body is None else "POST"), self.address.path + path, body)
        connection, is_new = self._connection()
        try:
            try:
                return self._asked(connection, request, headers or {}, ends)
            except ConnectionError:
                if is_new:  # of one that was open, the server may have ended it while nothing was asked
                    raise
                connection.close()
                return self._asked(connection, request, headers or {}, ends)
        except TimeoutError as error:
            connection.close()
            raise too_slow(self.address, self._timeout_s) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise no_answer(self.address, error) from error

    def get(self, path: str, what: str) -> Any:
        """Return the JSON at a path.

        Args:
            path: below the address.
            what: is asked for, in messages.

        Raises:
            UsageProblem: the server refuses it, or answers with no JSON.
            DeviceFailure: the server failed, or as `ask`.
        """
        answer = self.ask(path)
        found = answer.document()
        if answer.status != http.HTTPStatus.OK or found is None:
            refuse_status(self.address, answer.status, answer.reason, answer.said or "no JSON", what)
        return found

    def close(self) -> None:
        """End all connections."""
        while self._every:
            self._every.pop().close()

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """Return this thread's connection, and whether it still has to be opened."""
        if (found := getattr(self._own, "connection", None)) is None:
            address = self.address
            found = (
                http.client.HTTPSConnection(address.host, address.port, context=ssl.create_default_context())
                if address.secure
                else http.client.HTTPConnection(address.host, address.port)
            )
            self._own.connection = found
            self._every.append(found)
        return found, found.sock is None

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        request: tuple[str, str, bytes | None],
        headers: Mapping[str, str],
        ends: float,
    ) -> HttpAnswer:
        connection.timeout = _left(ends)
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        connection.request(*request, headers={**self._headers, **headers})
        socket = connection.sock
        socket.settimeout(_left(ends))
        response = connection.getresponse()
        pieces, size = [], 0
        # piece by piece: the socket's own limit is for each of them
        while piece := response.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise http.client.HTTPException(f"an answer of more than {sized(_MOST_BYTES)}")
            socket.settimeout(_left(ends))
        if response.length:  # read1 ends without a word where the server does
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # which read1 leaves to a last call; the connection takes no request before
        found = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, response.reason, found, b"".join(pieces))


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
