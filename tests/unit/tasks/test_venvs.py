"""When an environment is made, and with which versions; pip itself is not called."""

import sys
from pathlib import Path

import pytest

from taskrunner import venvs
from taskrunner.manifest import load

MANIFEST = """
[workspace]
channels = []
platforms = [
  { name = "gpu", platform = "linux-64", cuda = { driver = "13.0", arch = "9.0" } },
  { name = "cpu", platform = "linux-64" },
]
[environments]
default = ["cpu"]
gpu = ["gpu"]
[feature.cpu]
platforms = ["cpu"]
[feature.gpu]
platforms = ["gpu"]
[pypi-dependencies]
numpy = ">=2"
"""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; the folder is made as `venv` makes it."""
    done: list[list[str]] = []

    def step(command: list[str], *_: object) -> None:
        done.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)

    monkeypatch.setattr(venvs, "_step", step)
    return done


def test_constraints_are_used_and_a_change_of_them_makes_the_environment_again(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    (tmp_path / "pixi.toml").write_text(MANIFEST)
    constraints = tmp_path / "tasks" / "constraints" / f"python3.{sys.version_info[1]}.txt"
    constraints.parent.mkdir(parents=True)
    constraints.write_text("numpy==2.5.5\n")
    environments = load(tmp_path).environments

    venvs.ensure(environments["default"], tmp_path)
    assert commands[-1][-3:] == ["--constraint", str(constraints), "numpy>=2"]
    assert len(commands) == 2
    venvs.ensure(environments["default"], tmp_path)
    assert len(commands) == 2
    constraints.write_text("numpy==2.6.0\n")
    venvs.ensure(environments["default"], tmp_path)
    assert len(commands) == 4

    venvs.ensure(environments["gpu"], tmp_path)
    assert "--constraint" not in commands[-1]
