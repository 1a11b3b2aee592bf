"""The C++ core is a stack of folders: an include may only point downwards, and the API needs no private header."""

import re
from pathlib import Path

import pytest

CPP = Path(__file__).resolve().parents[2] / "cpp"
# Each folder, and those whose headers its files may include beside their own.
BELOW = {
    "device": set(),
    "vision": {"device"},
    "trt": {"device"},
    "run": {"device", "vision", "trt"},
    "build": {"device", "trt"},
    "bindings": {"device", "vision", "trt", "run", "build"},
}


def included(path: Path) -> set[str]:
    """Return the folders of the project's headers that a file includes; "." for one beside it."""
    names = re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    return {str(Path(name).parent) for name in names}


def test_every_folder_has_its_place() -> None:
    assert {path.name for path in (CPP / "src").iterdir()} == set(BELOW)


@pytest.mark.parametrize("folder", sorted(BELOW))
def test_includes_point_downwards(folder: str) -> None:
    allowed = {"trtw", "trtw/detail", folder, "."} | BELOW[folder]
    wrong = {path.name: extra for path in (CPP / "src" / folder).iterdir() if (extra := included(path) - allowed)}
    assert wrong == {}


def test_the_api_includes_itself_alone() -> None:
    headers = sorted((CPP / "include").rglob("*.hpp"))
    assert headers
    assert {path.name: extra for path in headers if (extra := included(path) - {"trtw", "trtw/detail"})} == {}
