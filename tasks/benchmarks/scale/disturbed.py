"""Runs in eight shards on Slurm and on Ray, both on this machine, while nodes are drained and processes killed.

    python tasks/benchmarks/scale/disturbed.py slurm --rounds 10 --work DIR --output slurm.jsonl
    python tasks/benchmarks/scale/disturbed.py ray --rounds 5 --work DIR --output ray.jsonl

Slurm: a node is drained and the process of a task killed, each at a random moment. Ray: a worker is killed. A round is
a line: what was done when, how often each shard was begun and completed, and whether the merged run is that of one
process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.plugins.fleet.test_slurm import EVALUATION, write
from tests.ray_cluster import killed_run, ray_cluster
from tests.shards import SCORED, without_times
from tests.slurm_cluster import TRTW, SlurmCluster, disturbed_run

TOKEN = "0123456789abcdef" * 2


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scheduler", choices=("slurm", "ray"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    one = asked.work.absolute() / "one"
    subprocess.run([*TRTW, "eval-coco", *EVALUATION, "--output", str(one)], check=True, capture_output=True)
    with ExitStack() as stack:
        if asked.scheduler == "slurm":
            cluster = stack.enter_context(SlurmCluster(asked.work.absolute() / "cluster"))
        else:
            variables = stack.enter_context(ray_cluster(TOKEN))
        for number in range(asked.rounds):
            place = asked.work.absolute() / f"{asked.scheduler}-{number}"
            place.mkdir(parents=True)
            seed, file, folder = asked.seed + number, write(place), place / "out"
            if asked.scheduler == "slurm":
                found = disturbed_run(cluster, file, folder, seed)
            else:
                found = killed_run(variables, file, folder, seed)
            line = json.dumps({**found, "identical": identical(folder / "run", one)})
            with asked.output.open("a", encoding="utf-8") as output:
                output.write(f"{line}\n")


def identical(run: Path, one: Path) -> bool:
    """Return whether a merged run is, without its times, that of one process."""
    try:
        files = [(run / name).read_bytes() == (one / name).read_bytes() for name in SCORED]
    except OSError:
        return False
    return all(files) and without_times(run) == without_times(one)


if __name__ == "__main__":
    main()
