"""How one stack is named in a process of another, and what a container is told."""

import sys
from pathlib import Path

import pytest
from tests.docker import docker

from trt_workbench.core.stack import Stack
from trt_workbench.core.workers import WorkerProcess, ask_command


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


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Variables of ours: two decide numbers on any machine, two are of this one. Return the folder of caches."""
    for name in ("NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "caches"))
    (tmp_path / "caches").mkdir()
    return tmp_path / "caches"


ASK = "import json; from tests.stack_facts import known; print(json.dumps(known(None)))"
SAME = {"NVIDIA_TF32_OVERRIDE": "1", "OMP_NUM_THREADS": "1"}


def container(folder: Path, *options: object) -> Stack:
    return Stack.open(docker(folder, *options, "-e", f"PYTHONPATH={Path(__file__).parents[3]}"))


def test_a_container_is_told_what_decides_numbers(settings: Path, tmp_path: Path) -> None:
    """The runtimes in it are the user's choice, however old; caches are shared where it sees them."""
    seen = container(tmp_path, "-v", f"{settings}:{settings}")
    found = ask_command(seen.python("-c", ASK), 60, seen.variables)
    assert found == {"refusal": "", "cache": str(settings), "set": SAME}
    unseen = container(tmp_path)
    found = ask_command(unseen.python("-c", ASK), 60, unseen.variables)
    assert (found["refusal"], found["set"]) == ("", SAME)
    assert found["cache"] != str(settings)


@pytest.mark.usefixtures("settings")
def test_a_worker_in_a_container_is_told_it_too(tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log", "tests.stack_facts", stack=container(tmp_path)) as worker:
        answer = worker.ask({"verb": "known"}, 60)
    assert (answer["refusal"], answer["set"]) == ("", SAME)
