"""The script that measures all that needs a GPU: what is done, what is cut off, what is left."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.scripts import load_script
from tests.waiting import wait_until

from trt_workbench.bench.config import load_config
from trt_workbench.bench.matrix import expand

FILE = Path(__file__).parents[3] / "tasks" / "benchmarks" / "everything.py"


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load_script(FILE, monkeypatch)


def steps_of(everything: Any) -> Any:
    """Return the module of the steps."""
    return sys.modules[everything.Step.__module__]


@contextlib.contextmanager
def cut_off_after(note: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a step's limit be over as soon as it has written a file."""
    with monkeypatch.context() as patch:

        def wait(_: Any, timeout: float) -> int:
            wait_until(lambda: note.exists() and note.read_text())
            patch.undo()
            raise subprocess.TimeoutExpired("step", timeout)

        patch.setattr(subprocess.Popen, "wait", wait)
        yield


def test_a_step_that_is_cut_off_leaves_nothing_running(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pid"
    waiting = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(100)"
    starting = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waiting!r}, sys.argv[1]])"
    runner = everything.Runner(tmp_path, 100.0, ["0"])
    with cut_off_after(note, monkeypatch):
        runner.run(everything.Step("cut", ["-c", starting, note]), "0")
    assert runner.left == ["cut"]
    assert not psutil.pid_exists(int(note.read_text()))


def test_what_ended_well_is_not_done_again(everything: Any, tmp_path: Path) -> None:
    counting = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit(int(sys.argv[2]))"
    for _ in range(2):
        runner = everything.Runner(tmp_path, 100.0, ["0"])
        for code in (0, 1):
            runner.run(everything.Step(f"ends-{code}", ["-c", counting, tmp_path / str(code), code]), "0")
        assert runner.left == ["ends-1"]
    assert ((tmp_path / "0").read_text(), (tmp_path / "1").read_text()) == ("x", "xx")


def test_what_was_interrupted_is_not_done(everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, remaining = load_script(everything.LLM, monkeypatch), steps_of(everything).remaining
    run = tmp_path / "run.json"
    whole, bench = everything.Step("llm", ["measure.py"], run), everything.Step("bench", ["bench"], tmp_path)
    assert remaining(whole) == ["measure.py"]
    assert not measure.is_done(run)
    run.write_text('{"status": "partial"}')
    assert remaining(whole) == ["measure.py"]
    assert remaining(bench) == ["bench"]
    assert not measure.is_done(run)
    run.write_text('{"status": "complete"}')
    assert remaining(whole) == remaining(bench) == ()
    assert measure.is_done(run)


def test_a_verdict_is_a_result(everything: Any, tmp_path: Path) -> None:
    runner = everything.Runner(tmp_path, 100.0, ["0"])
    for code in (0, 1, 2):
        runner.run(everything.Step(f"ends-{code}", ["-c", f"raise SystemExit({code})"], fine=(0, 1)), "0")
    assert runner.left == ["ends-2"]


def test_builds_end_early_enough_for_what_is_measured(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_of(everything), "_LAST_S", 1.0)
    build = everything.Step("build", ["-c", "import time; time.sleep(1000)"])
    timed = everything.Step("timed", ["-c", "import sys; open(sys.argv[1], 'w').close()", tmp_path / "timed.txt"])
    runner = everything.Runner(tmp_path, 200.0, ["0"])
    everything.work_through(everything.Lane([build, build], [build], [timed]), "0", runner, 2, {}, builds_s=3.0)
    assert runner.left == ["build"] * 3
    assert (tmp_path / "timed.txt").exists()


def test_every_gpu_test_is_run_once(everything: Any) -> None:
    root = everything.HERE.parents[1]
    *bisected, commands = everything.tests_of_commands(4).builds
    core, tests_alone = everything.tests_of_the_core().builds, everything.alone_lane().timed[0]

    def ran(step: Any) -> list[str]:
        paths = [word for word in step.words if isinstance(word, Path)]
        return [str(path.relative_to(root)) for path in paths]

    files = [name for step in (commands, *core) for name in ran(step)]
    assert sorted(files) == sorted(str(path.relative_to(root)) for path in everything.TESTS.rglob("test_*.py"))
    # what the files leave out is what has a step of its own
    alone, searches = ran(tests_alone), [name for step in bisected for name in ran(step)]
    for step, separate in ((commands, [*alone, *searches]), *((step, alone) for step in core)):
        left_out = {word for before, word in pairwise(step.words) if before == "--deselect"}
        assert left_out == {name.partition("[")[0] for name in separate}
    for name in (*alone, *searches):
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (root / file).read_text(encoding="utf-8")


def test_tests_that_are_cut_off_tell_what_failed(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, begun = tmp_path / "test_two.py", tmp_path / "begun"
    second = f"open({str(begun)!r}, 'w').write('2'); time.sleep(100)"
    file.write_text(f"import time\ndef test_one(): assert 1 == 3\ndef test_two(): {second}\n")
    with cut_off_after(begun, monkeypatch):
        everything.Runner(tmp_path, 100.0, ["0"]).run(everything.tested("cut", file), "0")
    assert "assert 1 == 3" in (tmp_path / "keep" / "log" / "cut.log").read_text()


def test_no_more_processes_build_at_once_than_are_asked_for(everything: Any, tmp_path: Path) -> None:
    noting = "import os, sys, time\nfile, others = sys.argv[1], sys.argv[2:]\n"
    noting += "print(time.monotonic(), file=open(file, 'a', buffering=1))\n"
    noting += "while not all(os.path.exists(other) for other in others): time.sleep(0.01)\n"
    noting += "time.sleep(0.1)\nprint(time.monotonic(), file=open(file, 'a'))"
    both = [tmp_path / "2", tmp_path / "1"]  # each waits for the other
    steps = [everything.Step(str(n), ["-c", noting, tmp_path / str(n), *both], jobs=n) for n in (2, 1, 5)]
    everything.work_through(everything.Lane(steps), "0", everything.Runner(tmp_path, 100.0, ["0"]), 3, {})
    times = [[float(line) for line in (tmp_path / str(n)).read_text().split()] for n in (2, 1, 5)]
    assert max(times[0][0], times[1][0]) < min(times[0][1], times[1][1])
    assert times[2][0] > max(times[0][1], times[1][1])


def test_lanes_share_the_gpus(everything: Any) -> None:
    step = everything.Step
    lanes = [
        everything.Lane([step(f"build-{n}", ())], [step(f"score-{n}", ())], [step(f"timed-{n}", ())]) for n in "ab"
    ]
    found = everything.merged(lanes)
    parts = [[one.name for one in part] for part in (found.builds, found.untimed, found.timed)]
    assert parts == [["build-a", "build-b"], ["score-a", "score-b"], ["timed-a", "timed-b"]]


def test_every_gpu_has_its_own_processors(everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        pytest.skip("one processor")
    runner = everything.Runner(tmp_path, 100.0, ["0", "1"])
    telling = (
        "import json, os, sys; found = [os.environ['CUDA_VISIBLE_DEVICES'], *sorted(os.sched_getaffinity(0))]; "
        "open(sys.argv[1], 'w').write(json.dumps(found))"
    )
    for gpu in ("0", "1"):
        step = everything.Step(f"tell-{gpu}", ["-c", telling, tmp_path / gpu])
        lane = threading.Thread(target=runner.run, args=(step, gpu))
        lane.start()
        lane.join()
    found = [json.loads((tmp_path / gpu).read_text()) for gpu in ("0", "1")]
    half = len(processors) // 2
    assert found == [["0", *processors[:half]], ["1", *processors[half : 2 * half]]]
    assert sorted(os.sched_getaffinity(0)) == processors
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert steps_of(everything).shares(["0", "1"]) == {"0": [3], "1": [3]}


def test_the_engines_that_are_prepared_are_those_that_the_benches_ask_for(everything: Any, tmp_path: Path) -> None:
    given = tmp_path / "given"
    options = argparse.Namespace(work=tmp_path, coco=given, minilm=given, yolov10m=given, yolox=given, trtexec=None)
    lanes = (everything.core_lane(options), everything.runtime_lane(options))
    steps = [step for lane in lanes for step in lane.builds if "onnx" in step.words]
    prepared = {(step.words[4], json.dumps(json.loads(step.words[5]), sort_keys=True)) for step in steps}
    asked = set()
    for name in ("classifiers", "encoders", "detector"):
        for point in expand(load_config(everything.BENCH / f"{name}.yaml")):
            if point.backend == "trt":
                asked.add((point.precision, json.dumps(point.options, sort_keys=True)))
    assert prepared == asked


def test_builds_share_the_gpu_and_measurements_have_it_alone(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = tmp_path / "bin" / "nvidia-cuda-mps-control"
    control.parent.mkdir()
    control.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then echo start; else cat; fi >> {tmp_path}/asked\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(control.parent), prepend=os.pathsep)
    telling = "import os, sys; open(sys.argv[1], 'a').write(os.environ.get('CUDA_MPS_PIPE_DIRECTORY', 'none') + '\\n')"
    build, timed = (everything.Step(name, ["-c", telling, tmp_path / name]) for name in ("build", "timed"))
    runner = everything.Runner(tmp_path, 100.0, ["0"])
    with everything.multi_process_service(tmp_path / "mps") as shared:
        everything.work_through(everything.Lane([build], [], [timed]), "0", runner, 2, shared)
    assert (tmp_path / "asked").read_text() == "start\nquit\n"
    assert (tmp_path / "build").read_text() == f"{tmp_path / 'mps'}\n"
    assert (tmp_path / "timed").read_text() == "none\n"
    monkeypatch.setenv("PATH", str(tmp_path))
    with everything.multi_process_service(tmp_path / "mps") as shared:
        assert shared == {}


@pytest.mark.parametrize("fixed", [True, False])
def test_a_service_that_does_not_start_keeps_nothing_from_being_built(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fixed: bool
) -> None:
    # refuses to start until it is told to quit, as where a call that was killed left one running; or for ever
    control, left, asked = tmp_path / "bin" / "nvidia-cuda-mps-control", tmp_path / "left", tmp_path / "asked"
    control.parent.mkdir()
    quits = f"cat; rm {left}" if fixed else "cat"
    control.write_text(
        f'#!/bin/sh\nexec >> {asked}\nif [ "$1" = -d ]; then echo start; test ! -e {left}; else {quits}; fi\n'
    )
    control.chmod(0o755)
    left.touch()
    monkeypatch.setenv("PATH", str(control.parent), prepend=os.pathsep)
    with everything.multi_process_service(tmp_path / "mps") as shared:
        assert bool(shared) == fixed
    assert asked.read_text() == "start\nquit\nstart\n" + "quit\n" * fixed
    assert ("does not start" in capsys.readouterr().out) != fixed


def test_only_some_of_the_steps(everything: Any, tmp_path: Path) -> None:
    noting = "import sys; open(sys.argv[1], 'w').close()"
    runner = everything.Runner(tmp_path, 100.0, ["0"], ["build-a*", "images"])
    for name in ("build-a1", "build-b", "images"):
        runner.run(everything.Step(name, ["-c", noting, tmp_path / name]), "0")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["build-a1", "images"]
    assert not runner.left


def test_a_pattern_that_fits_no_step_is_refused(
    everything: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--work", tmp_path / "work", "--coco", tmp_path, "--only", "slots", "bnech-*"]
    monkeypatch.setattr(sys, "argv", ["everything.py", *map(str, words)])
    with pytest.raises(SystemExit, match="2"):
        everything.main()
    assert "unknown steps: bnech-*; known: export-gpt2, " in capsys.readouterr().err
    assert not (tmp_path / "work").exists()
