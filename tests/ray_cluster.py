"""A Ray cluster of two nodes with other custom resources on this machine, in a process of its own, and workers killed.

`python -m tests.ray_cluster` prints the address, and ends its own cluster when its input ends: `ray stop` would end
those of others.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from tests.slurm_cluster import TRTW, completions, tasks_in

ROOT = Path(__file__).parents[1]
TYPES = ("h200", "l4")


@contextmanager
def ray_cluster(token: str) -> Iterator[dict[str, str]]:
    """Start a cluster that wants a token; yield the variables that reach it."""
    variables = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0"}
    variables.pop("RAY_ADDRESS", None)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ray_cluster"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=variables, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield {**variables, "RAY_ADDRESS": process.stdout.readline().strip()}
        process.communicate(timeout=60)


def killed_run(variables: dict[str, str], file: Path, folder: Path, seed: int, within_s: float = 12) -> dict[str, Any]:
    """Run `submit FILE --to ray --run` while one of Ray's workers is killed; return what happened."""
    draw, events = random.Random(seed), list[dict[str, Any]]()
    thread = threading.Thread(target=_kill_worker, args=(folder, draw, draw.uniform(0.5, within_s), events))
    began = time.monotonic()
    thread.start()
    command = [*TRTW, "submit", str(file), "--to", "ray", "--run", "--json"]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=550)
    seconds = time.monotonic() - began
    thread.join()
    said = [line for line in ended.stderr.splitlines() if "again" in line or "error" in line]
    return {
        "seed": seed, "exit_code": ended.returncode, "stderr": said, "events": events, **completions(folder),
        "seconds": round(seconds, 1),
    }  # fmt: skip


def _kill_worker(folder: Path, draw: random.Random, after_s: float, events: list[dict[str, Any]]) -> None:
    """Kill the worker, Ray's own process, of a task; the process of the task ends with it."""
    began = time.monotonic()
    time.sleep(after_s)
    while time.monotonic() - began < 60:
        with contextlib.suppress(psutil.Error):
            if found := list(tasks_in(folder)):
                shard, process = draw.choice(found)
                worker = process.parent()
                if worker and "ray::" in " ".join(worker.cmdline()):
                    worker.send_signal(signal.SIGKILL)
                    events.append({"after_s": round(time.monotonic() - began, 2), "killed_worker_of": shard})
                    return
        time.sleep(0.1)


def _serve() -> None:
    from ray.cluster_utils import Cluster

    first, second = ({"num_cpus": 1, "resources": {name: 1, "trtw-node": 1}} for name in TYPES)
    cluster = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
    cluster.add_node(**second)
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
