"""The standard streams of a command: a reader that goes away, or a full disk, does not end its work halfway.

Importing this module imports almost nothing.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO

_BAD_OUTPUT = 2


class GuardedOutput(io.FileIO):
    """A file descriptor that takes every write; the first failure is kept, and nothing is written after it."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write `data`, or drop it after a failure."""
        if self.failure is None:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.failure = error
        return len(data)


def guard() -> None:
    """Replace sys.stdout and sys.stderr. A stream that was closed is opened, so that no other file gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number; writing to it fails
    sys.stdout, sys.stderr = _text(1, sys.stdout), _text(2, sys.stderr)


def _text(number: int, earlier: TextIO | None) -> io.TextIOWrapper:
    raw = GuardedOutput(number, "wb", closefd=False)
    encoding = getattr(earlier, "encoding", None) or "utf-8"
    # names of files may be no text: better escaped than an error after the work is done
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=number == 2 or raw.isatty()
    )


def finish(code: int) -> int:
    """Write what is left in the guarded stdout and return the exit code of the process.

    A reader that went away, as `head` does, changes nothing. What else keeps the output from being written is an error,
    unless the command has one already.
    """
    sys.stdout.flush()
    problem = getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "failure", None)
    if code or problem is None or problem.errno == errno.EPIPE:
        return code
    sys.stderr.write(f"error: The output is not writable ({problem.strerror}).\n")
    return _BAD_OUTPUT
