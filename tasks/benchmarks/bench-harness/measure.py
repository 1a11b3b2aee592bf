"""How honest the harness is: the same runtime against itself (A/A), and against itself with a planted slow-down.

Every comparison is a bench run of its own with two runtimes, `a` and `b`, both ort-cpu on the embedded detector. In a
planted comparison the worker of `b` waits after every call, busily, for a share of the time that the call took.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from trt_workbench.bench import run, worker
from trt_workbench.bench.bench_run import prepare_bench
from trt_workbench.bench.ranking import compare_records, kept_records
from trt_workbench.core.records import read_records

_SHARE, _PRIORITY = "TRTW_PLANTED_SHARE", "TRTW_PRIORITY"


class SlowedWorker(worker.Worker):
    """A worker whose runtime `b` is slower than it is, by a share that may be 0."""

    def __init__(self) -> None:
        take_priority()
        super().__init__()

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load a point, and slow `b` down. Raises WorkbenchError."""
        answer = super().load(request)
        share = float(os.environ[_SHARE])
        if share and request["point"]["runtime"] == "b":
            self._scenario.once = slowed(self._scenario.once, share)
        return answer


def take_priority() -> None:
    """Give the processes of this session, which Linux schedules as one group, the priority that was asked for."""
    group = Path("/proc/self/autogroup")
    if (priority := int(os.environ[_PRIORITY])) and group.exists():
        group.write_text(str(priority), encoding="ascii")


def slowed(call: Callable[[], object], share: float) -> Callable[[], None]:
    """Return `call` with a wait after it: `share` of the time that it took."""

    def once() -> None:
        start = time.perf_counter()
        call()
        end = start + (time.perf_counter() - start) * (1 + share)
        while time.perf_counter() < end:
            pass

    return once


def run_comparison(number: int, arguments: argparse.Namespace, records: Path) -> dict[str, Any]:
    """Measure `a` and `b` once, append the records and return what the statistics say of `b`."""
    runtime = {"backend": "ort-cpu", "threads": arguments.threads}
    config = {
        "title": "The harness against itself",
        "seed": number,
        "repetitions": arguments.repetitions,
        "measure": {"warmup_ms": arguments.warmup_ms, "duration_s": arguments.duration_s, "slices": arguments.slices},
        "models": {"detector": {"embedded": "shapes-yolov10"}},
        "runtimes": [{**runtime, "name": name} for name in ("a", "b")],
        "scenarios": {"arrays": {"kind": "arrays"}},
    }
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bench.yaml")
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        planned = prepare_bench(str(file), ())
        made = planned.run(Path(folder, "run"), skip_unavailable=False, progress=None)
        measured = read_records(made.directory / "records.jsonl")
    with gzip.open(records, "at", encoding="utf-8") as out:
        for record in measured:
            line = {"comparison": number, "planted": arguments.planted, **record.model_dump(mode="json")}
            out.write(json.dumps(line) + "\n")
    kept = kept_records(measured)
    return {
        "comparison": number,
        "planted": arguments.planted,
        "priority": arguments.priority,
        "load_before": load,
        "unstable": sum(bool(record.unstable) for record in measured),
        "repetitions": {name: len(values) for name, values in kept.items()},
        **asdict(compare_records(kept["a"], kept["b"])),
    }


def main() -> None:
    """Run the comparisons and print one line for each and a count of the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planted", type=float, default=0.0, help="Share by which b is slowed down.")
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--duration-s", type=float, default=0.3)
    parser.add_argument("--warmup-ms", type=float, default=15.0)
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--priority", type=int, default=0, help="Niceness of the workers, -20 to 19.")
    parser.add_argument("--name", required=True, help="Writes NAME.jsonl and NAME-records.jsonl.gz.")
    parser.add_argument("--folder", type=Path, default=Path(), help="Where they are written (default: this folder).")
    arguments = parser.parse_args()
    os.environ[_SHARE], os.environ[_PRIORITY] = str(arguments.planted), str(arguments.priority)
    run.TARGET = f"{Path(__file__).stem}:{SlowedWorker.__name__}"
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    records = arguments.folder / f"{arguments.name}-records.jsonl.gz"
    records.unlink(missing_ok=True)
    with (arguments.folder / f"{arguments.name}.jsonl").open("w", encoding="utf-8") as out:
        verdicts: Counter[str] = Counter()
        for number in range(arguments.comparisons):
            found = run_comparison(number, arguments, records)
            verdicts[found["verdict"]] += 1
            out.write(json.dumps(found) + "\n")
            out.flush()
            print(f"{number:3} {found['ratio']:.4f} p {found['p_value']:.4f} {found['verdict']}", flush=True)
    print(dict(verdicts))


if __name__ == "__main__":
    main()
