"""JSON that the workbench keeps: every document and line has a pydantic model, and is read and written only here."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails, to_jsonable_python

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import path_within, write_text
from trt_workbench.core.input_files import open_regular, parse_json, read_text

T = TypeVar("T")
_ROWS = 4096  # of a list that are in memory as JSON at once
_WORDS = {
    "missing": "is missing",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "must be keys with values"),
    "string_type": "must be text",
    "path_type": "must be a path",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
    "too_short": "needs {min_length} or more entries",
}
"""What stands for pydantic's words about an error, by its type."""
Inside = Annotated[str, AfterValidator(lambda name: str(path_within(Path(), name)))]
"""The name of a file in the document's own folder, or below it."""


class Strict(BaseModel):
    """A part of a document that holds its fields and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")


class Open(Strict):
    """A part of a document that holds more than is read of it; the rest is kept as it is."""

    model_config = ConfigDict(extra="allow")


def without(*keys: str) -> Any:
    """Return what leaves out keys of earlier releases that hold nothing; any attribute of the document's model."""
    return model_validator(mode="before")(
        lambda found: (
            {key: one for key, one in found.items() if one or key not in keys} if isinstance(found, dict) else found
        )
    )


def having(*keys: str) -> AfterValidator:
    """Return what refuses an object that lacks a key; to be put into `Annotated`."""

    def check(value: dict[str, Any]) -> dict[str, Any]:
        if lacking := [key for key in keys if key not in value]:
            raise ValueError(f"it lacks {lacking[0]}")
        return value

    return AfterValidator(check)


def key_of(details: ErrorDetails) -> str:
    """Return the key of a document at which pydantic refuses it, with dots; "" for the whole."""
    return ".".join(map(str, details["loc"]))


def reason_in(details: ErrorDetails) -> str:
    """Return why pydantic refuses a value, for the middle of a sentence."""
    if words := _WORDS.get(details["type"]):
        return words.format(**details.get("ctx", {}))
    message = details["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if details["type"] != "value_error" else message


def refusal(details: ErrorDetails) -> str:
    """Return what follows the name of a setting that pydantic refuses: `must be a number`, `is wrong: REASON`."""
    return f"{'' if details['type'] in _WORDS else 'is wrong: '}{reason_in(details)}"


def read_document(path: Path, kind: type[T], advice: str = "") -> T:
    """Return what a JSON file holds, as its model.

    Args:
        path: the file.
        kind: the model, or any type that pydantic validates.
        advice: what to do about damage.

    Raises:
        UsageProblem: the file or its folder is absent, or the model refuses it; the message names file and key.
    """
    found: T = _validated(_text(path), kind, path.name, advice, path)
    return found


def reader(name: str, kind: type[T]) -> Callable[[Path], T]:
    """Return what reads the file of this name in a folder, as `read_document`."""
    return lambda folder: read_document(folder / name, kind)


def read_lines(path: Path, kind: Any, advice: str = "", *, growing: bool = False) -> list[Any]:
    """Return what the lines of a JSON Lines file hold, as their model; blank ones are left out.

    `growing` leaves out a last line without its end, too: its process was killed, or is writing it.

    Raises:
        UsageProblem: as `read_document`; the message names the line, too.
    """
    # not splitlines: a text may hold other separators of lines, which JSON leaves as they are
    lines = _text(path).split("\n")
    whole = enumerate(lines[:-1] if growing else lines, 1)
    return [_validated(line, kind, "This line", advice, f"{path}:{number}") for number, line in whole if line]


def read_rows(path: Path, kind: Any) -> Iterator[list[Any]]:
    """Yield what a JSON file holds that is a list with an entry a line, some thousand entries at a time.

    Raises:
        UsageProblem: as `read_document`.
    """
    with _reading(path), open_regular(path) as file:
        lines = (line.strip().rstrip(b",") for line in file)
        begun, last = next(lines, b""), b""
        if begun != b"[":
            raise UsageProblem(f"{path.name} is no list with an entry a line; it was modified: {path}")
        while block := list(itertools.islice(lines, _ROWS)):
            last = block[-1]
            entries = b",".join(line for line in block if line not in (b"", b"]"))
            yield _validated(f"[{entries.decode('utf-8')}]", list[kind], path.name, "", path)
        if last != b"]":
            raise UsageProblem(f"{path.name} is truncated: its last line is missing: {path}")


def json_values(document: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Return a model, dataclass or mapping as JSON values; NaN and infinity, which JSON cannot carry, are null.

    Args:
        document: what is to be written.
        other: what to make of a value that JSON does not have, such as `str`; None refuses it.
    """
    return to_jsonable_python(document, inf_nan_mode="null", fallback=other)


def write_json(path: Path, document: Any, *, over: Callable[[Path], object] | None = None) -> None:
    """Write a model, dataclass or JSON value as indented JSON with a final newline, as `atomic_writer` does.

    Raises:
        OSError: as `atomic_writer`.
        ValueError: the document holds a NaN or infinity, which JSON cannot carry.
    """
    write_text(path, _dumped(document, indent=2) + "\n", over=over)


def append_lines(path: Path, documents: Iterable[Any]) -> None:
    """Append documents to a JSON Lines file as they come; they are written to the file when this returns.

    Raises:
        As `write_json`.
    """
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.writelines(_dumped(document) + "\n" for document in documents)


def _text(path: Path) -> str:
    with _reading(path):
        return read_text(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Word what is wrong with a file of a run directory."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path.name} is not UTF-8 text ({error}): {path}") from error
    except OSError as error:
        if not path.parent.is_dir():
            what = "is a file, not a run directory" if path.parent.exists() else "does not exist"
            raise UsageProblem(f"The run directory {what}: {path.parent}") from error
        if path.is_file():
            raise UsageProblem(f"{path.name} cannot be read ({error.strerror}): {path}") from error
        raise UsageProblem(
            f"The folder is no finished run directory: {path.name} cannot be read ({error.strerror}): {path.parent}"
        ) from error


def _validated(text: str, kind: Any, name: str, advice: str, place: object) -> Any:
    try:
        return _adapter(kind).validate_python(parse_json(text))
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        # of another version everything else may differ, too
        first = next((one for one in wrong if one["loc"][-1:] == ("schema_version",)), wrong[0])
        key = key_of(first)
        what = f"is damaged{f' at {key}' if key else ''} ({reason_in(first)})"
        if key.endswith("schema_version") and first["type"] != "missing":
            what = f"has schema version {first['input']!r:.40}, which this release does not read"
    except ValueError as error:
        what = f"is not JSON; it is damaged or truncated ({error})"
    raise UsageProblem(f"{name} {what}{f'; {advice}' if advice else ''}: {place}")


@functools.lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _dumped(document: Any, indent: int | None = None) -> str:
    return json.dumps(to_jsonable_python(document), indent=indent, allow_nan=False)
