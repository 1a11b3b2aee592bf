"""The options of a command, made from the settings that its request classes declare (`core/settings.py`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from trt_workbench.core.settings import Setting

R = TypeVar("R")
T = TypeVar("T")
_EMPTY = inspect.Parameter.empty
_BACKENDS, _MADE = ("backend", "backends"), "--to"
# By setting, not by option: `upgrade --to` is no format.
_COMPLETED = (*_BACKENDS, "precision", "precisions")


@dataclass(frozen=True)
class Given:
    """Marks a parameter, as `Annotated[dict[str, Any], Given(…)]`, that takes by field the settings that were given.

    Attributes:
        declared: class whose fields are settings.
        prefix: of the options' names.
    """

    declared: type
    prefix: str = ""


@dataclass(frozen=True)
class _Option:
    """An option, and the field or the parameter of the command that it is for."""

    field: str
    name: str
    hint: Any
    setting: Setting
    default: Any

    @property
    def flags(self) -> str:
        """The option as typer writes it, such as `--spin/--block` or `--input -i`."""
        name = self.name.replace("_", "-")
        return self.setting.flags or f"--{name}" + (f"/--no-{name}" if self.default is True else "")

    @property
    def flag(self) -> str:
        """The option as errors name it."""
        return self.flags.split()[0].split("/")[0]

    def parameter(self, *, no_default: bool) -> inspect.Parameter:
        """Return the parameter that typer makes the option of."""
        said, kind = self.setting, self.setting.kind or _typed(get_args(self.hint)[0])
        default = self.default
        if no_default or (default is not _EMPTY and (said.kind or get_origin(kind) is list)):
            default = said.default
        more: dict[str, Any] = {
            "metavar": said.metavar,
            "help": said.help,
            "rich_help_panel": said.panel,
            "min": said.min,
            "max": said.max,
            "autocompletion": self._names_for if self.field in _COMPLETED else None,
        }
        info = typer.Argument(**more) if said.argument else typer.Option(*self.flags.split(), **more)
        annotation: Any = Annotated[kind | None if default is None else kind, info]
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD if said.argument else inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, place, annotation=annotation, default=default)

    def _names_for(self, incomplete: str) -> list[str]:
        """Return what a shell completes the value to, the last of a list with commas."""
        from trt_workbench.backends.registry import backend_names
        from trt_workbench.core.precision import precisions

        made = precisions(lambda one: one.makes) if self.flag == _MADE else precisions()
        before, comma, last = incomplete.rpartition(",")
        known = backend_names() if self.field in _BACKENDS else self.setting.completes or made
        return [f"{before}{comma}{name}" for name in known if name.startswith(last)]

    def value(self, typed: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the field with its value, unless nothing was typed."""
        if (value := typed[self.name]) not in (None, []):
            value = tuple(value) if isinstance(value, list) else value
            yield self.field, self.setting.read(self.flag, value) if self.setting.read else value


def expanded(command: Callable[..., R]) -> Callable[..., R]:
    """Return `command` with options in place of its settings.

    A parameter whose annotation is a dataclass takes an instance, and stands for an option for every field that has a
    `Setting`; one that is marked as `Given` takes what was given of them. A parameter with a `Setting` of its own
    becomes that option. A setting that two of them have is one option.

    Raises:
        TypeError: two different ones have one name.
    """
    options: dict[str, list[_Option]] = {}
    made: dict[str, Callable[..., Any]] = {}
    parameters: dict[str, inspect.Parameter] = {}
    meant: dict[str, object] = {}
    for one in inspect.signature(command, eval_str=True).parameters.values():
        said = next((part for part in get_args(one.annotation)[1:] if isinstance(part, Setting | Given)), None)
        if isinstance(said, Given):
            options[one.name], made[one.name] = list(_options(said.declared, said.prefix)), dict
        elif is_dataclass(one.annotation) and isinstance(one.annotation, type):
            options[one.name], made[one.name] = list(_options(one.annotation)), one.annotation
        elif said:
            options[one.name] = [_Option(one.name, one.name, one.annotation, said, one.default)]
        sparse = isinstance(said, Given)
        several: list[tuple[object, inspect.Parameter]]
        several = [(each.setting, each.parameter(no_default=sparse)) for each in options.get(one.name, ())]
        for setting, parameter in several or [(one, one)]:
            if meant.setdefault(parameter.name, setting) != setting:
                raise TypeError(f"{parameter.name} means two things in {command.__name__}.")
            parameters.setdefault(parameter.name, parameter)

    @functools.wraps(command)
    def collected(**typed: Any) -> R:
        given = {name: value for name, value in typed.items() if name in own}
        for name, several in options.items():
            values = {field: value for option in several for field, value in option.value(typed)}
            given |= {name: made[name](**values)} if name in made else values
        return command(**given)

    own = {*inspect.signature(command).parameters} - options.keys()
    collected.__signature__ = inspect.Signature(sorted(parameters.values(), key=lambda one: one.kind))  # type: ignore[attr-defined]
    collected.__annotations__ = {}  # typer would evaluate them again
    return collected


def spelled(declared: type) -> dict[str, str]:
    """Return the option of every setting of a class, such as `--workspace` of `workspace_mib`."""
    return {option.field: option.flag for option in _options(declared)}


def marked(declared: type, marker: type[T]) -> dict[str, tuple[str, T]]:
    """Return the flags and the mark of every setting of a class that has one of type `marker`."""
    every = ((option, part) for option in _options(declared) for part in get_args(option.hint)[1:])
    return {option.field: (option.flags, part) for option, part in every if isinstance(part, marker)}


def _options(declared: type, prefix: str = "") -> Iterator[_Option]:
    known = fields(declared) if is_dataclass(declared) else ()
    required = {field.name for field in known if field.default is MISSING and field.default_factory is MISSING}
    for name, hint in get_type_hints(declared, include_extras=True).items():
        for setting in (part for part in get_args(hint)[1:] if isinstance(part, Setting)):
            default = _EMPTY if name in required else getattr(declared, name, None)
            yield _Option(name, prefix + name, hint, setting, default)


def _typed(kind: Any) -> Any:
    """Return the type that is typed for a field of type `kind`."""
    without = [part for part in get_args(kind) if part is not NoneType]
    if NoneType in get_args(kind) and len(without) == 1:
        return without[0]
    if get_origin(kind) is tuple:
        return list[without[0]]  # type: ignore[valid-type]
    return list[str] if get_origin(kind) in (dict, Mapping) else kind
