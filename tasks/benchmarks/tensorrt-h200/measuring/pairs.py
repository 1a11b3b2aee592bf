"""Pairs of runs on one plan, trtexec and `infer-engine` by turns, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from measuring import trtexec
from measuring.cases import ENGINES, PAIRS, PairCase
from measuring.engines import plan_path
from measuring.records import Budget, Recorder, read_records, say, summary

_SPLIT = ("h2d", "compute", "d2h", "latency")
_PROCESS_S = 9.0  # what a process needs beside the measurement


def run_pairs(
    recorder: Recorder, plans: Path, binary: Path, names: list[str], count: int, duration_s: float, budget: Budget
) -> int:
    """Measure until every case has `count` pairs; return how many pairs are missing.

    The pairs go round the cases, and every second pair begins with the other tool, so that drift hits all alike.
    """
    for pair in range(count):
        for name in names:
            case = PAIRS[name]
            plan = plan_path(plans, case.engine)
            done = {(r["case"], r["pair"]) for r in read_records(recorder.folder, "pair") if r["tool"] == "workbench"}
            if (name, pair) in done or not plan.is_file() or not budget.allows(2 * (duration_s + _PROCESS_S)):
                continue
            try:
                _measure_pair(recorder, plan, binary, name, pair, duration_s)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                say(f"{name} pair {pair}: FAILED {error}")
                recorder.add("failure", {"case": name, "pair": pair, "error": str(error)})
    whole = {(r["case"], r["pair"]) for r in read_records(recorder.folder, "pair")}
    return len(names) * count - len([key for key in whole if key[0] in names and key[1] < count])


def _measure_pair(recorder: Recorder, plan: Path, binary: Path, name: str, pair: int, duration_s: float) -> None:
    case, found = PAIRS[name], {}
    tools = ["trtexec", "workbench"] if pair % 2 == 0 else ["workbench", "trtexec"]
    for tool in tools:
        if tool == "trtexec":
            found[tool] = trtexec.measure(binary, plan, case, duration_s)
        else:
            found[tool] = _measure_ours(plan, name, duration_s)
    # both or none: half a pair is no evidence
    for order, tool in enumerate(tools):
        result = found[tool]
        samples = {key: result["samples"][key] for key in _SPLIT}
        record = {
            "case": name,
            "engine": case.engine,
            "pair": pair,
            "order": order,
            "tool": tool,
            "command": result["command"],
            "summary_ms": {key: summary(values) for key, values in samples.items()},
            **{key: value for key, value in result.items() if key not in ("command", "samples")},
        }
        recorder.add("pair", record, samples)
    ratio = {key: _median(found["workbench"], key) / _median(found["trtexec"], key) for key in ("compute", "latency")}
    speed = found["workbench"]["throughput_qps"] / found["trtexec"]["throughput_qps"]
    say(
        f"{name} pair {pair}: trtexec compute {_median(found['trtexec'], 'compute'):.4f} ms; workbench/trtexec compute "
        f"{ratio['compute']:.4f} latency {ratio['latency']:.4f} throughput {speed:.4f}"
    )


def _median(result: dict[str, Any], key: str) -> float:
    return float(np.median(result["samples"][key]))


def _measure_ours(plan: Path, name: str, duration_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        output, times = Path(folder) / "run", Path(folder) / "times.json"
        line = command(plan, PAIRS[name], duration_s, times, output)
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0 or not times.is_file():
            raise RuntimeError(
                f"infer-engine ended with {done.returncode}:\n" + "\n".join(done.stderr.splitlines()[-15:])
            )
        metrics = json.loads(done.stdout)
        environment = json.loads((output / "env.json").read_text(encoding="utf-8"))
        samples = trtexec.parse_times(json.loads(times.read_text(encoding="utf-8")))
    measured = metrics["benchmark"]
    return {
        "command": line,
        "samples": samples,
        "throughput_qps": measured["throughput_qps"],
        "enqueue_median_ms": measured["enqueue_ms"]["p50"],
        "graph": measured["cuda_graph"],
        "graph_fallback": measured["cuda_graph_fallback"],
        "load_s": metrics["load_s"],
        "memory": metrics["memory"],
        "variables": environment["variables"],
    }


def command(plan: Path, case: PairCase, duration_s: float, times: Path, output: Path) -> list[str]:
    """Return the line of `infer-engine` for a case; its other defaults are trtexec's settings of the same case."""
    line = [str(Path(sys.executable).with_name("infer-engine")), str(plan), "--no-single-calls", "--json"]
    line += [f"--duration={duration_s:g}", f"--streams={case.streams}", f"--export-times={times}", f"--output={output}"]
    if not case.graph:
        line.append("--no-cuda-graph")
    for name, dims in ENGINES[case.engine].shapes.items():
        line.append(f"--shape={name}:{'x'.join(map(str, dims))}")
    return line
