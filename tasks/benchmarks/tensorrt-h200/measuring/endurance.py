"""Many runs with changing shapes and profiles, and one runner shared by threads."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from measuring.cases import ENGINES, SOAK_ENGINE, THREADS_ENGINE
from measuring.engines import load, plan_path, random_inputs
from measuring.records import Budget, Recorder, gpu_report, say

_BATCHES, _SIDES = (1, 2, 4, 8, 12, 16), (160, 192, 224, 256, 288)
_SLOTS = 4


def run_soak(recorder: Recorder, plans: Path, runs: int, budget: Budget) -> int:
    """Run the dynamic engine `runs` times with random shapes of both profiles; return 0 if it was done."""
    from trt_workbench.engine import native

    plan = plan_path(plans, SOAK_ENGINE)
    if not plan.is_file() or not budget.allows(60):
        return 1
    rng = np.random.default_rng(0)
    shapes = [(batch, 3, side, side) for batch, side in itertools.product(_BATCHES, _SIDES)]
    arrays = {shape: rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes}
    first: dict[tuple[int, ...], Any] = {}
    worst, wrong, samples, done = 0.0, 0, [], 0
    start = time.perf_counter()
    with native.require("Runner")(load(plan)) as runner:
        for number in range(runs):
            shape = shapes[int(rng.integers(len(shapes)))]
            (output,) = runner.run({"input": arrays[shape]}).values()
            reference = first.setdefault(shape, output)
            difference = float(np.abs(output - reference).max())
            worst, wrong = max(worst, difference), wrong + (difference != 0.0 or not np.isfinite(output).all())
            done = number + 1
            if number % max(1, runs // 100) == 0 or done == runs:
                samples.append({"run": done, **_memory(), "graphs": runner.graph_status().graphs})
            if not budget.allows(10):
                break
        held = dict(runner.memory_bytes())
    settled = [sample for sample in samples if sample["run"] > 0.2 * done]
    growth = {key: settled[-1][key] - settled[0][key] for key in ("rss_bytes", "device_bytes")}
    wall_s = time.perf_counter() - start
    facts = {"engine": SOAK_ENGINE, "runs": done, "asked": runs, "shapes": len(shapes), "wall_s": wall_s}
    outcome = {"changed_outputs": wrong, "largest_difference": worst, "growth": growth, "runner_bytes": held}
    recorder.add("soak", {**facts, **outcome, "memory": samples})
    say(f"soak: {done} runs in {wall_s:.0f} s, growth after a fifth of them {growth}, changed outputs {wrong}")
    return int(done < runs)


def _memory() -> dict[str, int]:
    import psutil

    gpu = gpu_report()
    assert gpu is not None
    return {"rss_bytes": psutil.Process().memory_info().rss, "device_bytes": gpu["memory_used_bytes"]}


def run_threads(recorder: Recorder, plans: Path, threads: int, calls: int) -> int:
    """Let threads share one runner, each with inputs of its own; return 0 if every answer was right."""
    from trt_workbench.engine import native

    plan = plan_path(plans, THREADS_ENGINE)
    if not plan.is_file():
        return 1
    engine = load(plan)
    case = ENGINES[THREADS_ENGINE]
    inputs = [random_inputs(engine, case, seed=1 + index) for index in range(threads)]
    with native.require("Runner")(engine) as alone:
        expected = [alone.run(given) for given in inputs]
    wrong, worst, errors = [0] * threads, [0.0] * threads, []
    with native.require("Runner")(engine, native.require("RunnerOptions")(slots=_SLOTS)) as runner:

        def work(index: int) -> None:
            try:
                for _ in range(calls):
                    for name, array in runner.run(inputs[index]).items():
                        difference = float(np.abs(array - expected[index][name]).max())
                        # not `> 0`: NaN is wrong too
                        wrong[index] += not difference == 0.0  # noqa: SIM201
                        worst[index] = max(worst[index], difference)
            except Exception as error:  # a thread's failure is part of the record
                errors.append(repr(error))

        workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wall_s = time.perf_counter() - start
    between = itertools.combinations(expected, 2)
    apart = min(float(np.abs(one[name] - other[name]).max()) for one, other in between for name in one)
    facts = {"engine": THREADS_ENGINE, "threads": threads, "calls": calls, "slots": _SLOTS, "wall_s": wall_s}
    outcome = {"wrong": sum(wrong), "largest_difference": max(worst), "errors": errors, "expected_differ_by": apart}
    recorder.add("threads", {**facts, **outcome})
    say(f"threads: {threads} x {calls} calls in {wall_s:.1f} s, {sum(wrong)} wrong, errors {errors}")
    return int(bool(sum(wrong) or errors))
