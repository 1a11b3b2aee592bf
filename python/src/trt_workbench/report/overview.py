"""One page over several run directories: what was measured, what it scored, and where each report is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trt_workbench.engine.files import write_text
from trt_workbench.onnxtools.precision import told
from trt_workbench.report.bench_view import Table, Winner, tables, winners
from trt_workbench.report.bench_words import problems, unstable
from trt_workbench.report.page import render
from trt_workbench.report.rewrite import command_of
from trt_workbench.report.verified import evidence_from
from trt_workbench.runs.artefacts import foreign_files, read_bench_run, read_json_object

# Figures of accuracy by command: key in metrics.json and heading.
ACCURACY = {
    "eval-coco": ("AP", "AP50", "images_per_s"),
    "eval-llm": ("perplexity", "relative_difference", "top1_agreement"),
}


@dataclass
class Overview:
    """What the runs hold: accuracy figures, tables of speed, and what went wrong."""

    accuracy: list[dict[str, Any]] = field(default_factory=list)
    speed: list[Table] = field(default_factory=list)
    winners: list[Winner] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    unstable: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)


def write_overview(directories: list[Path], output: Path) -> Path:
    """Write `overview.html` and `overview.md` into `output`.

    Args:
        directories: run directories of bench, eval-coco, eval-llm, profile and verify, in any number and mixture.
        output: folder, made if absent.

    Returns:
        The path of overview.html.

    Raises:
        UsageProblem: a run directory is incomplete or damaged.
        OSError: the folder cannot be written.
    """
    overview = _collect(directories, output)
    for name in ("overview.md", "overview.html"):
        write_text(output / name, render(f"{name}.j2", overview=overview, evidence=evidence_from(output)))
    return output / "overview.html"


def _collect(directories: list[Path], output: Path) -> Overview:
    overview = Overview()
    commands = [command_of(directory) for directory in directories]
    several = commands.count("bench") > 1
    for directory, command in zip(directories, commands, strict=True):
        with foreign_files(directory):
            _add(overview, directory, command, output, several=several)
    return overview


def _add(overview: Overview, directory: Path, command: str, output: Path, *, several: bool) -> None:
    run = read_json_object(directory / "run.json")
    environment = read_json_object(directory / "env.json")
    gpus = [gpu["name"] for gpu in environment.get("driver", {}).get("gpus", [])]
    overview.runs.append(
        {
            "command": command,
            "run_id": run.get("run_id"),
            "status": run.get("status"),
            "machine": ", ".join(gpus) or environment.get("cpu", {}).get("model"),
            "report": os.path.relpath(directory / "report.html", output),
        }
    )
    if command == "bench":
        bench = read_bench_run(directory)
        measured = [_of_run(table, directory) if several else table for table in tables(bench)]
        overview.speed += measured
        overview.winners += winners(measured)
        overview.problems += problems(bench.records)
        overview.unstable += unstable(bench.records)
    elif command in ACCURACY:
        metrics = read_json_object(directory / "metrics.json")
        overview.accuracy += _accuracy(command, metrics)
        overview.problems += _not_timed(metrics)
    elif command == "verify" and run.get("verdict") == "wrong":
        overview.problems.append(_wrong(read_json_object(directory / "verify.json")))


def _of_run(table: Table, directory: Path) -> Table:
    """Name the run in a table: another may hold the same work, measured elsewhere."""
    name = directory.absolute().name
    return replace(table, scenario=f"{name}: {table.scenario}", sentence=f"{name}: {table.sentence}")


def _not_timed(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what eval-llm could not time, in the form of the problems of a bench."""
    return [
        {
            "runtime": f"{row['backend']}:{row['precision']}",
            "works": [f"{row['mode']} b{row['batch']} prompt {size}" for size in row["missing_prompts"]],
            "status": "failed",
            "error": row["error"],
            "count": None,
        }
        for row in metrics.get("timing_failures", [])
    ]


def _wrong(document: dict[str, Any]) -> dict[str, Any]:
    """Return what verify found to be wrong, in the form of the problems of a bench."""
    works = [case["label"] for case in document["cases"] if case["verdict"] == "wrong"]
    runtime = f"{document['backend']}:{document['precision']}, {Path(document['target']).name}"
    first = document["failures"][0]
    return {"runtime": runtime, "works": works, "status": "wrong", "error": first, "count": None}


def _mark(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the mark of an engine; eval-llm keeps one for each engine of a backend."""
    found = row.get("verification")
    return next(iter(found), None) if isinstance(found, list) else found


def _accuracy(command: str, metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row a backend: eval-llm scores several in one run."""
    model = metrics.get("model", {})
    name = Path(str(model.get("path", model) if isinstance(model, dict) else model)).name
    settings = {"precision": told(metrics) or metrics.get("settings", {}).get("precision")}
    scored = metrics.get("backends") if command == "eval-llm" else [{**settings, **metrics}]
    return [
        {
            "command": command,
            "model": name,
            "backend": one.get("backend"),
            "precision": told(one) or one.get("precision"),
            "verification": _mark(one),
            "figures": {figure: one[figure] for figure in ACCURACY[command] if one.get(figure) is not None},
        }
        for one in scored or []
    ]
