"""SIGKILL at random moments: run again, shards are whole, and together they are what one process gives."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from tests.fork_server import ForkServer
from tests.in_app import stdout_of
from tests.shards import SCORED, without_times

COMMAND = """
import sys
from trt_workbench.main import main
sys.argv = ["trtw", *sys.argv[1:]]
main()
"""
# `--gpus` with devices that are none.
SPREAD = """
import sys
from pathlib import Path
from trt_workbench.core.directory import run_directory
from trt_workbench.core.shard_workers import Device
from trt_workbench.core.spread import spread
from trt_workbench.vision.shard_worker import job_of
from trt_workbench.vision.run import CocoRequest
model, images, annotations, output = map(Path, sys.argv[1:])
asked = CocoRequest(model=model, images=images, annotations=annotations)
with run_directory("eval-coco", output) as run:
    found = spread([Device("GPU 0", {}), Device("GPU 1", {})], job_of(asked), run)
    assert not found.error, found.error
    run.commit(found.status)
"""


def killed(fork_server: ForkServer, after_s: float | None, program: str, *words: object) -> bool:
    """Run a program, killed after so long; return whether it came to its end."""
    with TemporaryFile() as said:
        process = fork_server.start(program, *words, stdout=said, stderr=said)
        try:
            code = process.wait(after_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return False
        said.seek(0)
        assert code == 0, said.read().decode()
    return True


def require_equal(run: Path, coco: Any) -> None:
    assert coco.invoke("--no-report").exit_code == 0
    for name in SCORED:
        assert (run / name).read_bytes() == (coco.output / name).read_bytes(), name
    mine, theirs = without_times(run), without_times(coco.output)
    assert mine[1] == theirs[1]
    assert mine[0]["AP"] == theirs[0]["AP"]


def test_shards_that_are_killed_and_run_again(coco: Any, fork_server: ForkServer) -> None:
    drawn, place, kills = random.Random(0), coco.root / "shards", 0
    for index in range(3):
        words = coco.arguments("--shard", f"{index}/3")
        words[words.index("--output") + 1] = str(place / str(index))
        for _ in range(3):
            kills += not killed(fork_server, drawn.uniform(0, 0.6), COMMAND, "eval-coco", *words)
        assert killed(fork_server, None, COMMAND, "eval-coco", *words)
    merged = coco.root / "merged"
    stdout_of("merge", place, "-o", merged, "--no-report")
    require_equal(merged, coco)
    assert [one.name for one in sorted(place.iterdir()) if not one.name.startswith(".")] == ["0", "1", "2"]


@pytest.mark.long
def test_a_spread_run_that_is_killed_goes_on(coco: Any, fork_server: ForkServer) -> None:
    drawn, output = random.Random(0), coco.root / "spread"
    words = (coco.model, coco.images, coco.annotations, output)
    for _ in range(4):
        if killed(fork_server, drawn.uniform(0, 3), SPREAD, *words) or output.exists():  # killed once it was whole
            break
    while not output.exists():  # workers of a killed process keep what is done, which takes them a moment
        try:
            killed(fork_server, None, SPREAD, *words)
        except AssertionError as error:
            if "Another process is writing" not in str(error):
                raise
            time.sleep(0.2)
    require_equal(output, coco)
    listed = json.loads((output / "shards.json").read_text())["shards"]
    assert [(one["index"], one["first"], one["end"], one["done"]) for one in listed] == [(0, 0, 2, 2), (1, 2, 4, 2)]
