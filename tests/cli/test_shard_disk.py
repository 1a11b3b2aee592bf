"""A full disk on one node: its shard says so in one sentence, merge names it, and the same command finishes it."""

import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import faulty_backend
from tests.cli.test_eval_coco_output import ON_ANOTHER_DISK
from tests.docker import can_mount
from tests.fork_server import ForkServer
from tests.in_app import stderr_of, stdout_of
from tests.onnx_text import write_onnx
from tests.texts import held

# What the command line of a shard begins with, and how much room its disk has: enough for env.json.
COMMANDS = {
    "eval-coco": (("eval-coco", "--limit", 40, "--backend", "ort-cpu"), "12k"),
    "verify": (("verify", "MODEL", "--backend", "ort-cpu", "--dim", "batch=1:4:24", "--seed", 3), "12k"),
    "eval-stream": (("eval-stream", "--backend", "ort-cpu", "--chunks", 40), "16k"),
}
PROGRAM = ON_ANOTHER_DISK.replace("trt_workbench.evaluate.cli", "trt_workbench.main")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    text = "g (float[batch,8] x) => (float[batch,4] y) { a = MatMul(x, w) y = Sigmoid(a) }"
    return write_onnx(tmp_path / "model.onnx", text, {"w": weights})


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_said_and_the_shard_is_done_again(
    command: str, model: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    if not can_mount():
        pytest.skip("a small file system cannot be mounted here (unshare --map-root-user --mount)")
    words, room = COMMANDS[command]
    asked = [str(model) if word == "MODEL" else str(word) for word in words]
    nodes = [tmp_path / "node-0", tmp_path / "node-1"]
    for node in nodes:
        node.mkdir()
    if command == "eval-stream":  # of one precision the first shard is empty
        nodes.reverse()
    mine, other = ("0", "1") if command != "eval-stream" else ("1", "0")
    shards = {
        index: (*asked, "--shard", f"{index}/2", "--output", str(tmp_path / f"node-{index}" / "s")) for index in "01"
    }
    stdout_of(*shards[other])
    failed = fork_server.run(PROGRAM, f"size={room}", str(tmp_path / f"node-{mine}"), *shards[mine])
    assert failed.returncode == 2, failed.stderr
    assert failed.stderr.count("error: ") == 1
    assert "No space left on device" in failed.stderr
    assert "Traceback" not in failed.stderr
    if command == "verify":  # its cases so far stay, as of a run that was killed: the same command goes on with them
        (kept,) = re.findall(r"left: \['(\.s\..*\.staging)'\]\n$", failed.stdout)
        assert f"its files are kept: {tmp_path / f'node-{mine}' / kept}" in failed.stderr
    else:
        assert failed.stdout.endswith("left: []\n")
    merge = ("merge", *(tmp_path / f"node-{index}" for index in "01"), "-o", tmp_path / "merged", "--no-report")
    held(stderr_of("merge", tmp_path / f"node-{other}", "-o", tmp_path / "merged", "--no-report"))
    assert "is done" in stdout_of(*shards[mine])
    stdout_of(*merge)


def test_arrays_of_a_failure_that_cannot_be_written_end_a_shard_in_one_sentence(
    model: Path, tmp_path: Path, outside_backend: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)
    words: tuple[Any, ...] = ("verify", model, "--backend", "faulty", "--option", "fault=rows after the first")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    try:
        shard = ("--dim", "batch=600:1000:1000", "--quick", "--shard", "0/1", "--output", tmp_path / "0")
        said = stderr_of(*words, *shard)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    held(said)
    assert not (tmp_path / "0").exists()
