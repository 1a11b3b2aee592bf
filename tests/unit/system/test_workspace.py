"""Where the repository is looked for, and whose libraries are executed."""

from pathlib import Path

import pytest

from trt_workbench.errors import ComponentMissing
from trt_workbench.system import workspace
from trt_workbench.system.tensorrt import current_root


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: somebody's tree that looks like the repository; the package is installed elsewhere."""
    tree = tmp_path / "foreign"
    (tree / "models").mkdir(parents=True)
    (tree / "pixi.toml").touch()
    (tree / "extern" / "tensorrt" / "current" / "lib").mkdir(parents=True)
    monkeypatch.setattr(workspace, "__file__", str(tmp_path / "site-packages" / "trt_workbench" / "workspace.py"))
    for name in ("TRTW_ROOT", "PIXI_PROJECT_ROOT", "TENSORRT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tree)
    return tree


def test_libraries_of_the_current_folder_are_not_taken(foreign: Path) -> None:
    assert workspace.workspace_root() == foreign  # models and outputs are data
    assert current_root() is None
    with pytest.raises(ComponentMissing, match="TRTW_ROOT"):
        workspace.tensorrt_root()


@pytest.mark.parametrize("variable", ["TRTW_ROOT", "PIXI_PROJECT_ROOT"])
def test_a_repository_that_was_chosen_is_taken(foreign: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.chdir(foreign.parent)
    with pytest.raises(ComponentMissing):
        workspace.workspace_root()
    monkeypatch.setenv(variable, str(foreign))
    assert workspace.workspace_root() == foreign
    assert workspace.tensorrt_root() == foreign / "extern" / "tensorrt"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in whose root a task runs that was started from its folder of models."""
    root = tmp_path / "repository"
    (root / "models").mkdir(parents=True)
    (root / "pixi.toml").touch()
    monkeypatch.setattr(workspace, "__file__", str(root / "python" / "src" / "workspace.py"))
    monkeypatch.setenv("PIXI_PROJECT_ROOT", str(root))
    monkeypatch.setenv("INIT_CWD", str(root / "models"))
    monkeypatch.chdir(root)
    return root


def test_a_task_goes_to_the_folder_in_which_the_user_stands(repository: Path) -> None:
    workspace.enter_users_folder()
    assert Path.cwd() == repository / "models"
    workspace.enter_users_folder()  # as a process that this one starts would
    assert Path.cwd() == repository / "models"


@pytest.mark.parametrize("missing", ["PIXI_PROJECT_ROOT", "INIT_CWD"])
def test_outside_a_task_the_folder_stays(repository: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delenv(missing)
    workspace.enter_users_folder()
    assert Path.cwd() == repository


def test_a_folder_that_was_chosen_stays(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = repository.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)  # `cd` in a shell that pixi started
    workspace.enter_users_folder()
    assert Path.cwd() == elsewhere
    monkeypatch.setenv("PIXI_PROJECT_ROOT", str(elsewhere))  # another project's task, whose paths are its own
    workspace.enter_users_folder()
    assert Path.cwd() == elsewhere


def test_a_folder_that_is_gone_is_left_alone(repository: Path) -> None:
    (repository / "models").rmdir()
    (repository / "models").touch()
    workspace.enter_users_folder()
    assert Path.cwd() == repository
