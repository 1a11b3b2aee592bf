"""Which environment a task runs in: pixi's rules, so that the same words do the same with and without pixi."""

from __future__ import annotations

import difflib

from taskrunner.errors import ComponentMissing, UsageProblem
from taskrunner.machine import Machine
from taskrunner.manifest import Environment, Manifest
from taskrunner.tasktable import Task


def resolve(manifest: Manifest, task: str, asked: str | None, machine: Machine) -> Environment:
    """Return the environment that `task` runs in on `machine`.

    An environment that was asked for is the only one looked at. Else the default environment comes first, unless the
    task names another one that this machine can run; else the single environment that defines the task. Where no
    environment with the task is made for this machine, it is the one that the task names: without a GPU much of a
    command still works, such as `--help`.

    Raises:
        UsageProblem: no such task or environment, or several environments and nothing to choose by.
        ComponentMissing: the environment is for another operating system or processor.
    """
    if asked is not None:
        return _installable(_asked(manifest, task, asked), machine)
    hits = [environment for environment in manifest.environments.values() if task in environment.tasks]
    if not hits:
        raise UsageProblem(_unknown("task", task, task_names(manifest)))
    runnable = [environment for environment in hits if not lacking(environment, machine)]
    if not runnable:
        named = [environment for environment in hits if environment.tasks[task].default_environment == environment.name]
        return _installable((named or hits)[0], machine)
    for environment in runnable:
        if environment.tasks[task].default_environment == environment.name:
            return environment
    default = next((environment for environment in runnable if environment.name == "default"), None)
    if default and all(environment.tasks[task] == default.tasks[task] for environment in runnable):
        return default
    if len(runnable) > 1:
        choices = " or ".join(f"-e {environment.name}" for environment in runnable)
        msg = f"The task {task!r} exists in several environments; choose one with {choices}"
        raise UsageProblem(msg)
    return runnable[0]


def lacking(environment: Environment, machine: Machine) -> list[str]:
    """Return what the machine lacks to run the environment; nothing when one of its platforms fits."""
    shortfalls = [platform.lacking(machine) for platform in environment.platforms]
    return [] if not shortfalls or [] in shortfalls else min(shortfalls, key=len)


def all_tasks(manifest: Manifest) -> dict[str, Task]:
    """Return every task that a person may name (a leading underscore hides one), sorted."""
    found = {name: task for environment in manifest.environments.values() for name, task in environment.tasks.items()}
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def task_names(manifest: Manifest) -> list[str]:
    """Return the names of every task that a person may name, sorted."""
    return list(all_tasks(manifest))


def _asked(manifest: Manifest, task: str, name: str) -> Environment:
    if name not in manifest.environments:
        raise UsageProblem(_unknown("environment", name, sorted(manifest.environments)))
    environment = manifest.environments[name]
    if task in environment.tasks:
        return environment
    holders = [other.name for other in manifest.environments.values() if task in other.tasks]
    if holders:
        msg = f"The environment {name!r} has no task {task!r}; it is in: {', '.join(holders)}"
        raise UsageProblem(msg)
    raise UsageProblem(_unknown("task", task, task_names(manifest)))


def _installable(environment: Environment, machine: Machine) -> Environment:
    subdirs = {platform.subdir for platform in environment.platforms}
    if subdirs and machine.subdir not in subdirs:
        names = " and ".join(sorted(subdirs))
        msg = f"The environment {environment.name!r} is for {names}, and this is {machine.subdir}."
        raise ComponentMissing(msg)
    return environment


def _unknown(kind: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(known)}"
    return f"There is no {kind} {name!r}{hint}"
