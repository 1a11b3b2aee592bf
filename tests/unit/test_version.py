"""One version: of both packages, of the changelog's newest section, and of the commit's tag."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.in_app import stdout_of

import trt_workbench

ROOT = Path(__file__).parents[2]
VERSION = re.compile(r"\d+\.\d+\.\d+")


def changelog_versions(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def native_version() -> str:
    """The version that scikit-build-core reads."""
    settings = tomllib.loads((ROOT / "cpp" / "pyproject.toml").read_text())["tool"]["scikit-build"]
    provider = settings["metadata"]["version"]
    found = re.search(provider["regex"], (ROOT / "cpp" / provider["input"]).read_text())
    assert found
    return found["value"]


def release_tags(repository: Path) -> list[str]:
    """The tags of the commit that name a version; none without git."""
    try:
        found = subprocess.run(
            ["git", "tag", "--points-at", "HEAD", "--list", "v*"], cwd=repository, capture_output=True, text=True
        )
    except FileNotFoundError:
        return []
    return found.stdout.split()


def test_both_packages_have_one_version() -> None:
    assert VERSION.fullmatch(trt_workbench.__version__)
    assert native_version() == trt_workbench.__version__


@pytest.mark.parametrize("package", ["python", "cpp"])
def test_a_project_file_names_no_version_of_its_own(package: str) -> None:
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]


@pytest.mark.parametrize("path", sorted((ROOT / "python" / "plugins").glob("*/pyproject.toml")), ids=str)
def test_a_plug_in_has_the_version_of_the_core_and_needs_it(path: Path) -> None:
    project = tomllib.loads(path.read_text())["project"]
    assert project["version"] == trt_workbench.__version__
    assert f"trt-workbench=={trt_workbench.__version__}" in project["dependencies"]


def test_the_command_prints_it() -> None:
    assert stdout_of("--version").strip() == f"trt-workbench {trt_workbench.__version__}"


def test_the_changelog_has_one_section_a_version_and_begins_with_the_newest() -> None:
    found = changelog_versions((ROOT / "CHANGELOG.md").read_text())
    assert found[0] == trt_workbench.__version__
    assert all(map(VERSION.fullmatch, found))
    order = [tuple(map(int, one.split("."))) for one in found]
    assert order == sorted(set(order), reverse=True)


def test_a_tag_of_the_commit_is_the_version() -> None:
    assert set(release_tags(ROOT)) <= {f"v{trt_workbench.__version__}"}


def test_tags_are_found(tmp_path: Path) -> None:
    def run(*command: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *name, *command], cwd=tmp_path, check=True, capture_output=True)

    run("init", "-q")
    run("commit", "-q", "--allow-empty", "-m", "one")
    assert release_tags(tmp_path) == []
    run("tag", "v9.9.9")
    run("tag", "other")
    assert release_tags(tmp_path) == ["v9.9.9"]
