"""How honest the ranks are: `trtw bench` on two runtimes that are the same (A/A), and on one with a planted slow-down.

Every pair is a run of the command with its default settings and two runtimes, `a` and `b`, on the embedded detector:
both of one backend, ort-cpu with one thread. In a planted pair the worker of `b` waits after every call, busily, for a
share of the time that the call took.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from trt_workbench.bench import run, tables, worker
from trt_workbench.core.artefacts import read_bench_run
from trt_workbench.main import main as trtw

_SHARE = "TRTW_PLANTED_SHARE"


class SlowedWorker(worker.Worker):
    """A worker whose runtime `b` is slower than it is, by a share that may be 0."""

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load a point, and slow `b` down. Raises WorkbenchError."""
        answer = super().load(request)
        share = float(os.environ[_SHARE])
        if share and request["point"]["runtime"] == "b":
            self._scenario.once = slowed(self._scenario.once, share)
        return answer


def slowed(call: Callable[[], object], share: float) -> Callable[[], None]:
    """Return `call` with a wait after it: `share` of the time that it took."""

    def once() -> None:
        start = time.perf_counter()
        call()
        end = start + (time.perf_counter() - start) * (1 + share)
        while time.perf_counter() < end:
            pass

    return once


def measured_pair(number: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the command once, and return what it says of `b`."""
    runtime = {"backend": arguments.backend, **({"threads": 1} if arguments.backend == "ort-cpu" else {})}
    config = {
        "seed": number,
        "models": {"detector": {"embedded": "shapes-yolov10"}},
        "runtimes": [{**runtime, "name": name} for name in ("a", "b")],
        "scenarios": {"arrays": {"kind": "arrays"}},
    }
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        file, directory = Path(folder, "bench.yaml"), Path(folder, "run")
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [sys.executable, __file__, "--as-trtw", "bench", str(file), "--json", "--output", str(directory)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        rows = [row.standing for row in tables(read_bench_run(directory))[0].rows]
    second = rows[1]
    made = second.against_best
    ends = made and (made.ratio_low, made.ratio_high)
    return {
        "pair": number,
        "load": round(load, 1),
        "slower": second.runtime if second.rank > 1 else None,
        "median": round(second.latency_ms.median / rows[0].latency_ms.median, 3),
        "interval": [end and round(end, 3) for end in ends or ()],
        "unstable": [row.unstable for row in rows],
    }


def main() -> None:
    """Run the pairs, write one line for each and print how many were ranked apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planted", type=float, default=0.0, help="Share by which b is slowed down.")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="Number of the first pair, which is its seed.")
    parser.add_argument("--backend", default="ort-cpu")
    parser.add_argument("--output", type=Path, required=True, help="File of one JSON line a pair.")
    arguments = parser.parse_args()
    os.environ[_SHARE] = str(arguments.planted)
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    slower: Counter[str] = Counter()
    with arguments.output.open("w", encoding="utf-8") as out:
        for number in range(arguments.first, arguments.first + arguments.pairs):
            found = measured_pair(number, arguments)
            slower[found["slower"] or "neither"] += 1
            line = json.dumps(found, separators=(",", ":"))
            out.write(line + "\n")
            out.flush()
            print(line, dict(slower), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-trtw"]:
        del sys.argv[1]
        run.TARGET = f"{Path(__file__).stem}:{SlowedWorker.__name__}"
        trtw()
    main()
