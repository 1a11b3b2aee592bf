"""How fast an engine is after other work of the same process, each sequence of steps in a process of its own."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from measuring.cases import CONTEXT_ENGINES, ENGINES
from measuring.engines import load, plan_path, random_inputs
from measuring.records import Budget, Recorder, read_records, say

SEQUENCES = ("bench bench bench", "run bench bench", "run close bench", "run run bench", "streams bench")
_MODES = ("LAZY", "EAGER")
_RUN_S = 8.0
_STREAMS = 16


def run_contexts(recorder: Recorder, plans: Path, count: int, budget: Budget) -> int:
    """Measure `count` rounds of every sequence with either loading of kernels; return the runs that are missing."""
    made = read_records(recorder.folder, "contexts")
    done = {(r["engine"], r["module_loading"], r["steps"], r["round"]) for r in made}
    missing = 0
    for number in range(count):
        for engine in CONTEXT_ENGINES:
            for mode, steps in [(mode, steps) for steps in SEQUENCES for mode in _MODES]:
                plan = plan_path(plans, engine)
                if (engine, mode, steps, number) in done or not plan.is_file():
                    continue
                if not budget.allows(_RUN_S):
                    missing += 1
                    continue
                facts = {"engine": engine, "module_loading": mode, "steps": steps, "round": number}
                found = _in_a_process(plan, engine, steps, mode)
                recorder.add("contexts", {**facts, "compute_ms": found})
                say(f"{facts}: {found}")
    return missing


def _in_a_process(plan: Path, engine: str, steps: str, mode: str) -> list[float]:
    line = [sys.executable, "-m", "measuring.contexts", str(plan), engine, steps]
    environment = {**os.environ, "CUDA_MODULE_LOADING": mode}
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    if done.returncode != 0:
        raise RuntimeError(f"the steps ended with {done.returncode}:\n" + "\n".join(done.stderr.splitlines()[-15:]))
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _work_through(plan: Path, name: str, steps: str) -> list[float]:
    from trt_workbench.engine import native

    engine = load(plan)
    inputs = random_inputs(engine, ENGINES[name])
    runners: list[Any] = []
    found = []
    for step in steps.split():
        if step == "run":
            runners.append(native.require("Runner")(engine))
            for _ in range(3):  # the graph is captured on the way
                runners[-1].run(inputs)
        elif step == "close":
            runners.pop().close()
        elif step == "streams":
            _use_streams()
        else:
            options = native.require("BenchOptions")(iterations=10, duration_s=1.0, warmup_ms=200.0)
            found.append(float(np.median(native.require("bench")(engine, inputs, options).compute_ms)))
    return found


def _use_streams() -> None:
    """Launch a fill on streams of this process that nothing else uses."""
    driver = ctypes.CDLL("libcuda.so.1")  # the engine has made its context current
    memory = ctypes.c_uint64()
    calls = [driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))]
    for _ in range(_STREAMS):
        stream = ctypes.c_void_p()
        calls.append(driver.cuStreamCreate(ctypes.byref(stream), 1))  # CU_STREAM_NON_BLOCKING
        calls.append(driver.cuMemsetD8Async(memory, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20), stream))
    calls.append(driver.cuCtxSynchronize())
    if any(calls):
        raise RuntimeError(f"the driver refused a stream: {calls}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_work_through(Path(sys.argv[1]), sys.argv[2], sys.argv[3])) + "\n")
