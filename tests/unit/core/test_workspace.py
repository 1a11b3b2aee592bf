"""Where things lie: whose repository counts, and what takes its place where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core import workspace
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.launcher import task
from trt_workbench.core.workspace import EMBEDDED_MODELS, embedded_contract, embedded_model, embedded_text
from trt_workbench.engine.tensorrt import current_root

ROOT = Path(__file__).parents[3]


def make_repository(root: Path) -> Path:
    (root / "python" / "src" / "trt_workbench").mkdir(parents=True)
    (root / "python" / "src" / "trt_workbench" / "__init__.py").touch()
    (root / "models").mkdir()
    (root / "pixi.toml").touch()
    return root


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user whose current folder is somebody's copy of the repository; the package is installed."""
    tree, home = make_repository(tmp_path / "foreign"), tmp_path / "home"
    (tree / "extern" / "tensorrt" / "current" / "lib").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setattr(workspace, "__file__", str(tmp_path / "site-packages" / "trt_workbench" / "workspace.py"))
    for name in ("TRTW_ROOT", "TRTW_TMP", "PIXI_PROJECT_ROOT", "TENSORRT_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tree)
    return home


def test_nothing_is_loaded_from_the_current_folder(installed: Path) -> None:
    assert workspace.repository() is None
    assert workspace.output_root() == Path.cwd() / "tmp"
    assert workspace.cache_root() == installed / ".cache" / "trt-workbench"
    assert workspace.cache_root().stat().st_mode & 0o777 == 0o700
    assert workspace.tensorrt_root() == installed / ".cache" / "trt-workbench" / "extern" / "tensorrt"
    assert current_root() is None
    assert "`pip install ./cpp` in a clone of the repository, with TENSORRT_HOME=" in task("build-native")


@pytest.mark.parametrize("variable", ["TRTW_ROOT", "PIXI_PROJECT_ROOT"])
def test_a_repository_that_was_chosen_is_taken(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    tree = tmp_path / "foreign"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, str(tree))
    assert workspace.repository() == tree
    assert workspace.output_root() == workspace.cache_root() == tree / "tmp"
    assert workspace.tensorrt_root() == tree / "extern" / "tensorrt"
    assert not any(installed.iterdir())
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    assert workspace.output_root() == workspace.cache_root() == tmp_path / "out"


@pytest.mark.usefixtures("installed")
def test_another_project_of_pixi_is_no_repository_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "models").mkdir(parents=True)
    (tmp_path / "project" / "pixi.toml").touch()
    monkeypatch.setenv("PIXI_PROJECT_ROOT", str(tmp_path / "project"))
    assert workspace.repository() is None


@pytest.mark.parametrize("home", ["", "relative", None])
@pytest.mark.parametrize("chosen", ["", "relative/cache", "absolute"])
def test_folders_for_caches_are_absolute(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, home: str | None
) -> None:
    """The specification ignores a relative $XDG_CACHE_HOME; without $HOME the user's entry counts."""
    entry = type("Entry", (), {"pw_dir": str(tmp_path / "entry")})
    monkeypatch.setattr("pwd.getpwuid", lambda _: entry)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg") if chosen == "absolute" else chosen)
    parent = tmp_path / "xdg" if chosen == "absolute" else installed / ".cache"
    assert workspace.cache_root() == parent / "trt-workbench"
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    parent = tmp_path / "xdg" if chosen == "absolute" else tmp_path / "entry" / ".cache"
    assert workspace.cache_root() == parent / "trt-workbench"
    assert not (Path.cwd() / "relative").exists()


def test_a_cache_that_cannot_be_had_is_a_sentence(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")
    with refused(UsageProblem):
        workspace.cache_root()
    monkeypatch.setenv("XDG_CACHE_HOME", str(installed))
    assert workspace.cache_root() == installed / "trt-workbench"
    if os.getuid() == 0:
        os.chown(installed / "trt-workbench", 54321, -1)
    monkeypatch.setattr("os.getuid", lambda: 12345)  # of nobody
    with refused(UsageProblem):
        workspace.cache_root()
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    with refused(UsageProblem):
        workspace.cache_root()
    assert current_root() is None


@pytest.mark.usefixtures("installed")
def test_a_current_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    program = (
        "import os; from trt_workbench.core import workspace; workspace.__file__ = '/nowhere/workspace.py'\n"
        "os.getuid() or os.setuid(65534); print(workspace.output_root())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRTW_TMP"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    tmp_path.chmod(0o755)
    assert f"The current folder is not writable; choose another with --output: {tmp_path}" in done.stderr


def test_the_embedded_models_are_those_of_the_repository() -> None:
    paths = [*map(embedded_model, EMBEDDED_MODELS), embedded_text(), embedded_contract()]
    assert all(path.is_relative_to(ROOT / "models") for path in paths)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in whose root a task runs that was started from its folder of models."""
    root = make_repository(tmp_path / "repository")
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


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_no_account_is_looked_up_where_a_variable_names_the_place(
    installed: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(installed))
    monkeypatch.setattr("pwd.getpwuid", lambda _: pytest.fail("an account was looked up"))
    assert installed in workspace.cache_root().parents


@pytest.mark.parametrize(("mode", "taken"), [(0o755, True), (0o775, False), (0o757, False), (0o1777, False)])
def test_a_cache_that_others_can_write_is_not_taken(
    installed: Path, monkeypatch: pytest.MonkeyPatch, mode: int, taken: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(installed))
    folder = installed / "trt-workbench"
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    if taken:
        assert workspace.cache_root() == folder
    else:
        with refused(UsageProblem):
            workspace.cache_root()
