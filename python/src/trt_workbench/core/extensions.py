"""What other packages add through entry points: commands, backends, detector families and scores (docs/extending.md).

They are imported only when needed, and a failed import is one message, not a crash.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from trt_workbench.core.device_errors import device_error
from trt_workbench.core.errors import BackendFailure, ComponentMissing, WorkbenchError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# By the name of a method: the type of what it returns, or a check of its object, what it returned and its arguments.
Protocol = Mapping[str, "type[Any] | Callable[..., None]"]
# Methods that return an object whose calls are guarded, too.
_PARTS = ("load", "_load", "stream_pool", "load_language")
_NOT_FOREIGN = ("trt_workbench", "builtins", "abc", "typing")


@dataclass(frozen=True)
class Guard:
    """Guards calls into a class of another package.

    Attributes:
        who: the subject of the sentence, such as `Backend mine`.
        package: name and version of the package.
        protocol: what its methods return.
        passed: errors that are answers.
    """

    who: str
    package: str
    protocol: Protocol = field(default_factory=dict)
    passed: tuple[type[BaseException], ...] = ()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of the package and return what it returned.

        Raises:
            WorkbenchError: as the function raised it; anything else that it raises becomes one, a SystemExit, too.
        """
        place = getattr(function, "__name__", "a call")
        try:
            found, expected = function(*args, **kwargs), self.protocol.get(place)
            if isinstance(expected, type):
                if not isinstance(found, expected):
                    raise TypeError(f"it returned {type(found).__name__}, not {expected.__name__}")
            elif expected:
                expected(getattr(function, "__self__", None), found)
            return self.guarded(found) if place in _PARTS else found
        except self.passed:
            raise
        except (WorkbenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, and panics of other languages, which are no Exceptions
            kind = ComponentMissing if isinstance(error, ImportError) else device_error(error) or BackendFailure
            said = ": ".join(filter(None, (type(error).__name__, str(error))))
            raise kind(f"{self.who} (package {self.package}) failed in {place}: {said}") from error

    def guarded(self, found: Any) -> Any:
        """Return an object whose methods of foreign make are called so: itself, where it can have attributes."""
        methods = {name: self._method(found, name) for name in dir(type(found)) if _is_foreign(type(found), name)}
        if not hasattr(found, "__dict__"):
            return SimpleNamespace(**methods)
        for name, method in methods.items():
            object.__setattr__(found, name, method)  # that of a frozen dataclass, too
        return found

    def _method(self, found: Any, name: str) -> Callable[..., Any]:
        method = getattr(found, name)

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(method, *args, **kwargs)

        return call


def _is_foreign(kind: type[Any], name: str) -> bool:
    """Return whether a name is of a method that others call, written by another package."""
    owner = next(one for one in kind.__mro__ if name in vars(one))
    ours = next((one for one in kind.__mro__ if one.__module__.partition(".")[0] == "trt_workbench"), object)
    is_called = not name.startswith("_") or (not name.startswith("__") and hasattr(ours, name))
    is_method = isinstance(vars(owner)[name], FunctionType | classmethod | staticmethod)
    return is_called and is_method and owner.__module__.partition(".")[0] not in _NOT_FOREIGN


Kind = TypeVar("Kind")
BACKENDS, FAMILIES = "trt_workbench.backends", "trt_workbench.families"
SCORES, COMMANDS = "trt_workbench.scores", "trt_workbench.commands"
# Modules of our plug-ins that commands of the core call.
PARTS = "trt_workbench.parts"


def extensions(group: str, taken: Container[str]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, or as `package:name` where the name is `taken` already."""
    found: dict[str, EntryPoint] = {}
    for entry in _entries(group, tuple(sys.path)):
        is_taken = entry.name in taken or entry.name in found
        found[f"{entry.dist.name if entry.dist else '?'}:{entry.name}" if is_taken else entry.name] = entry
    return found


def extension_packages() -> dict[str, str]:
    """Return the versions of the packages that add something."""
    groups = (BACKENDS, FAMILIES, SCORES, COMMANDS, PARTS)
    found = (entry.dist for group in groups for entry in _entries(group, tuple(sys.path)))
    return {package.name: package.version for package in found if package}


@functools.cache
def _entries(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - where they are found
    from importlib.metadata import entry_points  # and with it what reads mails and archives

    return tuple(entry_points(group=group))


def required(group: str, name: str, plug: str, taken: Container[str] = ()) -> EntryPoint:
    """Return the entry point of a name that one of our plug-ins adds.

    Raises:
        ComponentMissing: it is not installed; the message names the command that installs it.
    """
    if entry := extensions(group, taken).get(name):
        return entry
    from trt_workbench.core.launcher import plug_in

    raise ComponentMissing(f"Its plug-in {plug} is not installed. {plug_in(plug)}")


def part(name: str, plug: str, who: str, group: str = PARTS) -> Any:
    """Return what one of our plug-ins adds to a group, a module of it by default, for what `who` names.

    Raises:
        ComponentMissing: the plug-in is not installed, or cannot be imported.
    """
    try:
        return imported(required(group, name, plug))
    except ComponentMissing as problem:
        raise ComponentMissing(f"{who} is not available. {problem}") from problem


def load_extension(entry: EntryPoint, kind: type[Kind], name: str) -> type[Kind]:
    """Import the class behind an entry point; it gets the name `name`.

    Raises:
        ComponentMissing: it cannot be imported, or is no class of this kind; the message names the package.
    """
    found = imported(entry)
    if not (isinstance(found, type) and issubclass(found, kind)) or inspect.isabstract(found):
        raise broken(entry, f"{entry.value} is not a usable {kind.__name__}")
    if name != entry.name:
        raise broken(entry, f"the name {entry.name} is taken")
    if name != (said := getattr(found, "name", None)):
        raise broken(entry, f"{entry.value} names itself {said!r}, not {name!r}")
    return found


def imported(entry: EntryPoint) -> Any:
    """Return what an entry point names.

    Raises:
        ComponentMissing: it cannot be imported; the message names the package.
    """
    try:
        return entry.load()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a package that is out of step fails in any way
        raise broken(entry, error) from error


def package_of(entry: EntryPoint) -> str:
    """Return name and version of the package that an entry point is of."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "trt-workbench"


def broken(entry: EntryPoint, why: BaseException | str) -> ComponentMissing:
    """Return the error for an entry point that cannot be used."""
    package = package_of(entry)
    text = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    return ComponentMissing(f"Its package {package} cannot be used here ({text}); update or uninstall it.")
