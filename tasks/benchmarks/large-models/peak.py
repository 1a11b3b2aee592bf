"""The peak of what a command and the processes that it starts hold in memory at once, as shares of pages (PSS).

`python tasks/benchmarks/large-models/peak.py trtw decide model.onnx ...` prints a JSON line on stderr: the largest sum
in GB, when it was reached, and what each process held then. A look every 0.15 s misses what is shorter.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

EVERY_S = 0.15


def tree(process: int) -> list[int]:
    """Return a process and those below it."""
    try:
        children = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    return [process, *(one for several in children for child in several for one in tree(int(child)))]


def held(process: int) -> int:
    """Return a process's share of the pages in memory, bytes."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main(words: list[str]) -> int:
    """Run a command; print its peak."""
    began, most, at, each = time.monotonic(), 0, 0.0, dict[int, int]()
    started = subprocess.Popen(words)
    while started.poll() is None:
        found = {process: held(process) for process in tree(started.pid)}
        if sum(found.values()) > most:
            most, at, each = sum(found.values()), time.monotonic() - began, found
        time.sleep(EVERY_S)
    times = os.times()
    record = {
        "peak_gb": round(most / 1e9, 2),
        "at_s": round(at, 1),
        "processes_gb": [round(one / 1e9, 2) for one in each.values()],
        "cpu_s": round(times.children_user + times.children_system, 1),
        "wall_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(record), file=sys.stderr)
    return started.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
