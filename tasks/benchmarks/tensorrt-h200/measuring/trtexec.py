"""trtexec as a subprocess: its command line, and what it exports and prints."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from measuring.cases import ENGINES, PairCase

_TIMEOUT_S = 120
_KEYS = {"h2dMs": "h2d", "computeMs": "compute", "d2hMs": "d2h", "latencyMs": "latency"}
_ENQUEUE = re.compile(r"Enqueue Time: .*?median = ([\d.e+-]+) ms")
_THROUGHPUT = re.compile(r"Throughput: ([\d.e+-]+) qps")


def command(trtexec: Path, plan: Path, case: PairCase, duration_s: float, times: Path) -> list[str]:
    """Return trtexec's command line for a case."""
    line = [str(trtexec), f"--loadEngine={plan}", "--useSpinWait", "--warmUp=200", "--iterations=10"]
    line += [f"--duration={duration_s:g}", f"--infStreams={case.streams}", f"--exportTimes={times}"]
    if case.graph:
        line.append("--useCudaGraph")
    if shapes := ENGINES[case.engine].shapes:
        line.append("--shapes=" + ",".join(f"{name}:{'x'.join(map(str, dims))}" for name, dims in shapes.items()))
    return line


def measure(trtexec: Path, plan: Path, case: PairCase, duration_s: float) -> dict[str, Any]:
    """Run trtexec once.

    Returns:
        `command`, `samples` as `parse_times` gives them, and what `parse_report` finds.

    Raises:
        RuntimeError: it failed; the message holds the end of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.json"
        line = command(trtexec, plan, case, duration_s, times)
        done = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0 or not times.is_file():
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise RuntimeError(f"trtexec ended with {done.returncode}:\n{tail}")
        samples = parse_times(json.loads(times.read_text(encoding="utf-8")))
    return {"command": line, "samples": samples, **parse_report(done.stdout)}


def parse_times(queries: list[dict[str, float]]) -> dict[str, Any]:
    """Return the samples of `--exportTimes` as arrays in ms: `h2d`, `compute`, `d2h`, `latency`."""
    return {name: np.array([query[key] for query in queries]) for key, name in _KEYS.items()}


def parse_report(text: str) -> dict[str, float]:
    """Return throughput and median enqueue time as trtexec prints them; its exported positions have six digits only.

    Raises:
        RuntimeError: the report lacks them.
    """
    throughput, enqueue = _THROUGHPUT.search(text), _ENQUEUE.search(text)
    if throughput is None or enqueue is None:
        raise RuntimeError("trtexec printed no throughput or enqueue time")
    return {"throughput_qps": float(throughput[1]), "enqueue_median_ms": float(enqueue[1])}
