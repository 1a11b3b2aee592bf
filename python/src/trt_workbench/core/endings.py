"""How a process ended, in words."""

from __future__ import annotations

import signal


def last_words(code: int, stderr: str) -> str:
    """Return what a process said last: of a traceback the error, of other programs three lines; else how it ended."""
    said = [one.strip() for one in stderr.splitlines() if one.strip()]
    lines = 1 if any(one.startswith("Traceback ") for one in said) else 3
    return " ".join(said[-lines:]) or f"the process {ended_how(code)}"


def ended_how(code: int) -> str:
    """Return how a process with this exit code ended, as the end of a sentence; below zero it is a signal's number."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (", probably because memory ran out" if name == "SIGKILL" else "")
