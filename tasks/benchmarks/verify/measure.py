"""Verify a table of models on a backend and write a record for each: the verdicts that stand in README.md.

    python measure.py list   [--only PATTERN ...]
    python measure.py run    --work DIR --output DIR [--backend trt|ort-cuda|torch-compile|…] [--precisions fp32 fp16]
                             [--jobs N] [--seconds LIMIT] [--only PATTERN ...] [--shard I/N] [--level 0] [--batch N]
    python measure.py bisect --work DIR --output DIR [--each-s 120] [--jobs N] [--seconds LIMIT] [--only PATTERN ...]
    python measure.py report --output DIR

`bisect` looks for the wrong part of every model that has a wrong record, and writes bisected.jsonl and the parts.
Models, engines and the run directories of wrong ones go to the work folder, records.jsonl to the output. A record is
written as soon as it is there, and a job with a verdict is not done again, so a run that was cut off can be repeated.
Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # tests
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # everything.py
sys.path.insert(0, str(Path(__file__).resolve().parent))  # zoo

from everything import multi_process_service
from zoo.jobs import NOT_RUN, TENSORRT, Job, serve
from zoo.pool import Worker, shares, work_through
from zoo.table import Entry, entries

_TO_VERIFY_S = 240.0  # before the bisection of a model
_ON_A_GPU = (TENSORRT, "ort-cuda", "ort-trt", "torch-compile")


def main() -> int:
    """Run one command and return its exit code: 1 if something is left."""
    options = _parser().parse_args()
    if options.command == "worker":
        serve(options.work, options.bisect_s)
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
    options.output.mkdir(parents=True, exist_ok=True)
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    return int((_bisect(options) if options.command == "bisect" else _run(options)) > 0)


def _run(options: argparse.Namespace) -> int:
    """Verify what has no record yet and return how much is left."""
    from trt_workbench.core.documents import write_json
    from trt_workbench.core.environment import collect_environment
    from trt_workbench.core.files import anything

    write_json(options.output / "env.json", collect_environment(sys.argv), over=anything)
    level = options.level if options.backend == TENSORRT else 0
    jobs = [
        Job(entry.name, options.backend, precision, level, options.batch)
        for precision in options.precisions
        for entry in _chosen(options.only)
    ]
    number, count = (int(part) for part in options.shard.split("/"))
    return _work(options, jobs[number::count], options.output / "records.jsonl", options.limit_s)


def _bisect(options: argparse.Namespace) -> int:
    """Bisect what is wrong and return how much is left."""
    chosen = {entry.name for entry in _chosen(options.only)}
    wrong = [one for one in read_records(options.output / "records.jsonl") if one["verdict"] == "wrong"]
    jobs = list(dict.fromkeys(_job(one) for one in wrong if one["model"] in chosen))
    words = ["--bisect-s", str(options.each_s)]
    left = _work(options, jobs, options.output / "bisected.jsonl", 2 * options.each_s + _TO_VERIFY_S, words)
    for job in jobs:
        found = options.work / "wrong" / job.label / "bisect"
        if found.is_dir():
            shutil.copytree(found, options.output / "bisected" / job.label, dirs_exist_ok=True)
    return left


def _work(
    options: argparse.Namespace, jobs: list[Job], records: Path, limit_s: float, words: Sequence[str] = ()
) -> int:
    """Do the jobs that have no verdict, those that could not be run before last, and return how many are left."""
    earlier = {_job(record): record["verdict"] for record in read_records(records)}
    jobs = sorted((job for job in jobs if earlier.get(job, NOT_RUN) == NOT_RUN), key=lambda job: job in earlier)
    started, counts = time.monotonic(), Counter[str]()

    def record(found: dict[str, Any]) -> None:
        with records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        counts[found["verdict"]] += 1
        say(f"{time.monotonic() - started:5.0f} s {_told(found)}")

    on_gpu = any(job.backend in _ON_A_GPU for job in jobs)
    shared = on_gpu and options.jobs > 1 and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    service = multi_process_service(options.work / "mps") if shared else contextlib.nullcontext({})
    with service as environment:
        workers = [
            Worker(options.work, processors, environment, options.work / f"worker-{place}.log", words)
            for place, processors in enumerate(shares(options.jobs))
        ]
        left = work_through(jobs, workers, record, seconds=options.seconds, limit_s=limit_s)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    say(f"{len(jobs) - left} of {len(jobs)} jobs in {time.monotonic() - started:.0f} s: {counted or 'nothing'}")
    return left


def _told(found: dict[str, Any]) -> str:
    """Say in a line what was found."""
    seconds = " ".join(f"{name} {found[name]}" for name in ("write_s", "open_s", "verify_s") if name in found)
    first = " ".join((found.get("failures") or [found.get("reason", "")])[0].split())[:300]
    part = found.get("bisect")
    nodes = " ".join(f"{one['operator']}:{one['name']}" for one in part["nodes"]) if part and "nodes" in part else ""
    bisected = f"; bisected to: {nodes or part['reason']}" if part else ""
    return f"{_job(found).label}: {found['verdict']}; {seconds} {first}{bisected}"


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
    bisected = commands.add_parser("bisect", help="find the wrong part of wrong models")
    for command in (run, listed, bisected):
        command.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="only these models or groups")
    for command in (run, bisected):
        command.add_argument("--work", type=Path, required=True, help="folder of models and engines")
        command.add_argument("--output", type=Path, required=True, help="folder of the records")
        command.add_argument("--jobs", type=int, default=1, help="processes")
        command.add_argument("--seconds", type=float, default=3600.0, help="start nothing after this many seconds")
    bisected.add_argument("--each-s", type=float, default=120.0, help="seconds for the search in one model")
    run.add_argument("--backend", default=TENSORRT)
    run.add_argument("--precisions", nargs="+", default=["fp32", "fp16"])
    run.add_argument("--limit-s", type=float, default=240.0, help="time limit of one model, seconds")
    run.add_argument("--shard", default="0/1", metavar="I/N", help="every Nth job, from the Ith on (from 0)")
    run.add_argument("--level", type=int, default=0, help="TensorRT's optimisation level")
    run.add_argument("--batch", type=int, default=0, help="fix the batch in the graph; it is free by default")
    report = commands.add_parser("report", help="write README.md from the records")
    report.add_argument("--output", type=Path, required=True)
    worker = commands.add_parser("worker", help="answer jobs on standard input (used by run)")
    worker.add_argument("--work", type=Path, required=True)
    worker.add_argument("--bisect-s", type=float, default=0.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
