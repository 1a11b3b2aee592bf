"""What an environment needs, as arguments for pip, and what only conda could bring."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskrunner.errors import UsageProblem
from taskrunner.manifest import Environment, Table
from taskrunner.versions import fits

# A virtual environment has these by itself.
_FROM_VENV = {"python", "pip"}
_READ = {"version", "extras", "index", "path", "editable", "subdirectory", "git", "rev", "tag", "branch", "url"}


@dataclass(frozen=True)
class PipCall:
    """One call of `pip install`: its arguments without the command itself."""

    arguments: tuple[str, ...]


def pip_calls(environment: Environment, root: Path) -> list[PipCall]:
    """Return the calls of pip that make the environment, in order.

    A requirement with an index of its own is fetched from there and nowhere else, without its dependencies; the last
    call then finds it installed and brings the dependencies from the usual index.

    Raises:
        UsageProblem: a requirement has a form that the runner cannot honour.
    """
    options = _index_options(environment.pypi_options, root)
    calls: list[PipCall] = []
    everything: list[str] = []
    for name, spec in environment.pypi.items():
        table = {"version": spec} if isinstance(spec, str) else spec
        requirement = _requirement(name, table, root)
        if index := table.get("index"):
            calls.append(PipCall(("--index-url", index, "--no-deps", *requirement)))
        everything += requirement
    if everything:
        calls.append(PipCall((*options, *everything)))
    return calls


def conda_only(environment: Environment) -> list[str]:
    """Return the names of the packages that pip cannot bring, sorted."""
    return sorted(environment.conda.keys() - _FROM_VENV)


def check_python(environment: Environment, version: tuple[int, ...]) -> None:
    """Hold this Python against the manifest's.

    Raises:
        UsageProblem: it is older or newer than the environment allows.
    """
    spec = environment.conda.get("python", "*")
    spec = spec if isinstance(spec, str) else spec.get("version", "*")
    if not fits(version, spec):
        mine = ".".join(map(str, version[:3]))
        msg = f"The environment {environment.name!r} needs Python {spec}, and this is {mine}; use python3.X tasks/run …"
        raise UsageProblem(msg)


def local_projects(environment: Environment, root: Path) -> dict[str, Any]:
    """Return what decides how the environment's local packages install: the head of each pyproject.toml."""
    heads: dict[str, Any] = {}
    for name, spec in environment.pypi.items():
        if isinstance(spec, dict) and "path" in spec:
            path = root / spec["path"] / "pyproject.toml"
            table = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            heads[name] = {key: table.get(key) for key in ("build-system", "project")}
    return heads


def _requirement(name: str, table: Table, root: Path) -> list[str]:
    if unread := table.keys() - _READ:
        msg = f"tasks/run cannot honour {', '.join(sorted(unread))} of the requirement {name!r}; use pixi"
        raise UsageProblem(msg)
    extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
    if "path" in table:
        return [*(["--editable"] if table.get("editable") else []), f"{(root / table['path']).resolve()}{extras}"]
    if "url" in table:
        return [f"{name}{extras} @ {table['url']}"]
    if "git" in table:
        revision = next((f"@{table[key]}" for key in ("rev", "tag", "branch") if key in table), "")
        folder = f"#subdirectory={table['subdirectory']}" if "subdirectory" in table else ""
        return [f"{name}{extras} @ git+{table['git']}{revision}{folder}"]
    version = table.get("version", "*").strip()
    bare = re.match(r"\d", version)  # pixi reads a bare number as a floor within the series, pip not at all
    if bare:
        msg = f"The requirement {name!r} must say how its version {version!r} is meant: ==, >= or ~="
        raise UsageProblem(msg)
    return [f"{name}{extras}{'' if version == '*' else version}"]


def _index_options(options: Table, root: Path) -> list[str]:
    arguments = ["--index-url", options["index-url"]] if "index-url" in options else []
    for url in options.get("extra-index-urls", []):
        arguments += ["--extra-index-url", url]
    for link in options.get("find-links", []):
        arguments += ["--find-links", link["url"] if "url" in link else str((root / link["path"]).resolve())]
    return arguments
