"""A command called from Python: its settings by name, what it wrote as a typed document, its failure as an object."""

from __future__ import annotations

import html
import inspect
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import typer

from trt_workbench.console.common import documents_taken, with_embedded
from trt_workbench.core.errors import INTERRUPTED, UsageProblem, WorkbenchError, did_you_mean
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.settings import Setting

D = TypeVar("D")
S = TypeVar("S")
_REPORT = "report.html"
# What only a command line has a use for: how it prints, and what leaves no run directory that is whole.
_OF_TERMINALS = ("output", "as_json", "debug", "show", "dry_run", "shard")


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


@dataclass(frozen=True)
class Keyword:
    """A setting as a keyword of a function of Python.

    Attributes:
        name: of the keyword.
        hint: its type, with the marks of `Annotated`.
        default: `inspect.Parameter.empty` where there is none.
        help: what it is, a line.
        positional: whether the command takes it as an argument.
        flags: of its option, as typer writes them; "" where they follow from the name.
    """

    name: str
    hint: Any
    default: Any
    help: str
    positional: bool = False
    flags: str = ""


def keywords(takes: Callable[..., Any], without: tuple[str, ...] = ()) -> list[Keyword]:
    """Return the settings of a command, or of a class of settings, as keywords."""
    own = list(_of_class(takes)) if isinstance(takes, type) else list(_of_command(inspect.unwrap(takes)))
    return list({one.name: one for one in own if one.name not in (*without, *_OF_TERMINALS)}.values())


def described(function: Callable[..., Any], own: Iterable[Keyword]) -> None:
    """Let `help` and editors show the settings that a function takes by name."""
    kinds, shown = inspect.Parameter, inspect.signature(function)
    places = [one for one in shown.parameters.values() if one.kind is not kinds.VAR_KEYWORD]
    named = [one for one in own if not one.positional]
    hints = [kinds(one.name, kinds.KEYWORD_ONLY, default=one.default, annotation=_bare(one.hint)) for one in named]
    vars(function)["__signature__"] = shown.replace(parameters=[*places, *hints])
    lines = "\n".join(f"    {one.name}: {one.help}" for one in named)
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:\n{lines}"


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_args(hint)[1:] and hasattr(hint, "__metadata__") else hint


def settings(kind: type[S], given: Mapping[str, Any], without: tuple[str, ...] = ()) -> S:
    """Return a class of settings with what was given, checked by the bounds of its options; none of those `without`.

    Raises:
        UsageProblem: a setting is unknown or wrong.
    """
    _refuse_unknown(given, keywords(kind, without))
    return _made(kind, given)


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
    _refuse_unknown(given, keywords(command, without))
    given |= {} if output is None else {"output": output}
    arguments = _arguments(inspect.unwrap(command), with_embedded(_placed(command, places, given)))
    found, failure = called(inspect.unwrap(command), arguments)
    directory = Path(found["directory"])
    return Finished(read(directory), directory, failure)


def settings_of(
    command: Callable[..., Any], *places: Any, more: Iterable[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all settings by name with which `call_command` would call: before what is called earlier takes minutes.

    `more` are names of something else that may have been meant. Raises UsageProblem for a wrong name or value, and for
    one that `places` give.
    """
    _refuse_unknown(given, [one for one in keywords(command) if not one.positional], more)
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
    names = (one.name for one in keywords(command) if one.positional)
    return {**given, **dict(zip(names, places, strict=False))}


def _of_command(command: Callable[..., Any]) -> Iterator[Keyword]:
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            yield from _of_class(one.annotation)
        else:
            yield _keyword(one.name, one.annotation, one.default)


def _of_class(declared: Any) -> Iterator[Keyword]:
    hints = get_type_hints(declared, include_extras=True)
    for one in fields(declared):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        found = _keyword(one.name, hints[one.name], inspect.Parameter.empty if default is MISSING else default)
        if found.help:  # a setting
            yield found


def _keyword(name: str, hint: Any, default: Any) -> Keyword:
    for said in get_args(hint)[1:]:
        if isinstance(said, Setting):
            return Keyword(name, hint, default, said.help, said.argument, said.flags)
        if isinstance(said, typer.models.ParameterInfo):
            flags = " ".join(getattr(said, "param_decls", None) or ())
            return Keyword(name, hint, default, said.help or "", isinstance(said, typer.models.ArgumentInfo), flags)
    return Keyword(name, hint, default, "")


def _refuse_unknown(given: Mapping[str, Any], known: list[Keyword], more: Iterable[str] = ()) -> None:
    names = [*(one.name for one in known), *more]
    if unknown := [name for name in given if name not in names]:
        flag = f"--{unknown[0].replace('_', '-')}"
        called = next((one.name for one in known if flag in one.flags.split()), None)
        hint = f"the setting of {flag} is called {called}." if called else did_you_mean(unknown[0], names)
        raise UsageProblem(f"There is no setting {unknown[0]!r}; {hint}")


def _arguments(command: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to call a command with: an instance of each of its classes, and what was given of the rest."""
    made: dict[str, Any] = {}
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            own = {keyword.name for keyword in _of_class(one.annotation)}
            made[one.name] = _made(one.annotation, {name: given[name] for name in own & given.keys()})
        elif one.name in given:
            made[one.name] = checked(one.annotation, given[one.name], one.name)
    return made


def _made(kind: type[S], given: Mapping[str, Any]) -> S:
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{name: checked(hints[name], value, name) for name, value in given.items()})


def checked(hint: Any, value: Any, name: str) -> Any:
    """Return a value as its type, within its bounds; texts are read as those of the option are. Raises UsageProblem."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    said = next((one for one in get_args(hint)[1:] if isinstance(one, Setting) and one.read), None)
    if said and said.read and (callable(value) or (texts and all(isinstance(one, str) for one in texts))):
        return said.read(name, ",".join(texts) if texts and said.kind is str else texts or value)
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    from trt_workbench.core.documents import reason_in

    try:
        found = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        numbers = value if isinstance(value, list | tuple) else [value]
        if said and numbers and all(type(one) in (str, int, float) for one in numbers):  # imgsz=640, classes=[0]
            return checked(hint, [str(one) for one in numbers], name)
        reason = reason_in(error.errors(include_url=False)[0])
        raise UsageProblem(f"The setting {name} is wrong: {reason}, not {value!r:.80}.") from error
    if isinstance(found, Path) and value == "":  # which Path takes for the current folder
        raise UsageProblem(f"The setting {name} is empty.")
    return found
