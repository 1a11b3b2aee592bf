"""The quick tier leaves out what is long, says so, and still has a test of every command."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from trt_workbench.app import app

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent

CONFTEST = """
pytest_plugins = ("tests.tiers",)

def pytest_sessionstart():
    from tests import tiers
    tiers.EVERY_S = 0.01
"""
MODULE = """
import time
import pytest

time.sleep(0.5)  # collecting takes many times what a line waits for

@pytest.mark.long
def test_long(): pass

@pytest.mark.long(but=1)
@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_each(name): pass

@pytest.mark.gpu
def test_gpu(): pass

def test_short(): pass
"""


def run(folder: Path, *words: str) -> list[str]:
    """Run the tests of a small folder by this plugin; return what the run says, by line."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(MODULE)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n    long: long\n    gpu: GPU\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-m", "not gpu", "-p", "no:benchmark", "-p", "no:cacheprovider", *words]
    environment["TRTW_TASKS_RUN"] = "1"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_what_is_left_out_is_said_in_the_last_line(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "0", "-v", "--quick")
    ran = re.findall(r"::(\S+) PASSED", "\n".join(said))
    assert ran == ["test_each[first]", "test_short"]
    assert said[-1] == "tests left out: 3 marked long (`tasks/run test-all`), 1 for a GPU (`tasks/run test-gpu`)"


def test_in_several_processes_it_is_said_once_and_lines_say_how_far_they_are(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "2", "--quick")
    assert said[-1] == "tests left out: 3 marked long (`tasks/run test-all`), 1 for a GPU (`tasks/run test-gpu`)"
    assert sum(line.startswith("tests left out") for line in said) == 1
    assert any(re.fullmatch(r"\[\d+ s\] collecting tests", line) for line in said), said


def test_what_is_long_runs_alone_and_in_all_of_them(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "0", "-v", "--long")
    assert re.findall(r"::(\S+) PASSED", "\n".join(said)) == ["test_long", "test_each[second]", "test_each[third]"]
    assert said[-1] == "tests left out: 1 for a GPU (`tasks/run test-gpu`)"
    tasks = tomllib.loads((ROOT / "pixi.toml").read_text())["feature"]["checking"]["tasks"]
    assert tasks["test"]["cmd"] == f"{tasks['test-all']['cmd']} --quick"
    # CI runs the contributor's command, and what it leaves out
    assert re.findall(r"newest. tasks/run (test(?:-all)?\b.*)\)", (ROOT / ".ci/run").read_text()) == [
        "test",
        'test-all --long "${with_long[@]}"',
    ]
    others = [
        path
        for path in ROOT.joinpath("tests").rglob("*.py")
        if re.search(r"(?<!pytest\.)mark\.long", path.read_text("utf-8"))
    ]
    assert others == []  # CI finds the files by the words `pytest.mark.long`


def commands_run(source: str) -> Iterator[str]:
    """Yield the commands that a module of tests runs, in its process or by their function, without its long tests."""
    tree = ast.parse(source)
    if "pytestmark = pytest.mark.long" in map(ast.unparse, tree.body):
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    long = [node for node in functions if "pytest.mark.long" in map(ast.unparse, node.decorator_list)]
    skipped = {id(part) for node in long for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in skipped:
            called = ast.unparse(node.func).split(".")[-1]
            match node.args:
                case [ast.Constant(value=str() as words), *_] if called in (
                    "trtw",
                    "json_of",
                    "stdout_of",
                    "stderr_of",
                ):
                    yield from words.split(maxsplit=1)[:1]
                case [ast.Name(id=name), *_] if called == "single_command_app":
                    yield name.replace("_", "-")
            yield called.replace("_", "-")


def test_every_command_has_a_test_that_is_not_long() -> None:
    quick = {
        word
        for file in (one for one in TESTS.rglob("test_*.py") if one.parts[len(TESTS.parts)] != "gpu")
        for word in commands_run(file.read_text(encoding="utf-8"))
    }
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert {"decide", "check-target"} <= commands
    assert commands - quick == set()


@pytest.mark.parametrize(("mark", "quick"), [("@pytest.mark.long", False), ("@pytest.mark.long(but=1)", True)])
def test_a_command_of_long_tests_alone_is_missed(mark: str, quick: bool) -> None:
    assert ("decide" in commands_run(f"{mark}\ndef test_it():\n    trtw('decide', 1)\n")) == quick
