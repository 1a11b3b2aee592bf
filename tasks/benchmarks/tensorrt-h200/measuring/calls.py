"""Single calls from numpy to numpy through Python beside the C++ loop, and several calls in flight."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measuring.cases import ENGINES, LATENCY_ENGINES, SLOT_ENGINES
from measuring.engines import load, plan_path, random_inputs
from measuring.records import Budget, Recorder, read_records, say, summary

_WARMUP_S = 0.3
_SLOTS = (1, 2, 3)
# One stream of trtexec with --useSpinWait --useCudaGraph --duration=1.
_TRTEXEC = {"iterations": 10, "duration_s": 1.0, "warmup_ms": 200.0, "spin": True, "cuda_graph": True}
_LOAD_S = 5.0  # an engine and its runner
_BESIDE_S = 2.5  # what a measurement takes beside its duration: warm-up, a short bench, capturing


def run_latency(recorder: Recorder, plans: Path, count: int, duration_s: float, budget: Budget) -> int:
    """Measure `count` rounds of the C++ loop, the native runner and the session by turns; return rounds missing."""
    for name in LATENCY_ENGINES:
        done = len({r["round"] for r in read_records(recorder.folder, "latency") if r["engine"] == name})
        plan = plan_path(plans, name)
        if done < count and plan.is_file() and budget.allows(_LOAD_S + 3 * (duration_s + _BESIDE_S)):
            _latency_rounds(recorder, plan, name, range(done, count), duration_s, budget)
    rounds = {(r["engine"], r["round"]) for r in read_records(recorder.folder, "latency")}
    return len(LATENCY_ENGINES) * count - len(rounds)


def _latency_rounds(
    recorder: Recorder, plan: Path, name: str, rounds: range, duration_s: float, budget: Budget
) -> None:
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.registry import get_backend
    from trt_workbench.engine import native

    engine = load(plan)
    inputs = random_inputs(engine, ENGINES[name])
    options = native.require("BenchOptions")(duration_s=duration_s, warmup_ms=_WARMUP_S * 1e3)
    with get_backend("trt").load(plan, SessionOptions()) as session:
        runner = session.runner  # type: ignore[attr-defined]  # one for all, as each has memory of its own
        for number in rounds:
            if not budget.allows(3 * (duration_s + _BESIDE_S)):
                return
            ways: dict[str, Callable[[], NDArray[np.float64]]] = {
                "c++": lambda: np.asarray(runner.measure(inputs, options).end_to_end_ms),
                "python-runner": lambda: _time_calls(lambda: runner.run(inputs), duration_s),
                "python-session": lambda: _time_calls(lambda: session.run(inputs), duration_s),
            }
            found = {}
            for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
                found[way] = ways[way]()
            for way, ms in found.items():
                facts = {"engine": name, "round": number, "way": way, "summary_ms": summary(ms)}
                recorder.add("latency", facts, {"end_to_end": ms})
            medians = {way: float(np.median(ms)) for way, ms in found.items()}
            extra = {way: f"{(ms - medians['c++']) * 1e3:+.1f} us" for way, ms in medians.items() if way != "c++"}
            say(f"{name} round {number}: C++ {medians['c++']:.4f} ms; {extra}")


def _time_calls(call: Callable[[], Any], duration_s: float) -> NDArray[np.float64]:
    clock = time.perf_counter_ns
    ending = time.perf_counter() + _WARMUP_S
    while time.perf_counter() < ending:
        call()
    taken = []
    ending = time.perf_counter() + duration_s
    while time.perf_counter() < ending:
        start = clock()
        result = call()
        taken.append(clock() - start)
        del result
    return np.asarray(taken) / 1e6


def run_slots(recorder: Recorder, plans: Path, count: int, duration_s: float, budget: Budget) -> int:
    """Measure throughput with one to three slots beside the engine's compute time; return what is missing."""
    missing = 0
    for name in SLOT_ENGINES:
        plan = plan_path(plans, name)
        made = [record for record in read_records(recorder.folder, "slots") if record["engine"] == name]
        done = {(record["slots"], record["way"], record["round"]) for record in made}
        wanted = [(n, way, k) for k in range(count) for n in _SLOTS for way in ("submit", "threads")]
        left = [key for key in wanted if key not in done]
        measured = 0
        if left and plan.is_file() and budget.allows(_LOAD_S + duration_s + _BESIDE_S):
            measured = _slots_rounds(recorder, plan, name, left, duration_s, budget)
        missing += len(left) - measured
    return missing


def _slots_rounds(
    recorder: Recorder, plan: Path, name: str, wanted: list[tuple[int, str, int]], duration_s: float, budget: Budget
) -> int:
    """Measure what the budget allows of `wanted`; return how much that was."""
    from trt_workbench.engine import native

    engine = load(plan)
    inputs = random_inputs(engine, ENGINES[name])
    for measured, (slots, way, number) in enumerate(wanted):
        if not budget.allows(duration_s + _BESIDE_S):
            return measured
        bench = native.require("bench")(engine, inputs, native.require("BenchOptions")(**_TRTEXEC))
        compute_ms = float(np.median(bench.compute_ms))
        with native.require("Runner")(engine, native.require("RunnerOptions")(slots=slots)) as runner:
            rate = (_submit_rate if way == "submit" else _threads_rate)(runner, inputs, slots, duration_s)
        ratio = rate * compute_ms / 1e3
        facts = {"engine": name, "slots": slots, "way": way, "round": number}
        recorder.add("slots", {**facts, "throughput_qps": rate, "compute_ms": compute_ms, "ratio": ratio})
        say(f"{name} {slots} slots, {way}, round {number}: {rate:.1f} qps, {ratio:.4f} of 1/compute")
    return len(wanted)


def _submit_rate(runner: Any, inputs: dict[str, Any], slots: int, duration_s: float) -> float:
    """Queries a second of one thread that keeps every slot busy."""
    tickets: deque[Any] = deque()
    count, start, ending = 0, 0.0, time.perf_counter() + _WARMUP_S
    warm = True
    while True:
        tickets.append(runner.submit(inputs))
        if len(tickets) == slots:
            tickets.popleft().result()
            count += 1
        now = time.perf_counter()
        if now < ending:
            continue
        if not warm:
            break
        warm, count, start, ending = False, 0, now, now + duration_s
    elapsed = time.perf_counter() - start
    for ticket in tickets:
        ticket.result()
    return count / elapsed


def _threads_rate(runner: Any, inputs: dict[str, Any], slots: int, duration_s: float) -> float:
    """Queries a second of as many threads as slots, each calling `run`."""
    counts, stop, counting = [0] * slots, threading.Event(), threading.Event()

    def work(index: int) -> None:
        while not stop.is_set():
            runner.run(inputs)
            if counting.is_set():
                counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(slots)]
    for thread in threads:
        thread.start()
    time.sleep(_WARMUP_S)
    start = time.perf_counter()
    counting.set()
    time.sleep(duration_s)
    counting.clear()
    elapsed = time.perf_counter() - start
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / elapsed
