"""The report of a bench run, made only from the files of its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trt_workbench.bench.plots import write_plots
from trt_workbench.bench.view import COSTS, PROBLEMS, UNSTABLE, WINNERS, WorkTable, standings, tables, winners
from trt_workbench.bench.words import executed, leaders, machine, overall, problems, reach, summary, unstable
from trt_workbench.core.artefacts import BenchArtefacts, read_bench_run
from trt_workbench.core.builds import builds_of
from trt_workbench.report.conditions import measuring_conditions
from trt_workbench.report.page import evidence_from
from trt_workbench.report.style import plots_folder
from trt_workbench.report.tables import Table
from trt_workbench.report.verdict import Headline
from trt_workbench.verify import let_through

# With more works than this, the table of winners replaces the sentence of each.
_MOST_SENTENCES = 6


class BenchTables(NamedTuple):
    """A run and the tables of its records."""

    run: BenchArtefacts
    tables: list[WorkTable]


def read(directory: Path) -> BenchTables:
    """Return what a run measured. Raises UsageProblem as `read_bench_run`."""
    run = read_bench_run(directory)
    return BenchTables(run, tables(run))


def answer(found: BenchTables) -> Headline:
    """Return what the page of a run says first."""
    run, made = found
    said = (summary if len(made) <= _MOST_SENTENCES else overall)(run, made)
    shaky = any(row.standing.all_unstable for one in made for row in one.rows)
    good = "unstable" if shaky else "partial" if run.run.status == "partial" else "stable"
    worst = reach(run).word(good, "wrong" if any(one.status == "wrong" for one in run.records) else "failed")
    doubted = let_through(record.verification for record in run.records)
    if worst not in ("wrong", "failed") and not doubted:  # who is fastest where that is known is the answer
        said = sorted(said, key=lambda sentence: sentence not in leaders(made))
    return Headline(said, worst)


def view(found: BenchTables, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides, and draw its `plots/`."""
    run, made = found
    plots, evidence = write_plots(made, plots_folder(directory)), evidence_from(directory)
    return {
        "title": run.config.title,
        "run": run.run,
        "machine": machine(run.environment),
        "winners": Table(WINNERS, winners(made), "Lowest latency by workload"),
        "works": [(one, standings(one, evidence), Table(COSTS, one.rows)) for one in made],
        "builds": builds_of(directory),
        "problems": Table(PROBLEMS, problems(run.records), "Not ranked"),
        "unstable": Table(UNSTABLE, unstable(run.records), "Unstable repetitions"),
        "executed": executed(run.records),
        "conditions": measuring_conditions(run.environment),
        "configuration": yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False),
        "plots": plots,
        "plot_files": {title: str(path.relative_to(directory)) for title, path in plots.items()},
    }
