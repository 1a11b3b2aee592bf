"""The steps of a run: every task that must come first, each once, then the task itself with its arguments."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from taskrunner.errors import UsageProblem
from taskrunner.machine import Machine
from taskrunner.manifest import Environment, Manifest
from taskrunner.resolve import resolve
from taskrunner.tasktable import Task

_TEMPLATE = re.compile(r"\{\{(.*?)\}\}|\{%.*?%\}")


@dataclass(frozen=True)
class Step:
    """One command line, ready for a shell, and the environment that it runs in."""

    task: Task
    environment: Environment
    command: str


def plan(
    manifest: Manifest, name: str, args: list[str], asked: str | None, machine: Machine, skip_deps: bool = False
) -> list[Step]:
    """Return the steps in the order in which they run.

    Raises:
        UsageProblem: unknown tasks or environments, tasks that wait for each other, arguments that do not fit.
        ComponentMissing: the machine cannot run one of the environments.
    """
    steps: list[Step] = []
    seen: set[tuple[str, str, tuple[str, ...]]] = set()

    def visit(task_name: str, arguments: tuple[str, ...], wanted: str | None, waiting: tuple[str, ...]) -> None:
        if task_name in waiting:
            msg = f"Tasks wait for each other: {' → '.join([*waiting, task_name])}"
            raise UsageProblem(msg)
        environment = resolve(manifest, task_name, wanted, machine)
        key = (task_name, environment.name, arguments)
        if key in seen:
            return
        seen.add(key)
        task = environment.tasks[task_name]
        for dependency in () if skip_deps else task.depends_on:
            inherited = environment.name if dependency.task in environment.tasks else None
            visit(dependency.task, dependency.args, dependency.environment or inherited, (*waiting, task_name))
        if task.command is not None:
            steps.append(Step(task, environment, command_line(task, arguments)))
        elif arguments:
            msg = f"The task {task_name!r} only runs other tasks and takes no arguments"
            raise UsageProblem(msg)

    visit(name, tuple(args), asked, ())
    return steps


def command_line(task: Task, args: tuple[str, ...]) -> str:
    """Return the task's command with its arguments: put into the template if they are typed, else quoted at the end.

    Raises:
        UsageProblem: typed arguments are too many, missing, or none of the choices; or the template is more than names.
    """
    command = task.command or ""
    if not task.arguments:
        return " ".join([command.strip(), *map(shlex.quote, args)])
    if len(args) > len(task.arguments):
        names = ", ".join(argument.name for argument in task.arguments)
        msg = (
            f"The task {task.name!r} takes at most {len(task.arguments)} arguments ({names}) and was given {len(args)}"
        )
        raise UsageProblem(msg)
    values: dict[str, str] = {}
    for position, argument in enumerate(task.arguments):
        value = args[position] if position < len(args) else argument.default
        if value is None:
            msg = f"The task {task.name!r} needs the argument {argument.name}"
            raise UsageProblem(msg)
        if argument.choices and value not in argument.choices:
            msg = f"The argument {argument.name} of {task.name!r} must be one of {', '.join(argument.choices)}"
            raise UsageProblem(msg)
        values[argument.name] = value
    return _TEMPLATE.sub(lambda match: _filled(match, values, task), command).strip()


def _filled(match: re.Match[str], values: dict[str, str], task: Task) -> str:
    name = (match[1] or "").strip()
    if name not in values:
        msg = f"tasks/run fills in names only, and the task {task.name!r} has {match[0]}; use pixi"
        raise UsageProblem(msg)
    return values[name]
