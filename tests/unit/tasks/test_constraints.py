"""The constraints that are committed: whole, in step with the requirements, and of no place in particular."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from taskrunner import constraints_file, is_covered, load

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = load(ROOT)
PROJECT = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ((3, 11), (3, 12), (3, 13))


def pinned(python: tuple[int, int]) -> dict[str, str]:
    path = constraints_file(ENVIRONMENTS["dev"], ROOT, python)
    assert path is not None
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.+!]+", line) for line in lines)  # no host, path or marker
    return dict(line.split("==") for line in lines)


def requirements() -> list[Requirement]:
    texts = [*PROJECT["dependencies"]]
    for environment in filter(is_covered, ENVIRONMENTS.values()):
        for name, spec in environment.pypi.items():
            if isinstance(spec, str) and name != "torch":
                texts.append(f"{name}{'' if spec == '*' else spec}")
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("python", PYTHONS, ids=str)
def test_every_requirement_is_pinned_to_what_it_allows(python: tuple[int, int]) -> None:
    versions = pinned(python)
    for requirement in requirements():
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: run the task `lock`"


def test_each_claimed_python_has_constraints() -> None:
    claimed = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: 3." in text}
    assert claimed == {f"{major}.{minor}" for major, minor in PYTHONS}


def test_environments_with_cuda_and_other_pythons_have_none() -> None:
    assert constraints_file(ENVIRONMENTS["h200"], ROOT, (3, 12)) is None
    assert constraints_file(ENVIRONMENTS["dev"], ROOT, (3, 10)) is None
    assert {name for name, environment in ENVIRONMENTS.items() if is_covered(environment)} == {
        "default",
        "dev",
        "dev-llm",
        "llm",
        "mutation",
        "stand-ins",
    }
