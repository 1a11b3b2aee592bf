"""Settings as keywords of a function of Python: their names, types and help, and what is given for them, checked.

Errors and notes name a setting by its option; within `as_keywords` they name it as a keyword, or as a key of YAML.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trt_workbench.core.errors import UsageProblem, WorkbenchError, allowed, did_you_mean
from trt_workbench.core.settings import Setting

S = TypeVar("S")
E = TypeVar("E", bound=WorkbenchError)
# What only a command line has a use for: how it prints, and what leaves no run directory that is whole.
_OF_TERMINALS = ("output", "as_json", "debug", "show", "dry_run", "shard")
_PYTHON, YAML = "=", ": "
_called: ContextVar[tuple[Callable[..., Any] | None, str]] = ContextVar("called", default=(None, _PYTHON))
# A command in backquotes is for a shell and stays. After an option, a word without a digit, a capital or a sign is its
# value only where the setting has such a value: of "--url names a server" it is the verb.
_OPTION = re.compile(
    r"`[^`-][^`]*`|(?<![\w-])(?P<flag>--[a-z][a-z-]*)"
    r"(?:[ =](?:(?P<value>'[^']*'|(?![-('])(?=[^\s`]*(?:[\d=/A-Z_-]|\.\w))[^\s`]+(?<![.,:;)?]))"
    r"|(?P<word>[a-z]+)\b(?P<ends>(?=[.,:;)]|$| or ))?))?"
)


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


def described(function: Callable[..., Any], takes: Callable[..., Any], without: tuple[str, ...] = ()) -> None:
    """Let `help` and editors show the settings that a function takes by name, but for those `without` a meaning."""
    kinds, shown = inspect.Parameter, inspect.signature(function)
    places = [one for one in shown.parameters.values() if one.kind is not kinds.VAR_KEYWORD]
    named = [one for one in keywords(takes, without) if not one.positional]
    hints = [kinds(one.name, kinds.KEYWORD_ONLY, default=one.default, annotation=_bare(one.hint)) for one in named]
    vars(function)["__signature__"] = shown.replace(parameters=[*places, *hints])
    # the command line repeats, or separates by commas, what Python has in a dict or a list
    lines = "\n".join(
        f"    {one.name}: "
        + re.sub(
            "repeatable|comma-separated",
            "as a dict" if "Mapping" in str(one.hint) else "as a list",
            worded(one.help, takes),
        )
        for one in named
    )
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:\n{lines}"


@contextmanager
def as_keywords(takes: Callable[..., Any], mark: str = "") -> Iterator[None]:
    """Name the settings of a command, or of a class of settings, as keywords in the errors and notes of the block.

    `mark` stands between name and value: `YAML`, also of what is called within, or else Python's.
    """
    token = _called.set((takes, mark or _called.get()[1]))
    try:
        yield
    except WorkbenchError as error:
        reworded(error)
        raise
    finally:
        _called.reset(token)


def reworded(error: E) -> E:
    """Return an error whose message names settings as `worded` does."""
    error.args = (worded(str(error)),)
    return error


def worded(text: str, takes: Callable[..., Any] | None = None) -> str:
    """Return a text with keywords for options, such as `backend="v2"` for `--backend v2`, where Python has called.

    `takes` has the settings; by default it is that of `as_keywords` around, without which the text stays as it is.
    """
    called, mark = _called.get()
    takes = takes or called
    return _OPTION.sub(functools.partial(_keyword_of, _by_flag(takes), mark), text) if takes and "--" in text else text


def _by_flag(takes: Callable[..., Any]) -> dict[str, tuple[Keyword, bool]]:
    """Return by option the keyword and whether the option switches it on."""
    own = [*keywords(takes), Keyword("output", Path, None, "")]
    words = ((one, one.flags or f"--{one.name}/--no-{one.name}".replace("_", "-")) for one in own)
    pairs = ((one, word.split("/")) for one, flags in words for word in flags.split())
    return {flag: (one, on) for one, pair in pairs for flag, on in zip(pair, (True, False), strict=False)}


def _keyword_of(known: Mapping[str, tuple[Keyword, bool]], mark: str, found: re.Match[str]) -> str:
    from trt_workbench.backends.registry import backend_names

    if found["flag"] not in known:
        return found[0]
    (one, on), value, word = known[found["flag"]], found["value"], found["word"]
    if (kind := _bare(one.hint)) is bool:
        return found[0].replace(found["flag"], f"{one.name}{mark}{str(on).lower() if mark == YAML else on}")
    choices = [choice for part in (kind, *get_args(kind)) for choice in get_args(part)]
    # in its help the values stand in a list, or a phrase that ends with the word is about one of them
    is_listed = word and re.search(rf"\b{word}{'' if found['ends'] is not None else '[,`)]'}(?!\w)", one.help)
    if word and (is_listed or word in (*choices, *backend_names())):
        value, word = word, None
    typed = value if not value or mark == YAML or re.fullmatch(r"[\d.]+|[A-Z]+|'.*'", value) else f'"{value}"'
    named = f"`{one.name}`" if mark == YAML and not typed else f"{one.name}{mark}{typed or ''}"
    return named + (f" {word}" if word else "")


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
    kinds = _plain(hint)
    if (
        said
        and said.read
        and (
            (said.takes_functions and callable(value))
            or (texts and all(isinstance(one, str) for one in texts))
            or (float in kinds and isinstance(value, int | float))
        )
    ):
        return said.read(name, said.kind(",".join(texts)) if texts and said.kind in (str, Path) else texts or value)
    if type(value) in kinds and type(value) in (str, bool, NoneType):
        return value
    if Path in kinds and isinstance(value, str | Path) and value != "":
        return Path(value)
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    from trt_workbench.core.documents import refusal

    try:
        found = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        numbers = value if isinstance(value, list | tuple) else [value]
        if said and numbers and all(type(one) in (str, int, float) for one in numbers):  # imgsz=640, classes=[0]
            return checked(hint, [str(one) for one in numbers], name)
        reason = refusal(error.errors(include_url=False)[0])
        raise UsageProblem(f"The setting {name} {reason}, not {value!r:.80}.") from error
    parts = found.values() if isinstance(found, Mapping) else found if isinstance(found, list | tuple) else [found]
    if wrong := [one for one in parts if isinstance(one, int | float) and allowed(one)]:
        raise UsageProblem(f"The setting {name} must be {allowed(wrong[0])}, not {wrong[0]}.")
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
        hint = f"it is called {called}." if called else did_you_mean(unknown[0], names)
        raise UsageProblem(f"There is no setting {unknown[0]!r}; {hint}")
