"""pixi.toml as the task runner sees it: environments, each with its tasks, requirements and activation."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskrunner.errors import UsageProblem
from taskrunner.platforms import Platform, read_platforms
from taskrunner.tasktable import Task, read_tasks

Table = dict[str, Any]

# What pixi knows and this runner does not: refused, so that no task ever runs in half of its environment.
_UNREAD = ("target", "system-requirements", "host-dependencies", "build-dependencies", "dev")
_PYPI_OPTIONS = {"index-url", "extra-index-urls", "find-links"}


@dataclass(frozen=True)
class Environment:
    """One environment of the manifest, its features already joined."""

    name: str
    platforms: tuple[Platform, ...]
    tasks: dict[str, Task]
    conda: Table
    pypi: Table
    pypi_options: Table
    scripts: tuple[str, ...]
    variables: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    """The whole manifest."""

    root: Path
    project: str
    environments: dict[str, Environment]


def load(root: Path) -> Manifest:
    """Read `pixi.toml` in the folder `root`.

    Raises:
        UsageProblem: it is absent, is not TOML, or uses a key that the runner cannot honour.
    """
    path = root / "pixi.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        msg = f"The manifest cannot be read: {error}. {path}"
        raise UsageProblem(msg) from error
    workspace = table.get("workspace", {})
    platforms = read_platforms(workspace.get("platforms", []))
    described = {"default": [], **table.get("environments", {})}
    environments = {name: _join(name, spec, table, platforms) for name, spec in described.items()}
    return Manifest(root=root, project=str(workspace.get("name", root.name)), environments=environments)


def _join(name: str, spec: Any, manifest: Table, platforms: tuple[Platform, ...]) -> Environment:
    """Join an environment's tables: the default feature, then its features (the first listed wins), then its own."""
    own: Table = {"features": spec} if isinstance(spec, list) else dict(spec)
    layers = [] if own.get("no-default-feature") else [{k: v for k, v in manifest.items() if k != "workspace"}]
    for feature in reversed(own.get("features", [])):
        if feature not in manifest.get("feature", {}):
            msg = f"Environment {name!r} names the feature {feature!r}, which pixi.toml does not define"
            raise UsageProblem(msg)
        layers.append(manifest["feature"][feature])
    layers.append(own)
    tasks: dict[str, Task] = {}
    joined: dict[str, Table] = {"dependencies": {}, "pypi-dependencies": {}, "pypi-options": {}}
    variables: dict[str, str] = {}
    scripts: list[str] = []
    for layer in layers:
        _refuse_unread(name, layer)
        tasks |= read_tasks(layer.get("tasks", {}))
        for key, table in joined.items():
            table |= layer.get(key, {})
        activation = layer.get("activation", {})
        variables |= activation.get("env", {})
        scripts += [script for script in activation.get("scripts", []) if script not in scripts]
        bound = layer.get("platforms")
        platforms = platforms if bound is None else tuple(p for p in platforms if p.name in bound)
    if unknown := joined["pypi-options"].keys() - _PYPI_OPTIONS:
        msg = f"tasks/run cannot honour pypi-options {sorted(unknown)} of environment {name!r}; use pixi"
        raise UsageProblem(msg)
    return Environment(
        name=name,
        platforms=platforms,
        tasks=tasks,
        conda=joined["dependencies"],
        pypi=joined["pypi-dependencies"],
        pypi_options=joined["pypi-options"],
        scripts=tuple(scripts),
        variables=variables,
    )


def _refuse_unread(environment: str, layer: Table) -> None:
    if unread := [key for key in _UNREAD if layer.get(key)]:
        msg = f"tasks/run cannot honour {', '.join(unread)} in environment {environment!r}; use pixi"
        raise UsageProblem(msg)
