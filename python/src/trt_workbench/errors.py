"""The one family of errors that a user may see. Each class carries the exit code of its kind."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

# Exit code of what Ctrl-C ended: 128 + SIGINT, as shells report it.
INTERRUPTED = 130


class WorkbenchError(Exception):
    """An error that the command line prints as one short paragraph.

    The message says what is wrong first, then how to mend it, and names the path last.
    A defect of our own is never raised as one of these.
    """

    exit_code: ClassVar[int]


class CheckFailed(WorkbenchError):
    """The work was done and its result is outside the tolerance or gate that was asked for."""

    exit_code = 1


class UsageProblem(WorkbenchError):
    """Bad usage or bad input: an argument, a file or a model that cannot be used as asked."""

    exit_code = 2


class ComponentMissing(WorkbenchError):
    """A needed component (a library, a runtime, a tool) is absent or does not fit the others."""

    exit_code = 3


class DeviceFailure(WorkbenchError):
    """The device failed: out of memory, lost, or an error that poisons the process."""

    exit_code = 4


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: what is near to it, or else all there is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=2)
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}."
