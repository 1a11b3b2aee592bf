"""Calls of `infer-engine --json --backend ort-cpu` and of a bare loop of ONNX Runtime, in turn, burst by burst.

`python tasks/benchmarks/large-models/turns.py MODEL ROUNDS` starts three processes: the command, a loop over
`InferenceSession(MODEL).run`, and that loop again, for what two of the same differ by. Each makes a burst of calls when
it is told to. Prints the ratios to the first loop, of wall time and of processor time: median and quartiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median, quantiles

BURST, BEFORE = 10, 2
WAITS = f"""
import os, sys, time
told, model = int(sys.argv[1]), sys.argv[2]
def bursts(call):
    for _ in iter(sys.stdin.readline, ""):
        for _ in range({BEFORE}):
            call()
        used, began = time.process_time(), time.perf_counter()
        for _ in range({BURST}):
            call()
        os.write(told, f"{{time.perf_counter() - began}} {{time.process_time() - used}}\\n".encode())
    os._exit(0)
"""
COMMAND = """
from trt_workbench.backends.measure import loop
loop.measure_calls = lambda call, *_, **__: bursts(call)
from trt_workbench.main import infer_engine
sys.argv = ["infer-engine", model, "--backend", "ort-cpu", "--json"]
infer_engine()
"""
BARE = """
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
draw, kinds = np.random.default_rng(0), {"tensor(float)": np.float32, "tensor(int64)": np.int64}
inputs = {
    one.name: draw.random([size if isinstance(size, int) else 1 for size in one.shape]).astype(kinds[one.type])
    for one in session.get_inputs()
}
bursts(lambda: session.run(None, inputs))
"""


class Process:
    """A process that makes a burst of calls when it is told to."""

    def __init__(self, program: str, model: str) -> None:
        """Start it."""
        read, write = os.pipe()
        call = [sys.executable, "-c", WAITS + program, str(write), model]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            call, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, text=True, pass_fds=(write,)
        )
        os.close(write)
        self._answers = os.fdopen(read)

    def burst(self) -> tuple[float, float]:
        """Return wall time and processor time of a burst, in seconds."""
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        wall, used = map(float, self._answers.readline().split())
        return wall, used

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


def main(model: str, rounds: int) -> None:
    """Make the bursts in turn, and print the ratios."""
    programs = {"infer-engine": COMMAND, "loop": BARE, "loop again": BARE}
    processes = {name: Process(program, model) for name, program in programs.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [one.burst()] for name, one in processes.items()}
    names = list(programs)
    for number in range(rounds):
        for name in names[number % 3 :] + names[: number % 3]:
            found[name].append(processes[name].burst())
    for one in processes.values():
        one.end()
    for name in ("infer-engine", "loop again"):
        for which, what in enumerate(("wall", "processor")):
            pairs = zip(found[name][1:], found["loop"][1:], strict=True)
            ratios = [own[which] / bare[which] for own, bare in pairs]
            low, _, high = quantiles(ratios, n=4)
            print(f"{name}, {what} time: {median(ratios):.3f} of the loop ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
