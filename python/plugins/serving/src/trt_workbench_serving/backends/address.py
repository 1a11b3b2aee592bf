"""Where a server is, and who asks: its URL, and a token from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import AnyStr
from urllib.parse import urlsplit

from trt_workbench.core.errors import UsageProblem

TOKEN = "TRTW_SERVER_TOKEN"
"""The environment variable with the bearer token. It is never an option, as options are recorded."""

_LONG = 6


@dataclass(frozen=True)
class Address:
    """A server's URL, in parts.

    Attributes:
        scheme: "http", "https", "grpc" or "grpcs".
        host: name or number.
        port: of TCP.
        path: in front of the protocol's own paths, without a slash at its end.
    """

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def read(cls, url: str, ports: dict[str, int]) -> Address:
        """Return the address that a URL means.

        Args:
            url: such as `http://localhost:8000`; without a scheme it is HTTP.
            ports: the usual port by scheme that is allowed.

        Raises:
            UsageProblem: it is no such URL, or holds a password.
        """
        wanted = f"pass a URL such as {next(iter(ports))}://localhost:{next(iter(ports.values()))}"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            host, port = parts.hostname, parts.port
            (host or "").encode("idna"), parts.path.encode("ascii")
            if not url.isprintable() or " " in url:
                raise ValueError("it has blanks or control characters")
        except ValueError as error:
            raise UsageProblem(f"The server's URL cannot be read ({error}); {wanted}: {url}") from error
        if parts.username is not None or parts.password is not None:
            raise UsageProblem(f"The server's URL holds a user name, which would be recorded; set {TOKEN} instead.")
        if parts.scheme not in ports or not host or parts.query or parts.fragment:
            raise UsageProblem(f"This is no URL of a server ({', '.join(ports)}); {wanted}: {url}")
        return cls(parts.scheme, host, port or ports[parts.scheme], parts.path.rstrip("/"))

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in ("https", "grpcs")

    @property
    def target(self) -> str:
        """Host and port, as gRPC and HTTP's Host take them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL."""
        return f"{self.scheme}://{self.target}{self.path}"


def token() -> str | None:
    """Return the user's token; None where there is none.

    Raises:
        UsageProblem: it cannot be part of a request.
    """
    found = os.environ.get(TOKEN, "").strip()
    if not found.isascii() or not found.isprintable():
        raise UsageProblem(f"The token in {TOKEN} has characters that no request can hold.")
    return found or None


def hidden(said: AnyStr) -> AnyStr:
    """Return what a server said with stars, as many as there were letters, in place of the token.

    One of a few letters may be part of any word: it is hidden where it is named as a token.
    """
    own = token()
    for name in () if own is None else (f"Bearer {own}", own)[: 1 + (len(own) >= _LONG)]:
        stars = "*" * len(name)
        said = said.replace(name.encode(), stars.encode()) if isinstance(said, bytes) else said.replace(name, stars)
    return said
