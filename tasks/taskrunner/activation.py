"""The variables that a task sees: this shell's, the environment's scripts and settings, then the task's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from taskrunner.errors import ComponentMissing
from taskrunner.manifest import Environment, Manifest

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Sources each script with its words kept off stdout, then hands the variables over, separated by NUL.
_SOURCE = 'for script in "$@"; do . "$script" >&2 || exit; done; env -0'


def activate(manifest: Manifest, environment: Environment, venv: Path) -> dict[str, str]:
    """Return the variables of the activated environment.

    Raises:
        ComponentMissing: an activation script failed.
    """
    root = str(manifest.root)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    variables |= {
        "INIT_CWD": str(Path.cwd()),
        "PATH": f"{venv / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}",
        "PIXI_ENVIRONMENT_NAME": environment.name,
        "PIXI_PROJECT_MANIFEST": str(manifest.root / "pixi.toml"),
        "PIXI_PROJECT_NAME": manifest.project,
        "PIXI_PROJECT_ROOT": root,
        "TRTW_TASKS_RUN": "1",  # tells it from pixi, whose words messages would use otherwise
        "VIRTUAL_ENV": str(venv),
    }
    if environment.scripts:
        variables = _sourced(environment.scripts, manifest.root, variables)
    return with_settings(variables, environment.variables)


def with_settings(variables: dict[str, str], settings: dict[str, str]) -> dict[str, str]:
    """Return the variables with the manifest's settings on top; `$NAME` in a setting is what NAME is by then."""
    result = dict(variables)
    for name, value in settings.items():
        result[name] = _VARIABLE.sub(lambda match: result.get(match[1] or match[2], ""), value)
    return result


def _sourced(scripts: tuple[str, ...], root: Path, variables: dict[str, str]) -> dict[str, str]:
    paths = [str(root / script) for script in scripts]
    command = ["bash", "-c", _SOURCE, "bash", *paths]
    done = subprocess.run(command, cwd=root, env=variables, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        msg = f"An activation script failed with exit code {done.returncode}: {', '.join(scripts)}"
        raise ComponentMissing(msg)
    pairs = (entry.split("=", 1) for entry in os.fsdecode(done.stdout).split("\0") if "=" in entry)
    shell_own = {"_", "SHLVL", "PWD", "OLDPWD"}
    return {name: value for name, value in pairs if name not in shell_own}
