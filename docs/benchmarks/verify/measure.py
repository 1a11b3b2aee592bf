"""Verify a table of models on a backend and write a record for each: the verdicts that stand in README.md.

    python measure.py list   [--only PATTERN ...]
    python measure.py run    --work DIR --output DIR [--backend trt|ort-cuda|torch-compile|…] [--precisions fp32 fp16]
                             [--jobs N] [--seconds LIMIT] [--only PATTERN ...] [--shard I/N] [--level 0] [--batch N]
    python measure.py report --output DIR

Models, engines and the run directories of wrong ones go to the work folder, records.jsonl to the output. A record is
written as soon as it is there, and a job that has one is not done again, so a run that was cut off can be repeated.
Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # tests
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # everything.py
sys.path.insert(0, str(Path(__file__).resolve().parent))  # zoo

from everything import multi_process_service
from zoo.jobs import TENSORRT, Job, serve
from zoo.pool import Worker, shares, work_through
from zoo.table import Entry, entries

_ON_A_GPU = (TENSORRT, "ort-cuda", "ort-trt", "torch-compile")


def main() -> int:
    """Run one command and return its exit code: 1 if something is left."""
    options = _parser().parse_args()
    if options.command == "worker":
        for _ in serve(options.work):
            pass
        return 0
    if options.command == "list":
        for entry in _chosen(options.only):
            ranges = " ".join(f"{name}={':'.join(map(str, sizes))}" for name, sizes in entry.ranges.items())
            say(f"{entry.name}: {entry.what}; {ranges}")
        return 0
    if options.command == "report":
        from zoo.summary import write_report

        say(f"Report: {write_report(options.output)}")
        return 0
    return int(_run(options) > 0)


def _run(options: argparse.Namespace) -> int:
    from trt_workbench.engine.files import write_json
    from trt_workbench.system.environment import collect_environment

    options.output.mkdir(parents=True, exist_ok=True)
    options.work.mkdir(parents=True, exist_ok=True)
    work = options.work.resolve()
    write_json(options.output / "env.json", collect_environment(sys.argv))
    records = options.output / "records.jsonl"
    done = {_job(record) for record in read_records(records)}
    level = options.level if options.backend == TENSORRT else 0
    jobs = [
        Job(entry.name, options.backend, precision, level, options.batch)
        for precision in options.precisions
        for entry in _chosen(options.only)
    ]
    number, count = (int(part) for part in options.shard.split("/"))
    jobs = [job for place, job in enumerate(jobs) if place % count == number and job not in done]
    started, counts = time.monotonic(), Counter[str]()

    def record(found: dict[str, Any]) -> None:
        with records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        counts[found["verdict"]] += 1
        seconds = " ".join(f"{name} {found[name]}" for name in ("write_s", "open_s", "verify_s") if name in found)
        first = (found.get("failures") or [found.get("reason", "")])[0]
        at = time.monotonic() - started
        say(f"{at:5.0f} s {_job(found).label}: {found['verdict']}; {seconds} {' '.join(first.split())[:300]}")

    service = multi_process_service(work / "mps") if _shares_a_gpu(options) else contextlib.nullcontext({})
    with service as environment:
        workers = [
            Worker(work, processors, environment, work / f"worker-{place}.log")
            for place, processors in enumerate(shares(options.jobs))
        ]
        left = work_through(jobs, workers, record, seconds=options.seconds, limit_s=options.limit_s)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    say(f"{len(jobs) - left} of {len(jobs)} jobs in {time.monotonic() - started:.0f} s: {counted or 'nothing'}")
    return left


def _shares_a_gpu(options: argparse.Namespace) -> bool:
    """Whether to start CUDA's Multi-Process Service, unless there is one."""
    return options.backend in _ON_A_GPU and options.jobs > 1 and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; empty without it."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _job(record: dict[str, Any]) -> Job:
    return Job(*(record[name] for name in ("model", "backend", "precision", "level", "batch")))


def _chosen(patterns: list[str]) -> list[Entry]:
    """Return the entries of these groups, or whose names are like the patterns."""
    return [
        entry
        for entry in entries()
        if entry.group in patterns or any(fnmatch.fnmatch(entry.name, pattern) for pattern in patterns)
    ]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="verify")
    listed = commands.add_parser("list", help="name the models")
    for command in (run, listed):
        command.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="these models or groups alone")
    run.add_argument("--work", type=Path, required=True, help="folder of models and engines")
    run.add_argument("--output", type=Path, required=True, help="folder of the records")
    run.add_argument("--backend", default=TENSORRT)
    run.add_argument("--precisions", nargs="+", default=["fp32", "fp16"])
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--seconds", type=float, default=3600.0, help="start nothing after them")
    run.add_argument("--limit-s", type=float, default=240.0, help="most seconds of one model")
    run.add_argument("--shard", default="0/1", metavar="I/N", help="every Nth job, from the Ith on (from 0)")
    run.add_argument("--level", type=int, default=0, help="TensorRT's optimisation level")
    run.add_argument("--batch", type=int, default=0, help="fix the batch in the graph; it is free by default")
    report = commands.add_parser("report", help="write README.md from the records")
    report.add_argument("--output", type=Path, required=True)
    worker = commands.add_parser("worker", help="answer jobs on standard input (used by run)")
    worker.add_argument("--work", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
