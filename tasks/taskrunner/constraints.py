"""Constraints: the exact versions that pip installs into the environments that need no GPU; `tasks/lock` makes them."""

from __future__ import annotations

from pathlib import Path

from taskrunner.manifest import Environment


def constraints_file(environment: Environment, root: Path, python: tuple[int, ...]) -> Path | None:
    """Return the file of constraints for an environment on a Python; None where none covers it."""
    path = root / "tasks" / "constraints" / f"python{python[0]}.{python[1]}.txt"
    return path if is_covered(environment) and path.is_file() else None


def is_covered(environment: Environment) -> bool:
    """Whether constraints are made for the environment: those with CUDA hold what no index resolves everywhere."""
    return not any(platform.cuda_driver for platform in environment.platforms)
