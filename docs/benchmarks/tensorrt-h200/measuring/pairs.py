"""Pairs of runs on one plan, trtexec and the workbench by turns, each in a process of its own."""

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
from measuring.engines import load, plan_path, random_inputs
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
    script = Path(__file__).parents[1] / "measure.py"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        line = [sys.executable, str(script), "once", name, str(plan), f"--duration-s={duration_s:g}", f"--out={out}"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0 or not out.is_file():
            msg = f"the bench ended with {done.returncode}:\n" + "\n".join(done.stderr.splitlines()[-15:])
            raise RuntimeError(msg)
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {**result, "command": line}


def bench_options(case: PairCase, duration_s: float) -> Any:
    """Return the native bench's options that stand for trtexec's of the same case."""
    from trt_workbench.engine import native

    return native.require("BenchOptions")(
        iterations=10,
        duration_s=duration_s,
        warmup_ms=200.0,
        streams=case.streams,
        depth=2,
        spin=True,
        transfers=True,
        cuda_graph=case.graph,
    )


def run_once(name: str, plan: Path, duration_s: float, out: Path) -> None:
    """Measure one case with the native bench and write samples and totals as JSON."""
    from trt_workbench.engine import native

    case = PAIRS[name]
    engine = load(plan)
    with native.translated():
        inputs = random_inputs(engine, ENGINES[case.engine])
        result = native.require("bench")(engine, inputs, bench_options(case, duration_s))
    document = {
        "samples": {key: np.asarray(getattr(result, f"{key}_ms")).tolist() for key in _SPLIT},
        "throughput_qps": result.throughput_qps,
        "enqueue_median_ms": float(np.median(result.enqueue_ms)),
        "end_to_end_median_ms": float(np.median(result.end_to_end_ms)),
        "graph": result.graph,
        "graph_fallback": result.graph_fallback,
        "warmup_queries": result.warmup_queries,
    }
    out.write_text(json.dumps(document), encoding="utf-8")
