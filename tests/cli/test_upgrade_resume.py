"""`trtw upgrade` again: whatever ended a run, the next one does what is left, and says what was done when.

Each command of the stacks runs once, in this process; afterwards what it left is copied to where it is asked for.
"""

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.in_app import stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.core import work
from trt_workbench.core.builds import BuildGroups, Builds, BuiltGroup, OneBuild, builds_of
from trt_workbench.core.documents import write_json
from trt_workbench.core.stack import Stack
from trt_workbench.core.workers import Ended
from trt_workbench.upgrade import side

pytestmark = pytest.mark.usefixtures("blank_pictures")
WORDS = ("first.onnx", "second.onnx", "--to", ".", "--backend", "ort-cpu", "--quick", "--repetitions", 1)
STEPS = 8
"""Of two models in two stacks: each verified and timed."""
SEVERAL = BuildGroups(
    groups=tuple(
        BuiltGroup(label=f"{name}, after", builds=Builds.chosen([OneBuild(number=1), OneBuild(number=2)]))
        for name in ("first", "second")
    )
)
Command = Callable[[int, Sequence[str]], Ended]


def asked_for(line: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command of ours in the command line that runs it."""
    program = next(place for place, word in enumerate(line) if word.endswith(side._PROGRAM))
    return tuple(line[program + 1 :])


def output_of(words: Sequence[str]) -> Path:
    return Path(words[words.index("--output") + 1])


class Commands:
    """What stands in for the processes of the stacks: each has a number, and can end in another way."""

    def __init__(self, patch: pytest.MonkeyPatch, does: Command) -> None:
        self.outputs: list[tuple[str, ...]] = []
        self.versions = {"onnxruntime": "1.31.1"}
        self._does = does
        patch.setattr(side, "run_to_end", self._run)
        patch.setattr(Stack, "ask", lambda *_: {"versions": self.versions, "gpus": [], "python": [3, 11, 7]})

    def _run(self, line: Sequence[str], *_: object) -> Ended:
        words = asked_for(line)
        self.outputs.append(output_of(words).parts[-3:])
        return self._does(len(self.outputs), words)


def copied(folder: Path) -> Command:
    def copy(_: int, words: Sequence[str]) -> Ended:
        shutil.copytree(folder / words[0], output_of(words))
        return Ended(0, "", "")

    return copy


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two models, and of a run that nothing ended."""
    folder = tmp_path_factory.mktemp("whole")
    weights = {"w": np.random.default_rng(0).standard_normal((16, 16), np.float32) / 4}
    for name in ("first", "second"):
        nodes = "(float[N,16] x) => (float[N,16] y) { y = MatMul(x, w) }"
        write_onnx(folder / f"{name}.onnx", f"{name} {nodes}", weights)

    def once(number: int, words: Sequence[str]) -> Ended:
        kept = folder / words[0]
        if not kept.exists():
            trtw(*words)
            shutil.copytree(output_of(words), kept)
            shutil.rmtree(output_of(words))
        return copied(folder)(number, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Commands(patch, once)
        trtw("upgrade", *WORDS, "--output", "run")
    return folder


@pytest.fixture
def commands(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        shutil.copy(whole / f"{name}.onnx", tmp_path)

    return Commands(monkeypatch, copied(whole))


def ending(commands: Commands, step: int, ends: Command) -> None:
    """Let a step end so, once."""
    does = commands._does

    def once(number: int, words: Sequence[str]) -> Ended:
        if number != step:
            return does(number, words)
        return ends(number, words)

    commands._does = once


def interrupted(*_: object) -> Ended:
    raise KeyboardInterrupt


def full(*_: object) -> Ended:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "turn-0.yaml")


def heard(*_: object) -> Ended:
    return Ended(130, "", "error: Interrupted; nothing was kept.")


def full_there(*_: object) -> Ended:
    return Ended(2, "", f"error: {os.strerror(errno.ENOSPC)}; make room, or choose another place: x.npz")


def without_parts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "upgrade.json").read_text())
    for one in found["models"]:
        del one["run_id"], one["model"]
    return found


def run_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


@pytest.mark.parametrize(
    ("step", "ends", "code"),
    [
        *((step, interrupted, 130) for step in range(STEPS // 2 + 1, STEPS)),
        *((STEPS, ends, code) for ends, code in ((heard, 130), (full, 2), (full_there, 2))),
    ],
)
def test_what_is_finished_is_not_done_again(
    step: int, ends: Command, code: int, commands: Commands, whole: Path, tmp_path: Path
) -> None:
    ending(commands, step, ends)
    result = trtw("upgrade", *WORDS, "--output", "run")
    assert result.exit_code == code
    run = tmp_path / "run"
    assert run_of(run)["status"] == "partial"
    partial = without_parts(run)
    assert ([one["name"] for one in partial["models"]], partial["left"]) == (["first"], ["second"])
    assert not (run / "before" / "second").exists()  # half-done
    stdout_of("report", run)
    assert "So far safe: 1 model" in (run / "report.html").read_text()
    assert "Interrupted before 1 model: second." in (run / "report.html").read_text()
    assert str(run) in result.stderr  # where it is kept
    write_json(run / "builds.json", SEVERAL)
    first, done = run_of(run)["run_id"], len(commands.outputs)
    said = stdout_of("upgrade", *WORDS, "--output", "run")
    assert {place[1] for place in commands.outputs[done:]} == {"second"}
    assert without_parts(run) == without_parts(whole / "run")
    assert builds_of(run) == SEVERAL.groups[:1]  # of the second there were none
    assert run_of(run)["status"] == "complete"
    models = json.loads((run / "upgrade.json").read_text())["models"]
    assert [one["run_id"] for one in models] == [first, run_of(run)["run_id"]]
    (earlier,) = json.loads((run / "env.json").read_text())["earlier"]
    assert (earlier["run_id"], earlier["environment"]["earlier"]) == (first, [])
    assert f"Part 1 of 2, from {earlier['started_at']} to {earlier['ended_at']}: first." in said


@pytest.mark.parametrize("step", range(1, STEPS // 2 + 1))
def test_before_the_first_model_is_finished_nothing_is_kept(step: int, commands: Commands, tmp_path: Path) -> None:
    ending(commands, step, interrupted)
    assert "Interrupted" in stderr_of("upgrade", *WORDS, "--output", "run", code=130)
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_killed_goes_on_where_it_was_to_be(commands: Commands, whole: Path, tmp_path: Path) -> None:
    def killed(*_: object) -> Ended:
        (staging,) = tmp_path.glob(".run.*.staging")
        shutil.copytree(staging, tmp_path / "left" / staging.name)
        raise KeyboardInterrupt

    ending(commands, STEPS, killed)
    trtw("upgrade", *WORDS, "--output", "run")
    done = len(commands.outputs)
    said = stdout_of("upgrade", *WORDS, "--output", "left/run")
    assert {place[1] for place in commands.outputs[done:]} == {"second"}
    assert without_parts(tmp_path / "left" / "run") == without_parts(whole / "run")
    assert [one.name for one in (tmp_path / "left").iterdir()] == ["run"]
    assert "until it was killed: first." in said


@pytest.mark.parametrize("code", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_of_what_was_killed_nothing_is_known_and_it_is_done_again(code: int, commands: Commands, whole: Path) -> None:
    ending(commands, 2, lambda *_: Ended(code, "", "Killed"))
    result = trtw("upgrade", *WORDS, "--output", "run")
    assert result.exit_code == 3
    assert (
        "The first that was not run, first: the process was killed by SIGKILL, probably because memory ran out."
        in result.stderr
    )
    done = len(commands.outputs)
    stdout_of("upgrade", *WORDS, "--output", "run")
    assert {place[1] for place in commands.outputs[done:]} == {"first"}
    assert without_parts(Path("run")) == without_parts(whole / "run")


def test_a_resumed_run_that_is_interrupted_keeps_all_that_was_finished(commands: Commands, whole: Path) -> None:
    ending(commands, 1, lambda *_: Ended(-signal.SIGKILL, "", ""))  # of the first model
    trtw("upgrade", *WORDS, "--output", "run")
    ending(commands, len(commands.outputs) + 1, interrupted)
    trtw("upgrade", *WORDS, "--output", "run")
    assert [one["name"] for one in without_parts(Path("run"))["models"]] == ["second"]
    stdout_of("upgrade", *WORDS, "--output", "run")
    assert without_parts(Path("run")) == without_parts(whole / "run")
    assert len(json.loads(Path("run", "env.json").read_text())["earlier"]) == 2


@pytest.mark.parametrize(
    "change", ["model", "--from-option", "--full", "--seed", "versions", "models", "inputs", "processor"]
)
def test_of_a_run_of_something_else_nothing_is_taken(
    change: str, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("x.npy", np.ones((4, 16), np.float32))
    words = (*WORDS, "--inputs", "x=x.npy")
    ending(commands, STEPS, interrupted)
    trtw("upgrade", *words, "--output", "run")
    done = len(commands.outputs)
    more = {
        "--from-option": ("--from-option", "graph_optimization=none"),
        "--full": ("--full",),
        "--seed": ("--seed", 1),
    }
    if change == "model":
        write_onnx(tmp_path / "first.onnx", "first (float[N,16] x) => (float[N,16] y) { y = Relu(x) }")
    elif change == "versions":
        commands.versions = {"onnxruntime": "1.30.0"}
    elif change == "inputs":
        np.save("x.npy", np.zeros((4, 16), np.float32))
    elif change == "models":
        words = words[1:]
    elif change == "processor":
        monkeypatch.setattr(work, "cpu_report", lambda: {"model": "another"})
    said = trtw("upgrade", *words, *more.get(change, ()), "--output", "run").stderr
    held(re.sub(r"was '[^']*' there and is '[^']*' here", "was 'OLD' there and is 'NEW' here", said.splitlines()[0]))
    assert commands.outputs[done:][0] == commands.outputs[0] or change == "models"
    assert len(commands.outputs) == done + (STEPS // 2 if change == "models" else STEPS)
