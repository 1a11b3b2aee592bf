"""The report of a bench run, made from the files of its run directory alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import yaml

from trt_workbench.bench.artefacts import read_bench_run
from trt_workbench.engine.files import write_text
from trt_workbench.report.bench_plots import write_plots
from trt_workbench.report.bench_view import overall, problems, tables, unstable, winners
from trt_workbench.report.page import image_url, render
from trt_workbench.system.conditions import measuring_conditions

TAILS = ("p90", "p95", "p99")


def write_report(directory: Path) -> Path:
    """Write `report.html`, `report.md` and `plots/` into a bench run directory. It can be called again at any time.

    Args:
        directory: holds run.json, env.json, config.json and records.jsonl.

    Returns:
        The path of report.html, one file that needs no other.

    Raises:
        UsageProblem: a file is missing, cut short or of another schema version.
    """
    run = read_bench_run(directory)
    made = tables(run)
    plots = write_plots(made, directory / "plots")
    values: dict[str, Any] = {
        "title": run.config["title"],
        "run": run.run,
        "summary": overall(run, made),
        "winners": winners(made),
        "tables": made,
        "tails": TAILS,
        "problems": problems(run.records),
        "unstable": unstable(run.records),
        "conditions": measuring_conditions(run.environment),
        "environment": run.environment,
        "environment_json": json.dumps(run.environment, indent=2),
        "configuration": yaml.safe_dump(run.config, sort_keys=False),
        "command": shlex.join(run.environment["command_line"]),
    }
    names = {title: str(path.relative_to(directory)) for title, path in plots.items()}
    write_text(directory / "report.md", render("bench.md.j2", **values, plots=names))
    urls = {title: image_url(path) for title, path in plots.items()}
    write_text(directory / "report.html", render("bench.html.j2", **values, plots=urls))
    return directory / "report.html"
