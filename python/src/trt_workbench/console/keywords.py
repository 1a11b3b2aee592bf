"""Settings as keywords of a function of Python: their names, types and help, and what is given for them, checked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trt_workbench.core.errors import UsageProblem, did_you_mean
from trt_workbench.core.settings import Setting

S = TypeVar("S")
# What only a command line has a use for: how it prints, and what leaves no run directory that is whole.
_OF_TERMINALS = ("output", "as_json", "debug", "show", "dry_run", "shard")


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
    own = list(of_class(takes)) if isinstance(takes, type) else list(_of_command(inspect.unwrap(takes)))
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
    refuse_unknown(given, keywords(kind, without))
    return instance(kind, given)


def instance(kind: Callable[..., S], given: Mapping[str, Any]) -> S:
    """Return a class of settings with what was given, checked. Raises UsageProblem."""
    hints = _hints(kind)
    return kind(**{name: checked(hints[name], value, name) for name, value in given.items()})


def checked(hint: Any, value: Any, name: str) -> Any:
    """Return a value as its type, within its bounds; texts are read as those of the option are. Raises UsageProblem."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    said = next((one for one in get_args(hint)[1:] if isinstance(one, Setting) and one.read), None)
    if said and said.read and (callable(value) or (texts and all(isinstance(one, str) for one in texts))):
        return said.read(name, ",".join(texts) if texts and said.kind is str else texts or value)
    kinds = _plain(hint)
    if type(value) in kinds and type(value) in (str, bool, NoneType):
        return value
    if Path in kinds and isinstance(value, str | Path) and value != "":
        return Path(value)
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


def _plain(hint: Any) -> tuple[Any, ...]:
    """Return the types of a hint whose values need no pydantic, which is slow to import; none with validators."""
    kind, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    if not all(isinstance(one, Setting) for one in marks) or get_origin(kind) not in (None, Union, UnionType):
        return ()
    return get_args(kind) or (kind,)


def _of_command(command: Callable[..., Any]) -> Iterator[Keyword]:
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            yield from of_class(one.annotation)
        else:
            yield _keyword(one.name, one.annotation, one.default)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def of_class(declared: Any) -> Iterator[Keyword]:
    """Yield the settings of a class as keywords."""
    hints = _hints(declared)
    for one in fields(declared):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        found = _keyword(one.name, hints[one.name], inspect.Parameter.empty if default is MISSING else default)
        if found.help:  # a setting
            yield found


def _keyword(name: str, hint: Any, default: Any) -> Keyword:
    for said in get_args(hint)[1:]:
        if isinstance(said, Setting):
            return Keyword(name, hint, default, said.help, said.argument, said.flags)
        import typer  # the commands that say so have imported it

        if isinstance(said, typer.models.ParameterInfo):
            flags = " ".join(getattr(said, "param_decls", None) or ())
            return Keyword(name, hint, default, said.help or "", isinstance(said, typer.models.ArgumentInfo), flags)
    return Keyword(name, hint, default, "")


def refuse_unknown(given: Mapping[str, Any], known: list[Keyword], more: Iterable[str] = ()) -> None:
    """Raise UsageProblem for a name that neither a keyword nor one of `more` has."""
    names = [*(one.name for one in known), *more]
    if unknown := [name for name in given if name not in names]:
        flag = f"--{unknown[0].replace('_', '-')}"
        called = next((one.name for one in known if flag in one.flags.split()), None)
        hint = f"the setting of {flag} is called {called}." if called else did_you_mean(unknown[0], names)
        raise UsageProblem(f"There is no setting {unknown[0]!r}; {hint}")
