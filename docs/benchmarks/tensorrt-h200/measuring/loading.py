"""What eager loading of CUDA's kernels costs and gains, by `infer-engine` on every runtime that can serve."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring.cases import ENGINES, LOADING_ENGINES
from measuring.engines import plan_path
from measuring.records import Budget, Recorder, gpu_report, read_records, say

_RUN_S = 25.0  # PyTorch's start with eager loading included
_MODES = ("LAZY", "EAGER")


def run_loading(recorder: Recorder, plans: Path, models: list[Path], count: int, budget: Budget) -> int:
    """Measure `count` rounds of both modes by turns, each run a process of its own; return the runs that are missing.

    TensorRT loads the plan; ONNX Runtime and PyTorch the model that it was built from, in fp32.
    """
    from trt_workbench.backends.registry import availability

    runs: dict[tuple[str, str], list[str]] = {}
    for engine in LOADING_ENGINES:
        plan = plan_path(plans, engine)
        model = next((path for folder in models if (path := folder / ENGINES[engine].model).is_file()), None)
        if plan.is_file():
            runs[engine, "trt"] = [str(plan)]
        for backend in ("ort-cuda", "torch", "torch-compile"):
            if model is not None and availability(backend).ok:
                runs[engine, backend] = [str(model), f"--backend={backend}"]
    done = {(r["engine"], r["backend"], r["mode"], r["round"]) for r in read_records(recorder.folder, "loading")}
    missing = 0
    for number in range(count):
        for (engine, backend), words in runs.items():
            for mode in _MODES[:: 1 if number % 2 == 0 else -1]:
                if (engine, backend, mode, number) in done:
                    continue
                if not budget.allows(_RUN_S):
                    missing += 1
                    continue
                facts = {"engine": engine, "backend": backend, "mode": mode, "round": number}
                try:
                    recorder.add("loading", {**facts, **_run(words, mode)})
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    say(f"{facts}: FAILED {error}")
                    recorder.add("failure", {**facts, "error": str(error)})
                    missing += 1
    return missing


def _run(words: list[str], mode: str) -> dict[str, Any]:
    line = [str(Path(sys.executable).with_name("infer-engine")), *words, "--duration=1", "--no-save", "--json"]
    start = time.perf_counter()
    with _device_memory() as peak_bytes:
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**os.environ, "CUDA_MODULE_LOADING": mode},
        )
    wall_s = time.perf_counter() - start
    if done.returncode != 0:
        msg = f"infer-engine ended with {done.returncode}:\n" + "\n".join(done.stderr.splitlines()[-15:])
        raise RuntimeError(msg)
    metrics = json.loads(done.stdout)
    found = metrics["benchmark"]
    medians = {name: found[name]["p50"] for name in ("compute_ms", "latency_ms", "end_to_end_ms") if name in found}
    calls = found.get("single_calls", {})
    for via in ("cpp", "python"):
        if via in calls:
            medians[f"{via}_call_ms"] = calls[via]["end_to_end_ms"]["p50"]
    say(f"{' '.join(words)} {mode}: {medians}, load {metrics['load_s']:.2f} s, whole {wall_s:.1f} s")
    return {
        "command": line,
        "median_ms": medians,
        "load_s": metrics["load_s"],
        "first_run_ms": metrics["first_run_ms"],
        "wall_s": wall_s,
        "device_bytes": peak_bytes(),
    }


@contextlib.contextmanager
def _device_memory() -> Iterator[Callable[[], int | None]]:
    """Sample the memory in use on the whole GPU; yields what tells how far it rose. Only for a GPU of one's own."""
    before, stop, seen = _used_bytes(), threading.Event(), [0]

    def sample() -> None:
        while not stop.wait(0.05):
            seen[0] = max(seen[0], _used_bytes() or 0)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: None if before is None else seen[0] - before
    finally:
        stop.set()
        thread.join()


def _used_bytes() -> int | None:
    gpu = gpu_report()
    return int(gpu["memory_used_bytes"]) if gpu else None
