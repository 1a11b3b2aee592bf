"""`python -m tests.mutation [NAME…]`: mutate the modules of `targets.py` and write which changes no test notices."""

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

# before any library is loaded: a process that forks should have one thread
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from tests.mutation.mutants import mutants
from tests.mutation.runner import ROOT, outcomes, preload
from tests.mutation.targets import TARGETS, Target

LEAST = 0.85
"""Share of a module's mutants, without the equivalent ones, that its tests have to notice."""


def measure(target: Target, sample: int, seed: int, processes: int, logs: Path) -> dict[str, Any]:
    """Run the mutants of one target and return the counts, and every survivor.

    Raises:
        SystemExit: the tests fail without a change, or an equivalent mutant is named that there is none of.
    """
    path = ROOT / target.path
    source = path.read_text(encoding="utf-8")
    name = target.path.removeprefix("python/src/").removeprefix("tasks/").removesuffix(".py").replace("/", ".")
    found = mutants(source, target.parts, seed)
    if unknown := target.equivalent.keys() - {one.change for one in found}:
        sys.exit(f"{target.path} has no such mutant: {'; '.join(sorted(unknown))}")
    told = [one for one in found if one.change not in target.equivalent]
    chosen = random.Random(seed).sample(told, sample) if 0 < sample < len(told) else told
    ((_, code, took),) = outcomes(name, path, [source], target.tests, 1, 600, logs)
    if code:
        sys.exit(f"the tests of {target.path} fail without a change (exit code {code}): {logs / '0.log'}")
    sources = [one.source for one in chosen]
    alive = [
        chosen[place]
        for place, code, _ in outcomes(name, path, sources, target.tests, processes, 10 + 5 * took, logs)
        if code == 0
    ]
    return {
        "mutants": len(found),
        "equivalent": len(found) - len(told),
        "run": len(chosen),
        "killed": len(chosen) - len(alive),
        "survivors": [
            {"line": one.line, "change": one.change} for one in sorted(alive, key=lambda one: (one.line, one.change))
        ],
    }


def main() -> int:
    """Measure, print a table, and write `summary.json`."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of a target: {', '.join(TARGETS)}")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="draw N mutants of each; 0: all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=ROOT / "tmp" / "mutation")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in TARGETS]:
        parser.error(f"there is no target {unknown[0]!r}; there are: {', '.join(TARGETS)}")
    os.chdir(ROOT)
    preload()
    results: dict[str, dict[str, Any]] = {}
    sys.stdout.write("| target | mutants | equivalent | run | killed |\n| --- | ---: | ---: | ---: | ---: |\n")
    for name in asked.names or TARGETS:
        logs = asked.output / name.replace(" ", "-")
        logs.mkdir(parents=True, exist_ok=True)
        results[name] = one = measure(TARGETS[name], asked.sample, asked.seed, asked.processes, logs)
        share = one["killed"] / one["run"]
        figures = (one["mutants"], one["equivalent"], one["run"], f"{one['killed']} ({share:.0%})")
        sys.stdout.write(f"| {name} | {' | '.join(map(str, figures))} |\n")
        sys.stdout.flush()
        for survivor in one["survivors"]:
            sys.stderr.write(f"  {TARGETS[name].path}:{survivor['line']}: {survivor['change']}\n")
    summary = {"schema_version": 1, "seed": asked.seed, "targets": results}
    (asked.output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return int(any(one["killed"] < LEAST * one["run"] for one in results.values()))


if __name__ == "__main__":
    sys.exit(main())
