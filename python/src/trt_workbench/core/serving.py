"""The worker's side of `workers.py`: `python -m trt_workbench.core.serving TARGET`.

One JSON request a line on stdin, one JSON line on its first stdout as answer. What libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import pkgutil
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from trt_workbench.core.errors import BackendFailure, OutOfMemory, WorkbenchError, error_document
from trt_workbench.core.workers import TEMPORARY

_GRACE_S = 10.0
_CLOSE = "close"


def resolve(target: str) -> Any:
    """Return what answers: the module that `target` names, or a new object of its class."""
    found = pkgutil.resolve_name(target)
    return found() if isinstance(found, type) else found


def serve(answering: Any, requests: Iterable[str], answers: TextIO) -> None:
    """Answer every line of `requests`, by the function of `answering` that its verb names, until one says `close`."""
    try:
        for line in requests:
            request = json.loads(line)
            if request["verb"] == _CLOSE:
                break
            answers.write(json.dumps(_answer(answering, request), default=str) + "\n")
            answers.flush()
    finally:
        getattr(answering, _CLOSE, lambda: None)()


def _answer(answering: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": True, **getattr(answering, request["verb"])(request)}
    except WorkbenchError as error:
        return {"ok": False, **error_document(error)}
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        return {"ok": False, **error_document(OutOfMemory(f"Out of memory{reason}."))}
    except KeyboardInterrupt as error:  # Ctrl-C does not reach this process: the backend raised it
        return {"ok": False, **error_document(BackendFailure(f"It raised {type(error).__name__}."))}
    except Exception as error:  # a defect in one request is a failure, not everything's end
        traceback.print_exc()
        return {"ok": False, "error": f"{type(error).__name__}: {error}", "exit_code": None, "kind": "Defect"}


def main(target: str) -> None:
    """Keep the first stdout for answers, send everything else that is printed to stderr, and serve."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which nohup and shells may have switched off
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    alone = threading.Event()
    threading.Thread(target=_read, args=(requests, alone), daemon=True).start()
    try:
        serve(resolve(target), iter(requests.get, ""), answers)
    finally:
        if alone.is_set():
            _end_all()


def _read(requests: queue.SimpleQueue[str], alone: threading.Event) -> None:
    """Hand on the requests; where they end without `close`, the parent is dead, and this process ends, too."""
    line = ""
    for line in sys.stdin:
        requests.put(line)
    if line.strip() != json.dumps({"verb": _CLOSE}):
        alone.set()
        requests.put("")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_GRACE_S)  # for what is under way to clean up
        _end_all()


def _end_all() -> None:
    """End this process with what it has started: nobody else does."""
    temporary = Path(tempfile.gettempdir())
    if temporary.name.startswith(TEMPORARY):
        shutil.rmtree(temporary, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
