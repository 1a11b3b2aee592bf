"""Measures the TensorRT core on a GPU beside trtexec, and writes the report from the records.

    python measure.py build     --plans DIR --models DIR [DIR ...] --output DIR [--budget-s N]
    python measure.py pairs     --plans DIR --trtexec FILE --output DIR [--pairs N] [--case NAME ...]
    python measure.py contexts  --plans DIR --output DIR [--rounds N]
    python measure.py latency|slots|images|soak|threads --plans DIR --output DIR
    python measure.py sanitizer --plans DIR --output DIR [--compute-sanitizer FILE] [--trtexec FILE]
    python measure.py accuracy  --plans DIR --models DIR [DIR ...] --coco DIR --output DIR
    python measure.py report    --output DIR

Every command stops when its budget is spent, and goes on where it stopped when it is run again. Exit code 1: not all
of it is done.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measuring.cases import ENGINES, PAIRS
from measuring.records import Budget, Recorder, say


def main() -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args()
    if options.command == "exercise":
        from measuring.sanitizer import exercise

        exercise(options.plans)
        return 0
    if options.command == "report":
        from measuring.summary import write_report

        say(f"Report: {write_report(options.output, options.output)}")
        return 0
    missing = _measure(options, Recorder(options.output, options.command), Budget(options.budget_s))
    say(f"{options.command}: {'done' if not missing else f'{missing} missing'}")
    return int(missing > 0)


def _measure(options: argparse.Namespace, recorder: Recorder, budget: Budget) -> int:
    from measuring import accuracy, calls, contexts, endurance, engines, images, pairs, sanitizer

    o = options
    commands = {
        "build": lambda: engines.build_all(recorder, o.plans, o.models, o.engine or list(ENGINES), budget),
        "pairs": lambda: pairs.run_pairs(
            recorder, o.plans, o.trtexec, o.case or list(PAIRS), o.pairs, o.duration_s, budget
        ),
        "contexts": lambda: contexts.run_contexts(recorder, o.plans, o.rounds, budget),
        "latency": lambda: calls.run_latency(recorder, o.plans, o.rounds, o.duration_s, budget),
        "slots": lambda: calls.run_slots(recorder, o.plans, o.rounds, o.duration_s, budget),
        "accuracy": lambda: accuracy.run_accuracy(recorder, o.plans, o.models, o.coco, budget),
        "images": lambda: images.run_images(recorder, o.plans, o.rounds, budget),
        "soak": lambda: endurance.run_soak(recorder, o.plans, o.runs, budget),
        "sanitizer": lambda: sanitizer.run_sanitizer(recorder, o.plans, o.compute_sanitizer, o.trtexec, budget),
        "threads": lambda: endurance.run_threads(recorder, o.plans, o.threads, o.calls),
    }
    return commands[o.command]()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text)
        sub.add_argument("--output", type=Path, required=True, help="folder of the records")
        sub.add_argument("--plans", type=Path, required=True, help="folder with plans/")
        sub.add_argument("--budget-s", type=float, default=540.0, help="wall-clock seconds to stay within")
        return sub

    build = command("build", "build the engines")
    build.add_argument("--models", type=Path, nargs="+", required=True, help="folders with the ONNX files")
    build.add_argument("--engine", nargs="*", choices=list(ENGINES), help="only these")
    pairs = command("pairs", "trtexec and the workbench by turns")
    pairs.add_argument("--trtexec", type=Path, required=True)
    pairs.add_argument("--pairs", type=int, default=5)
    pairs.add_argument("--case", nargs="*", choices=list(PAIRS), help="only these")
    pairs.add_argument("--duration-s", type=float, default=3.0)
    command("contexts", "an engine's speed after other work of the process").add_argument(
        "--rounds", type=int, default=3
    )
    for name, text, duration in (
        ("latency", "numpy to numpy through Python, compared with the C++ loop", 1.0),
        ("slots", "throughput with several calls in flight", 2.0),
    ):
        sub = command(name, text)
        sub.add_argument("--rounds", type=int, default=5 if name == "latency" else 3)
        sub.add_argument("--duration-s", type=float, default=duration)
    command("images", "host image to boxes, both ways").add_argument("--rounds", type=int, default=5)
    accuracy = command("accuracy", "eval-coco on TensorRT and on the processor")
    accuracy.add_argument("--models", type=Path, nargs="+", required=True)
    accuracy.add_argument("--coco", type=Path, required=True, help="folder with val2017/ and annotations/")
    command("soak", "many runs with changing shapes").add_argument("--runs", type=int, default=10_000)
    threads = command("threads", "threads that share a runner")
    threads.add_argument("--threads", type=int, default=8)
    threads.add_argument("--calls", type=int, default=500)
    checker = command("sanitizer", "compute-sanitizer's memory checker over short runs")
    checker.add_argument("--trtexec", type=Path, help="run it under the checker, too")
    checker.add_argument("--compute-sanitizer", default="compute-sanitizer", help="the program")
    exercise = commands.add_parser("exercise", help="the short run of the memory checker (used by sanitizer)")
    exercise.add_argument("--plans", type=Path, required=True)
    report = commands.add_parser("report", help="write README.md from the records")
    report.add_argument("--output", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
