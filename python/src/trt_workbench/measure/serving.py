"""The worker's end of the conversation: one JSON request a line on stdin, one JSON line on its first stdout as answer.

What libraries print goes to stderr. `worker_process.py` is the other end.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Protocol, TextIO

from trt_workbench.errors import WorkbenchError


class Answering(Protocol):
    """What answers requests, one after the other."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request. Raises WorkbenchError."""

    def close(self) -> None:
        """Release what it holds."""


def serve(worker: Answering, requests: TextIO, answers: TextIO) -> None:
    """Answer every line of `requests` until it ends or one says `close`."""
    for line in requests:
        request = json.loads(line)
        if request["verb"] == "close":
            break
        try:
            answer = {"ok": True, **worker.answer(request)}
        except WorkbenchError as error:
            answer = {"ok": False, "error": str(error), "exit_code": error.exit_code, "kind": type(error).__name__}
        except Exception as error:  # a defect in one point is a failed record, not the matrix's end
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}", "exit_code": None, "kind": "Defect"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
    worker.close()


def run_worker(worker: Answering) -> None:
    """Keep the first stdout for answers, send everything else that is printed to stderr, and serve."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(worker, sys.stdin, answers)
