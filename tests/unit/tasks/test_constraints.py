"""The constraints that are committed: whole, in step with the requirements, and of no place in particular."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from taskrunner import Environment, constraints_file, is_covered, load, pip_calls

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = load(ROOT)
PROJECT = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
COVERED = [environment for environment in ENVIRONMENTS.values() if is_covered(environment)]


def pinned(environment: Environment, python: tuple[int, int]) -> dict[str, str]:
    path = constraints_file(environment, ROOT, python)
    assert path is not None
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.+!]+", line) for line in lines)  # no host, path or marker
    return dict(line.split("==") for line in lines)


def requirements(environment: Environment) -> list[Requirement]:
    *_, texts = pip_calls(environment, ROOT)
    asked = [text for text in texts if not text.startswith(("-", "/", "torch=="))]
    return [Requirement(text) for text in (*PROJECT["dependencies"], *asked)]


@pytest.mark.parametrize("environment", COVERED, ids=lambda one: one.name)
@pytest.mark.parametrize("python", PYTHONS, ids=str)
def test_every_requirement_is_pinned_to_what_it_allows(python: tuple[int, int], environment: Environment) -> None:
    versions = pinned(environment, python)
    for requirement in requirements(environment):
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: run the task `lock`"


def test_each_claimed_python_has_constraints() -> None:
    claimed = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: 3." in text}
    assert claimed == {f"{major}.{minor}" for major, minor in PYTHONS}


def test_environments_with_cuda_and_other_pythons_have_none() -> None:
    assert constraints_file(ENVIRONMENTS["h200"], ROOT, (3, 12)) is None
    assert constraints_file(ENVIRONMENTS["dev"], ROOT, (3, 10)) is None
    by_name = {environment.name for environment in COVERED}
    assert by_name == {
        "default", "dev", "dev-llm", "dev-readers", "llm", "mutation", "served", "rtx", "ray", "stand-ins"
    }  # fmt: skip


def test_what_older_versions_are_needed_for_holds_nothing_else_back() -> None:
    """tritonclient takes protobuf below 7."""
    served, readers, dev = (
        int(pinned(ENVIRONMENTS[name], (3, 13))["protobuf"].partition(".")[0])
        for name in ("served", "dev-readers", "dev")
    )
    assert served == readers < dev


def test_an_environment_that_cannot_be_resolved_is_named(tmp_path: Path) -> None:
    """uv's answers are those of a stand-in: no version of ray fits."""
    (tmp_path / "uv").write_text('#!/bin/sh\ngrep -q "^ray" "$(eval echo \\${$#})" && exit 1\necho a==1\n')
    (tmp_path / "uv").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    lock = [ROOT / "tasks" / "lock", "--check"]
    done = subprocess.run(lock, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    names, states = zip(*(line.split(": ") for line in done.stdout.splitlines()), strict=True)
    assert {name for one in names for name in one.partition(" on ")[0].split(", ")} == {*ENVIRONMENTS}
    refused = [name for name, state in zip(names, states, strict=True) if state == "cannot be resolved"]
    assert refused == ["ray on Python 3.11", "ray on Python 3.14"]
