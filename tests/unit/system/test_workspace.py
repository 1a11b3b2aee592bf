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
