"""Shards as worker processes: deaths, deadly inputs, interrupts; nothing is lost and nothing counts twice."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.texts import held, refused

from trt_workbench.core import workers
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.core.shard import Shard, read_gpus
from trt_workbench.core.shard_workers import Device, ShardWorkers, gpu_devices

# A shard is a list of numbers; what is done of it is written into one file at its end.
WORKER = """
import json, os, pathlib, signal, time
from trt_workbench.core import errors
from trt_workbench.core.shard_workers import DONE, TAKEN, open_journal
def evaluate(asked):
    try:
        done = work(asked, asked["stands_after"])
    except KeyboardInterrupt as stop:
        done = stop.args[0]
    pathlib.Path(asked["place"]).write_text(json.dumps([os.environ["WHERE"], done]))
    return {}
def attempt(asked):
    work(asked)
    return {}
def work(asked, stands_after=40):
    kept = [one for place, one in enumerate(asked["block"]) if place not in asked["skipped"]]
    notes, done = open_journal(pathlib.Path(asked["journal"]), len(kept)), []
    pathlib.Path(asked["place"] + ".pid").write_text(str(os.getpid()))
    try:
        for first in range(0, len(kept), asked["batch"]):
            batch = kept[first : first + asked["batch"]]
            notes[first : first + len(batch)] = TAKEN
            time.sleep(600 if len(done) >= stands_after else asked["pause"])
            if set(batch) & set(asked["deadly"]):
                os.kill(os.getpid(), signal.SIGKILL)
            if set(batch) & set(asked["refused"]):
                raise errors.UsageProblem("The image is damaged: 7.png")
            notes[first : first + len(batch)] = DONE
            done += batch
    except KeyboardInterrupt:
        raise KeyboardInterrupt(done)
    return done
"""


@pytest.fixture(autouse=True)
def _workers(forking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numbers_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(workers, "subprocess", forking)


@pytest.fixture
def spread(tmp_path: Path) -> Callable[..., tuple[ShardWorkers, dict[int, Any]]]:
    """Return a function that does 40 numbers in two shards, and returns the workers and what each shard has done.

    After so many numbers of `stands_after` the worker of a shard stands still.
    """

    def run(
        progress: Any = None, stands_after: Sequence[int] = (40, 40), **more: Any
    ) -> tuple[ShardWorkers, dict[int, Any]]:
        devices = [Device(f"GPU {index}", {"WHERE": str(index)}) for index in range(2)]
        made = ShardWorkers(devices, "numbers_worker", tmp_path)
        usual = {"deadly": [], "refused": [], "batch": 1, "pause": 0.002}
        requests = {
            shard: {
                **usual,
                **more,
                "block": [*shard.block(40)],
                "place": str(tmp_path / f"{shard.index}.json"),
                "stands_after": stands_after[shard.index],
            }
            for shard in (Shard(0, 2), Shard(1, 2))
        }
        made.run(requests, progress)
        found = {index: tmp_path / f"{index}.json" for index in range(2)}
        return made, {index: json.loads(path.read_text()) for index, path in found.items() if path.exists()}

    return run


@pytest.mark.long
def test_each_shard_is_done_on_its_device(spread: Any) -> None:
    seen: list[tuple[int, int]] = []
    work, done = spread(lambda *counts: seen.append(counts))
    assert done == {0: ["0", [*range(20)]], 1: ["1", [*range(20, 40)]]}
    assert not work.failures
    assert not work.interrupted
    assert seen[-1] == (40, 40)


@pytest.mark.parametrize(("deadly", "batch"), [([7], 1), ([7], 8), ([3, 6], 8), ([25], 20)])
def test_inputs_that_end_a_worker_are_left_out(spread: Any, deadly: list[int], batch: int) -> None:
    work, done = spread(deadly=deadly, batch=batch)
    assert sorted(done[0][1] + done[1][1]) == [one for one in range(40) if one not in deadly]
    assert not work.failures


def test_what_is_refused_is_not_tried_again(spread: Any, tmp_path: Path) -> None:
    work, done = spread(refused=[7])
    assert done == {1: ["1", [*range(20, 40)]]}
    (failure,) = work.failures
    assert isinstance(failure.raised(), UsageProblem)
    held(str(failure.raised()))
    assert not (tmp_path / "0-of-2.log").read_text()


def killer(tmp_path: Path, times: int, seed: int) -> threading.Thread:
    """Kill workers at random moments, so often in all."""
    drawn = random.Random(seed)

    def kill() -> None:
        for _ in range(times):
            time.sleep(drawn.uniform(0, 0.15))
            path = tmp_path / f"{drawn.randrange(2)}.json.pid"
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                try:
                    os.kill(int(path.read_text()), signal.SIGKILL)
                    path.unlink()
                    break
                except (OSError, ValueError):
                    time.sleep(0.002)

    return threading.Thread(target=kill)


@pytest.mark.parametrize("seed", range(2))
def test_workers_killed_at_random_moments_lose_nothing(spread: Any, tmp_path: Path, seed: int) -> None:
    thread = killer(tmp_path, 2, seed)
    thread.start()
    work, done = spread(pause=0.01)
    thread.join()
    assert done[0][1] + done[1][1] == [*range(40)]
    assert not work.failures


def test_a_shard_is_given_up_after_three_deaths(spread: Any, tmp_path: Path) -> None:
    """Somebody kills the workers of one shard: no input is to blame, and none is left out."""
    ended = threading.Event()

    def kill() -> None:
        killed = set[int]()
        while len(killed) < 3 and not ended.is_set():
            try:
                number = int((tmp_path / "0.json.pid").read_text())
                if number not in killed:
                    os.kill(number, signal.SIGKILL)
                    killed.add(number)
            except (OSError, ValueError):
                time.sleep(0.001)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        work, done = spread(stands_after=[0, 40])
    finally:
        ended.set()
        thread.join()
    assert done == {1: ["1", [*range(20, 40)]]}
    (failure,) = work.failures
    assert isinstance(failure.raised(), DeviceFailure)
    held(str(failure.raised()))


def test_an_interrupt_keeps_what_is_done(spread: Any) -> None:
    def stop(done: int, _total: int) -> None:
        if done == 6 and not stopped:
            stopped.append(done)
            raise KeyboardInterrupt

    stopped: list[int] = []
    work, done = spread(stop, stands_after=[3, 3])
    assert work.interrupted
    assert not work.failures
    assert done == {0: ["0", [0, 1, 2]], 1: ["1", [20, 21, 22]]}


def test_a_second_interrupt_ends_the_workers(spread: Any, tmp_path: Path) -> None:
    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spread(stop, pause=30)
    for index in range(2):
        with pytest.raises(OSError):  # noqa: PT011 - gone, or another's by now
            os.kill(int((tmp_path / f"{index}.json.pid").read_text()), 0)


@pytest.mark.parametrize("text", ["", "0,0", "-1", "0,a", "ALL", "0;1"])
def test_what_names_no_gpus(text: str) -> None:
    with refused(UsageProblem):
        read_gpus("--gpus", text)


def test_gpus_are_chosen_by_cudas_numbers(monkeypatch: pytest.MonkeyPatch, gpus: Any) -> None:
    assert read_gpus("--gpus", "all") == ()
    assert read_gpus("--gpus", "1,0") == (1, 0)
    gpus("9.0", "9.0", "9.0")
    assert [one.environment for one in gpu_devices(())] == [{"CUDA_VISIBLE_DEVICES": str(one)} for one in range(3)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-0")
    assert gpu_devices((1, 0)) == [
        Device("GPU 1", {"CUDA_VISIBLE_DEVICES": "GPU-0"}),
        Device("GPU 0", {"CUDA_VISIBLE_DEVICES": "2"}),
    ]
    with refused(UsageProblem):
        gpu_devices((2,))


def test_gpus_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, gpus: Any) -> None:
    gpus("9.0", "12.0", names=("H200", "RTX 5090"))
    with refused(UsageProblem):
        gpu_devices(())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with refused(UsageProblem):
        gpu_devices(())
