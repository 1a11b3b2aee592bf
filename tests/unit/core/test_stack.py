"""How one stack is named in a process of another."""

import sys
from pathlib import Path

import pytest

from trt_workbench.core.stack import Stack


@pytest.fixture
def stacks(tmp_path: Path) -> dict[str, Stack]:
    (tmp_path / "trt" / "lib").mkdir(parents=True)
    (tmp_path / "trt" / "lib" / "libnvinfer.so.10").touch()
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    named = {"here": ".", "env": tmp_path / "env", "trt": tmp_path / "trt", "container": "docker run image"}
    return {name: Stack.open(str(text)) for name, text in named.items()}


def test_a_stack_is_never_mixed_with_the_one_that_asks(stacks: dict[str, Stack], tmp_path: Path) -> None:
    found = {(one, by): stacks[one].seen_from(stacks[by]) for one in stacks for by in stacks}
    python, libraries = str(tmp_path / "env" / "bin" / "python"), str(tmp_path / "trt")
    named = {
        ("here", "here"): sys.executable,  # never "."
        ("here", "env"): sys.executable,
        ("env", "here"): python,
        ("env", "env"): python,
        ("trt", "here"): libraries,
        ("trt", "trt"): libraries,
    }
    assert found == {pair: named.get(pair) for pair in found}
