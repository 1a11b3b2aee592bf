"""`python -m tests.fuzz N --seed S`: run N mutated inputs and write what failed."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

# before any library is loaded: a process that forks should have one thread
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from tests.fuzz.cases import needs_torch
from tests.fuzz.runner import preload, run_case, write_json
from tests.fuzz.seeds import make_seeds
from tests.fuzz.servers import hostile_server


def fuzz(count: int, seed: int, first: int, limit_s: float, output: Path) -> int:
    """Run the inputs `first` to `first + count - 1`; return how many failed.

    `output` gets `summary.json`, and for every failure a folder with the input, `case.json` and what was said.
    """
    output.mkdir(parents=True, exist_ok=True)
    # not TemporaryDirectory: a forked process that ends in order would remove it
    place = Path(tempfile.mkdtemp(prefix="trtw-fuzz-"))
    try:
        preload(torch=False)
        make_seeds(place / "seeds")
        with hostile_server():
            summary = _all(count, seed, first, limit_s, place, output)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    write_json(output / "summary.json", summary)
    sys.stderr.write(
        f"{count} inputs, {summary['inputs_per_s']}/s, failed: {summary['failed']} {summary['problems']}\n"
    )
    return int(summary["failed"])


def _all(count: int, seed: int, first: int, limit_s: float, place: Path, output: Path) -> dict[str, Any]:
    codes: Counter[str] = Counter()
    signals = 0
    problems: Counter[str] = Counter()
    failed = []
    start = time.monotonic()
    # those that need PyTorch last, so that the others fork from a small process
    numbers = sorted(range(first, first + count), key=lambda number: needs_torch(seed, number))
    for number in numbers:
        if needs_torch(seed, number):
            preload(torch=True)
        case, record = run_case(seed, number, place / "seeds", place / "box", limit_s)
        codes[f"{case.words[0]} {record['code']}"] += 1
        signals += bool(record["signal"])
        if record["problems"]:
            failed.append(record)
            problems.update(problem.split(":")[0] for problem in record["problems"])
            kept = output / f"{seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place / "box", kept, symlinks=True, ignore=_special)
            write_json(kept / "case.json", record)
            sys.stderr.write(f"{number}: {record['problems']} {' '.join(case.words)[:200]!r} {case.done}\n")
    seconds = time.monotonic() - start
    return {
        "schema_version": 1,
        "seed": seed,
        "first": first,
        "inputs": count,
        "signals": signals,
        "failed": len(failed),
        "problems": dict(problems),
        "exit_codes": dict(sorted(codes.items())),
        "seconds": round(seconds, 1),
        "inputs_per_s": round(count / seconds, 2),
        "failures": failed,
    }


def _special(parent: str, names: list[str]) -> list[str]:
    """Return what is not kept: pipes would be waited for, devices have no end."""
    return [name for name in names if not Path(parent, name).is_symlink() and not _plain(Path(parent, name))]


def _plain(path: Path) -> bool:
    return path.is_dir() or path.is_file()


def main() -> None:
    """Parse the command line and run; the exit code is 1 if an input failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("count", type=int, help="inputs to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input; one input is made again so")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for one input")
    parser.add_argument("--output", type=Path, default=Path("tmp/fuzz"))
    given = parser.parse_args()
    sys.exit(1 if fuzz(given.count, given.seed, given.first, given.limit, given.output) else 0)


if __name__ == "__main__":
    main()
