"""The task tables of pixi.toml: a command, what must run before it, and how it is to be run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taskrunner.errors import UsageProblem

_READ = {"cmd", "args", "depends-on", "env", "cwd", "default-environment", "description"}
# Only let a task be skipped: running it every time is right, if slower.
_HARMLESS = {"inputs", "outputs"}


@dataclass(frozen=True)
class Argument:
    """A typed argument: bound by position, put where `{{ name }}` stands in the command."""

    name: str
    default: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dependency:
    """A task to run before another, perhaps in an environment and with arguments of its own."""

    task: str
    environment: str | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One task; two are the same task when they are equal."""

    name: str
    command: str | None = None
    arguments: tuple[Argument, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    default_environment: str | None = None
    description: str = ""


def read_tasks(tables: dict[str, Any]) -> dict[str, Task]:
    """Read a `[tasks]` table.

    Raises:
        UsageProblem: a task has a key that the runner cannot honour.
    """
    return {name: _read_task(name, table) for name, table in tables.items()}


def _read_task(name: str, table: Any) -> Task:
    if isinstance(table, str):
        table = {"cmd": table}
    elif isinstance(table, list):
        table = {"depends-on": table}
    if unread := table.keys() - _READ - _HARMLESS:
        msg = f"tasks/run cannot honour {', '.join(sorted(unread))} of task {name!r}; use pixi"
        raise UsageProblem(msg)
    command = table.get("cmd")
    depends_on = table.get("depends-on", [])
    if not isinstance(depends_on, list):
        depends_on = [depends_on]
    return Task(
        name=name,
        command=" ".join(map(_quoted_word, command)) if isinstance(command, list) else command,
        arguments=tuple(_read_argument(argument) for argument in table.get("args", [])),
        depends_on=tuple(_read_dependency(dependency) for dependency in depends_on),
        env={key: str(value) for key, value in table.get("env", {}).items()},
        cwd=table.get("cwd"),
        default_environment=table.get("default-environment"),
        description=table.get("description", ""),
    )


def _quoted_word(word: str) -> str:
    """Quote a word of a list-form command as pixi does: variables still expand inside double quotes."""
    if word and not any(letter.isspace() for letter in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_argument(argument: Any) -> Argument:
    if isinstance(argument, str):
        return Argument(argument)
    return Argument(argument["arg"], argument.get("default"), tuple(argument.get("choices", ())))


def _read_dependency(dependency: Any) -> Dependency:
    if isinstance(dependency, str):
        return Dependency(dependency)
    return Dependency(dependency["task"], dependency.get("environment"), tuple(dependency.get("args", ())))
