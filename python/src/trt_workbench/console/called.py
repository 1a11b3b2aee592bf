"""A command called from Python: its settings by name, what it wrote as a typed document, its failure as an object."""

from __future__ import annotations

import html
import inspect
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import typer

from trt_workbench.console.common import documents_taken
from trt_workbench.console.keywords import as_keywords, checked, instance, keywords, of_class, refuse_unknown, reworded
from trt_workbench.core.errors import INTERRUPTED, UsageProblem, WorkbenchError
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.workspace import with_embedded

D = TypeVar("D")
_REPORT = "report.html"


@dataclass(frozen=True)
class Finished(Generic[D]):
    """How a command ended.

    Attributes:
        document: what it wrote, such as `verify.json`.
        directory: its run directory, which holds the document, the report and the rest of the evidence.
        failure: the error that the command line ends with although the work was done, such as `CheckFailed` for a
            wrong engine; None where it passed.
    """

    document: D = field(repr=False)
    directory: Path
    failure: WorkbenchError | None = None

    @property
    def passed(self) -> bool:
        """Whether the command line would end with exit code 0."""
        return self.failure is None

    def require(self) -> D:
        """Return the document. Raises the failure where there is one."""
        if self.failure:
            raise self.failure
        return self.document

    def save(self, place: str | Path) -> None:
        """Copy the report, a page that needs no other file. Raises UsageProblem where there is none."""
        write_bytes(Path(place), self._page(), over=anything)

    def show(self) -> None:
        """Open the report in the browser. Raises UsageProblem where there is none."""
        self._page()
        webbrowser.open((self.directory / _REPORT).absolute().as_uri())

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: the report, where there is one."""
        if not (self.directory / _REPORT).is_file():
            return None
        page = html.escape(self._page().decode())
        return f'<iframe srcdoc="{page}" style="width: 70rem; height: 40rem; border: 0"></iframe>'

    def _page(self) -> bytes:
        if not (file := self.directory / _REPORT).is_file():
            raise UsageProblem(f"There is no report; pass report=True, or `trtw report` makes one: {self.directory}")
        return file.read_bytes()


def call_command(
    command: Callable[..., Any],
    read: Callable[[Path], D],
    *places: Any,
    without: tuple[str, ...] = (),
    output: str | Path | None = None,
    **given: Any,
) -> Finished[D]:
    """Run a command as its console script does, and return what it wrote.

    Args:
        command: a command that writes a run directory, made by `handled`.
        read: makes the document of the run directory.
        places: its arguments.
        without: names of settings that make no sense here.
        output: the run directory; tmp/<command>/<run-id>/ by default.
        given: its settings by name.

    Raises:
        WorkbenchError: it failed before it had written anything, by a setting that is unknown or wrong, for one.
        KeyboardInterrupt: it was interrupted; what was done may be in the run directory, marked partial.
    """
    with as_keywords(command):
        refuse_unknown(given, keywords(command, without))
        given |= {} if output is None else {"output": output}
        arguments = _arguments(inspect.unwrap(command), with_embedded(_placed(command, places, given)))
        found, failure = called(inspect.unwrap(command), arguments)
        directory = Path(found["directory"])
        return Finished(read(directory), directory, failure and reworded(failure))


def settings_of(
    command: Callable[..., Any], *places: Any, more: Iterable[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all settings by name with which `call_command` would call: before what is called earlier takes minutes.

    `more` are names of something else that may have been meant. Raises UsageProblem for a wrong name or value, and for
    one that `places` give.
    """
    refuse_unknown(given, [one for one in keywords(command) if not one.positional], more)
    made = _arguments(inspect.unwrap(command), with_embedded(_placed(command, places, given)))
    return {
        name: value
        for argument, one in made.items()
        for name, value in (vars(one) if is_dataclass(one) else {argument: one}).items()
    }


def called(command: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any, WorkbenchError | None]:
    """Call the function of a command; return the document that it prints with --json, and its failure after that.

    Raises:
        WorkbenchError: it failed before there was a document.
        KeyboardInterrupt: it was interrupted.
    """
    failure = None
    with documents_taken() as taken:
        try:
            command(**arguments, as_json=True)
        except WorkbenchError as error:
            if not taken:
                raise
            failure = error
        except typer.Exit as end:  # a report that could not be drawn was warned of
            if end.exit_code == INTERRUPTED:
                raise KeyboardInterrupt from end
    return taken[-1], failure


def _placed(command: Callable[..., Any], places: Iterable[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name, with those that a command takes as arguments."""
    return {**given, **dict(zip((one.name for one in keywords(command) if one.positional), places, strict=False))}


def _arguments(command: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to call a command with: an instance of each of its classes, and what was given of the rest."""
    made: dict[str, Any] = {}
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            own = {keyword.name for keyword in of_class(one.annotation)}
            made[one.name] = instance(one.annotation, {name: given[name] for name in own & given.keys()})
        elif one.name in given:
            made[one.name] = checked(one.annotation, given[one.name], one.name)
    return made
