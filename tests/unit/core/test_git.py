import shutil
import subprocess
from pathlib import Path
from shlex import quote

import pytest

import trt_workbench
from trt_workbench.core import environment
from trt_workbench.core.environment import ask_git
from trt_workbench.core.workers import python_command


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A repository whose settings run a program at every look, and the file that the program leaves."""
    root, proof, script = tmp_path / "tree", tmp_path / "executed", tmp_path / "run"
    for folder in ("models", "python"):
        (root / folder).mkdir(parents=True)
    (root / "pixi.toml").write_text("")
    script.write_text(f"#!/bin/sh\ntouch {quote(str(proof))}\ncat\n")
    script.chmod(0o755)
    _git(root, "init", "-q")
    _git(root, "add", "pixi.toml")
    _git(root, "commit", "-q", "-m", "first")
    _git(root, "config", "core.fsmonitor", quote(str(script)))
    (root / "pixi.toml").write_text("changed\n")
    _git(root, "status")
    assert proof.exists(), "the trap does not work"
    proof.unlink()
    return root, proof


def test_settings_of_the_repository_execute_nothing(hostile: tuple[Path, Path]) -> None:
    root, proof = hostile
    assert "pixi.toml" in ask_git(root, "status", "--porcelain")
    assert not proof.exists()


def test_variables_do_not_lead_git_elsewhere(hostile: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = hostile
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "broken")
    assert len(ask_git(root, "rev-parse", "HEAD").strip()) == 40


def test_a_repository_above_is_not_asked(hostile: tuple[Path, Path]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        ask_git(hostile[0] / "models", "rev-parse", "HEAD")


def test_an_installed_package_asks_no_repository_that_it_is_used_in(
    hostile: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, proof = hostile
    for name in ("TRTW_ROOT", "PIXI_PROJECT_ROOT"):
        monkeypatch.setenv(name, str(root))
    installed = root / "venv" / "lib" / "site-packages"
    shutil.copytree(Path(trt_workbench.__file__).parent, installed / "trt_workbench")
    program = "from trt_workbench.core.environment import git_revision as g; print(g())"
    monkeypatch.setenv("PYTHONPATH", str(installed))
    done = subprocess.run(python_command("-c", program), cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'commit': None, 'dirty': None}"
    assert not proof.exists()


def test_the_commit_of_our_own_repository_is_known() -> None:
    if not (Path(environment.__file__).resolve().parents[4] / ".git").exists():
        pytest.skip("the tests run outside a checkout")
    found = environment.git_revision()
    assert len(found["commit"]) == 40
    assert found["dirty"] in (True, False)
