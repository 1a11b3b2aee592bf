"""A headless Chromium, driven by the DevTools protocol over its pipe: no package and no port.

https://chromedevtools.github.io/devtools-protocol; messages are JSON, each ends with a NUL byte.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # containers run as root and offer no namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The pipe's ends have to be the descriptors 3 and 4.
_START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in enumerate(high, 3):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
_TIMEOUT_S = 60.0


@dataclass
class Browser:
    """One page of a browser, and what it complained of since `open`."""

    _to: int
    _from: int
    _session: str = ""
    _rest: bytes = b""
    _count: int = 0
    complaints: list[str] = field(default_factory=list)
    _loaded: bool = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < end:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)
        raise TimeoutError(method)

    def open(self, page: Path, width: int, *, dark: bool = False) -> None:
        """Open a file in a window of this width, and wait until all of it is loaded."""
        self.complaints.clear()
        self._loaded = False
        self.show(width, dark=dark)
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not self._loaded:
            self._note(self._read())

    def show(self, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Show the page in a window of this width, in a colour scheme, on a screen or as print lays it out."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=scheme)

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or of the promise that it is."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 16)
            if not part:
                raise RuntimeError("The browser ended.")
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(what["exceptionDetails"]["exception"]["description"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one)) for one in what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{what['entry']['text']} {what['entry'].get('url', '')}".strip())
        elif method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
            self.complaints.append(f"It asks the network for {what['request']['url']}")


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with its profile in `folder`, and end it."""
    assert CHROMIUM
    its_in, to = os.pipe()
    from_, its_out = os.pipe()
    words = [sys.executable, "-c", _START, str(its_in), str(its_out)]
    words += [CHROMIUM, *_ARGUMENTS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(words, pass_fds=(its_in, its_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(its_in)
    os.close(its_out)
    made = Browser(to, from_)
    try:
        target = made.call("Target.createTarget", url="about:blank")["targetId"]
        made._session = made.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            made.call(f"{domain}.enable")
        yield made
    finally:
        os.close(to)
        os.close(from_)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
