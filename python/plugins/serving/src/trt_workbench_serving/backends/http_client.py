"""HTTP to a server: one connection a thread, a time limit for whole answers, no redirects, no proxies."""

from __future__ import annotations

import http.client
import io
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trt_workbench import __version__
from trt_workbench.core.counts import sized
from trt_workbench_serving.backends.address import Address, hidden, token
from trt_workbench_serving.backends.failures import no_answer, refuse_status, too_slow

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
        """Return the body's JSON; None where it is none, and for numbers that are not finite, which JSON lacks.

        It is without the token also where the server escaped that.
        """
        try:
            found = json.loads(self.body, parse_constant=lambda _: None, parse_float=_finite)
            return json.loads(hidden(json.dumps(found))) if b"\\" in self.body else found
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


class _Received(io.RawIOBase):
    """What a socket receives, up to a moment: its own limit is for each piece, and so for no answer that drips."""

    def __init__(self, source: socket.socket, ends: float) -> None:
        super().__init__()
        self._socket, self._pieces, self._ends = source, source.makefile("rb", buffering=0), ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(_left(self._ends))
        return self._pieces.readinto(buffer)

    def close(self) -> None:
        self._pieces.close()
        super().close()


class _Connection(http.client.HTTPConnection):
    """A connection whose requests and answers end by `ends`, a moment of `time.monotonic`.

    Attributes:
        secure: how it is encrypted; None for HTTP.
    """

    ends = 0.0
    secure: ssl.SSLContext | None = None

    def connect(self) -> None:
        self.timeout = _left(self.ends)
        super().connect()
        if self.secure:
            self.sock.settimeout(_left(self.ends))
            self.sock = self.secure.wrap_socket(self.sock, server_hostname=self.host)

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(_left(self.ends))
        super().send(data)

    def response_class(  # type: ignore[override] # called as the class is
        self, sock: socket.socket, *, method: str | None = None
    ) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, method=method)
        response.fp.close()
        response.fp = io.BufferedReader(_Received(sock, self.ends))
        return response


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
        request = (method or ("GET" if body is None else "POST"), self.address.path + path, body)
        connection, is_new = self._connection()
        connection.ends = time.monotonic() + self._timeout_s
        try:
            try:
                return self._asked(connection, request, headers or {})
            except ConnectionError:
                if is_new:  # of one that was open, the server may have ended it while nothing was asked
                    raise
                connection.close()
                return self._asked(connection, request, headers or {})
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

    def _connection(self) -> tuple[_Connection, bool]:
        """Return this thread's connection, and whether it still has to be opened."""
        if (found := getattr(self._own, "connection", None)) is None:
            found = self._own.connection = _Connection(self.address.host, self.address.port)
            if self.address.secure:
                found.secure, found.default_port = ssl.create_default_context(), PORTS["https"]
            self._every.append(found)
        return found, found.sock is None

    def _asked(
        self, connection: _Connection, request: tuple[str, str, bytes | None], headers: Mapping[str, str]
    ) -> HttpAnswer:
        connection.request(*request, headers={**self._headers, **headers})
        response = connection.getresponse()
        pieces, size = [], 0
        while piece := response.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise http.client.HTTPException(f"an answer of more than {sized(_MOST_BYTES)}")
        if response.length:  # read1 ends without a word where the server does
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # which read1 leaves to a last call; the connection takes no request before
        found = {name.lower(): hidden(value) for name, value in response.getheaders()}
        return HttpAnswer(response.status, hidden(response.reason), found, hidden(b"".join(pieces)))


def _finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
