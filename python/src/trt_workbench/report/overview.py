"""One page over several run directories: what was measured, what it scored, and where each report is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.bench.artefacts import read_bench_run, read_json_object
from trt_workbench.engine.files import write_text
from trt_workbench.report.bench_view import Table, problems, tables, unstable
from trt_workbench.report.page import render
from trt_workbench.report.rewrite import command_of

# Figures of accuracy by command: key in metrics.json and heading.
ACCURACY = {"eval-coco": ("AP", "AP50", "images_per_s"), "eval-llm": ("perplexity", "tokens")}


@dataclass
class Overview:
    """What the runs hold: accuracy figures, tables of speed, and what went wrong."""

    accuracy: list[dict[str, Any]] = field(default_factory=list)
    speed: list[Table] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    unstable: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)


def write_overview(directories: list[Path], output: Path) -> Path:
    """Write `overview.html` and `overview.md` into `output`.

    Args:
        directories: run directories of bench, eval-coco and eval-llm, in any number and mixture.
        output: folder, made if absent.

    Returns:
        The path of overview.html.

    Raises:
        UsageProblem: a run directory is incomplete or damaged.
        OSError: the folder cannot be written.
    """
    overview = _collect(directories, output)
    for name in ("overview.md", "overview.html"):
        write_text(output / name, render(f"{name}.j2", overview=overview))
    return output / "overview.html"


def _collect(directories: list[Path], output: Path) -> Overview:
    overview = Overview()
    for directory in directories:
        command = command_of(directory)
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
            overview.speed += tables(bench)
            overview.problems += problems(bench.records)
            overview.unstable += unstable(bench.records)
        elif command in ACCURACY:
            overview.accuracy.append(_accuracy(command, read_json_object(directory / "metrics.json")))
    return overview


def _accuracy(command: str, metrics: dict[str, Any]) -> dict[str, Any]:
    model = metrics.get("model", {})
    figures = {name: metrics[name] for name in ACCURACY.get(command, ()) if metrics.get(name) is not None}
    return {
        "command": command,
        "model": Path(str(model.get("path", model) if isinstance(model, dict) else model)).name,
        "backend": metrics.get("backend", metrics.get("reference")),
        "precision": metrics.get("settings", {}).get("precision"),
        "figures": figures,
    }
