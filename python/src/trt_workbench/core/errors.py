"""The one family of errors that a user may see. Each class carries the exit code of its kind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from trt_workbench.core.counts import some

# Exit code of what Ctrl-C ended: 128 + SIGINT, as shells report it.
INTERRUPTED = 130
# Characters of a message; a path may have 4096 of them.
LONGEST = 6000
# The largest number that an option or a setting takes: seeds, counts, seconds, sizes.
LARGEST_NUMBER = 2**31 - 1
# Of two words: `ortcpu` is ort-cpu (0.92), `fp61` near to fp16 (0.75), `nope` not to openai (0.6). And of a beginning.
_SURE, _NEAR, _BEGINNING = 0.9, 0.65, 3
# Of the names that a message lists.
_MOST_NAMES = 24
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


class WorkbenchError(Exception):
    """An error that the command line prints as one short paragraph.

    The message says what is wrong first, then how to fix it, and names the path last.
    A defect of our own is never raised as one of these. Parts of a message may come from any file: `str` makes them
    safe to print.
    """

    exit_code: ClassVar[int]

    def __str__(self) -> str:
        """Return the message as one printable line of bounded length."""
        return printable(super().__str__())


class CheckFailed(WorkbenchError):
    """The work was done and its result is outside the tolerance or gate that was asked for."""

    exit_code = 1


class NotFinite(CheckFailed):
    """A model returned NaN or infinite values.

    Attributes:
        what: where they are, a sentence without its end.
    """

    def __init__(self, what: str, reason: str = "") -> None:
        """Take what happened, and which inner values it comes from, as the end of that sentence."""
        super().__init__(f"{what}{reason}. Where it runs in reduced precision, keep the layers that overflow in fp32.")
        self.what = what


class UsageProblem(WorkbenchError):
    """Bad usage or bad input: an argument, a file or a model that cannot be used as asked."""

    exit_code = 2


class Unsupported(UsageProblem):
    """A backend lacks what a model asks for, which another backend may have."""


class ComponentMissing(WorkbenchError):
    """A needed component (a library, a runtime, a tool) is absent or does not fit the others."""

    exit_code = 3


class DeviceFailure(WorkbenchError):
    """The device failed, or a runtime failed for a reason unrelated to the request."""

    exit_code = 4


class OutOfMemory(DeviceFailure, MemoryError):
    """The device or the process ran out of memory: less at once may work. Python's MemoryError is one as well."""


class DeviceLost(DeviceFailure):
    """The device failed permanently: every later call of this process fails too."""


class BackendFailure(DeviceFailure):
    """A backend of another package raised an error that is not ours, or returned an invalid answer."""


def error_document(error: WorkbenchError) -> dict[str, Any]:
    """Return an error as JSON values, for another process."""
    return {"error": str(error), "kind": type(error).__name__, "exit_code": error.exit_code}


def error_of(document: Mapping[str, Any]) -> WorkbenchError | None:
    """Return the error of an `error_document`; one of a class elsewhere is of the class here with its exit code.

    None for what is no error of this family.
    """
    like = [one for one in _kinds() if one.exit_code == document["exit_code"]]
    kind = error_kind(document["kind"]) or next(iter(like), None)
    return kind(document["error"]) if kind and like else None


def error_kind(name: str) -> type[WorkbenchError] | None:
    """Return the class of this family that has a name, or its base that takes a whole message; None without one."""
    kind = next((one for one in _kinds() if one.__name__ == name), None)
    return next((one for one in kind.__mro__ if "__init__" not in vars(one)), None) if kind else None


def _kinds() -> list[type[WorkbenchError]]:
    found = [one for one in globals().values() if isinstance(one, type) and issubclass(one, WorkbenchError)]
    return [one for one in found if hasattr(one, "exit_code")]


def reason_of(error: BaseException) -> str:
    """Return what an error of another package says, else its class."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise the panic of a library in Rust, which is no Exception, as UsageProblem with its words."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise UsageProblem(f"A library failed on what it was given: {reason_of(error)}") from error


def similar(name: str, known: Sequence[str]) -> list[str]:
    """Return the name that is surely meant by one that is written so, or two that may be: near ones, longer ones."""
    from difflib import get_close_matches

    if sure := get_close_matches(name, known, n=1, cutoff=_SURE):
        return sure
    longer = [one for one in known if len(name) >= _BEGINNING and one.startswith(name)]
    return list(dict.fromkeys([*longer, *get_close_matches(name, known, n=2, cutoff=_NEAR)]))[:2]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the similar names, else all names."""
    names = list(known)
    near = similar(name, names)
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {some(names, _MOST_NAMES) or 'none'}."


def printable(text: str, limit: int = LONGEST) -> str:
    """Return `text` as one line that is safe to print, no matter which file it came from.

    Colour codes are dropped, line breaks become spaces, all else that does not print (control characters, halves of
    surrogate pairs, marks that change the writing direction) is escaped. Of a text longer than `limit` characters the
    middle is left out: the problem comes first and the path last.
    """
    if not text.isprintable():
        text = re.sub(r"[\t\n\r\v\f]", " ", _COLOUR.sub("", text))
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]} […] {text[len(text) - limit // 3 :]}"


def whole_number(text: str) -> int | None:
    """Return the number below 2^31 that a text of ASCII digits stands for; None for any other text.

    Python's own `int` takes digits of other scripts, underscores and signs; `isdigit` even what `int` refuses.
    """
    number = int(text) if re.fullmatch("[0-9]{1,20}", text) else -1
    return number if 0 <= number <= LARGEST_NUMBER else None


def allowed(number: float) -> str:
    """Return what a number has to be that is not finite, or too large for C; "" of any other."""
    if abs(number) <= LARGEST_NUMBER:
        return ""
    bound = f"at most {LARGEST_NUMBER}" if number > 0 else f"at least {-LARGEST_NUMBER}"
    return bound if abs(number) < float("inf") else "finite"


def is_text(name: str) -> bool:
    """Return whether a name can be drawn: OpenCV and FreeType crash on halves of surrogate pairs, others on NUL."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name)
