"""What other packages add through entry points: backends and detector families (docs/extending.md).

Nothing of them is imported before it is asked for, and what cannot be imported is one sentence, not the end of ours.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Container
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from trt_workbench.core.errors import ComponentMissing

Kind = TypeVar("Kind")
BACKENDS, FAMILIES = "trt_workbench.backends", "trt_workbench.families"


def extensions(group: str, taken: Container[str]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, or as `package:name` where the name is `taken` already."""
    found: dict[str, EntryPoint] = {}
    for entry in _entries(group, tuple(sys.path)):
        is_taken = entry.name in taken or entry.name in found
        found[f"{entry.dist.name if entry.dist else '?'}:{entry.name}" if is_taken else entry.name] = entry
    return found


def extension_packages() -> dict[str, str]:
    """Return the versions of the packages that add something."""
    found = (entry.dist for group in (BACKENDS, FAMILIES) for entry in _entries(group, tuple(sys.path)))
    return {package.name: package.version for package in found if package}


@functools.cache
def _entries(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - where they are found
    return tuple(entry_points(group=group))


def load_extension(entry: EntryPoint, kind: type[Kind], name: str) -> type[Kind]:
    """Import the class behind an entry point, which is to be called `name`.

    Raises:
        ComponentMissing: it cannot be imported, or is no class of this kind; the message names the package.
    """
    try:
        found = entry.load()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a package that is out of step fails in any way; a module of ours is no package
        if entry.dist is None:
            raise
        raise broken(entry, error) from error
    if not (isinstance(found, type) and issubclass(found, kind)) or inspect.isabstract(found):
        raise broken(entry, f"{entry.value} is no {kind.__name__} that can be used")
    if name != entry.name:
        raise broken(entry, f"the name {entry.name} is taken")
    if name != (said := getattr(found, "name", None)):
        raise broken(entry, f"{entry.value} calls itself {said!r}, not {name!r}")
    return found


def package_of(entry: EntryPoint) -> str:
    """Return name and version of the package that an entry point is of."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "trt-workbench"


def broken(entry: EntryPoint, why: BaseException | str) -> ComponentMissing:
    """Return the error for an entry point that cannot be used."""
    package = package_of(entry)
    text = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    return ComponentMissing(f"Its package {package} cannot be used here ({text}); update or uninstall it.")
