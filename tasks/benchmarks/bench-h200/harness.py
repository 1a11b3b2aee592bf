"""Hold what `bench` reports for an engine against the C++ loop's own figure, by turns.

    python harness.py PLAN --output FILE [--rounds 5]

One line a round: medians of single calls, host arrays in to host arrays out, in ms. `infer-engine` measures them in the
C++ core; `bench` in a worker process that it loads, measures and samples from outside.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONFIG = """
title: One engine
repetitions: 3
measure: {{warmup_ms: 200, duration_s: 1}}
models: {{engine: {{path: {plan}}}}}
runtimes: [{{backend: trt}}]
scenarios: {{calls: {{kind: arrays}}}}
"""


def trtw(*words: object) -> str:
    """Run a command of the workbench and return its stdout."""
    line = [str(Path(sys.executable).with_name("trtw")), *map(str, words)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def measure(plan: Path, folder: Path) -> dict[str, Any]:
    """Measure one round in a folder of its own."""
    core = json.loads(trtw("infer-engine", plan, "--duration", 1, "--json", "--no-save", "--output", folder / "core"))
    (folder / "bench.yaml").write_text(CONFIG.format(plan=json.dumps(str(plan))), encoding="utf-8")
    trtw("bench", folder / "bench.yaml", "--output", folder / "bench")
    lines = (folder / "bench" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    medians = [json.loads(line)["latency_ms"]["p50"] for line in lines]
    core_ms = core["benchmark"]["single_calls"]["cpp"]["end_to_end_ms"]["p50"]
    bench_ms = statistics.median(medians)
    return {"core_ms": core_ms, "bench_ms": bench_ms, "bench_repetitions_ms": medians, "ratio": bench_ms / core_ms}


def main() -> None:
    """Measure round after round."""
    parser = argparse.ArgumentParser(description="Hold bench's figure for an engine against the C++ loop's.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="file of JSON lines, appended to")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            found = {"engine": options.plan.stem, "round": number, **measure(options.plan.absolute(), Path(folder))}
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        sys.stdout.write(f"{found['engine']} round {number}: {found['ratio']:.4f}\n")


if __name__ == "__main__":
    main()
