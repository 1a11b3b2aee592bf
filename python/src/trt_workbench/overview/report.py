"""One page over several run directories: what was measured, what it scored, and where each report is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trt_workbench.bench import (
    PROBLEMS,
    UNSTABLE,
    WINNERS,
    Winner,
    WorkTable,
    latency,
    leaders,
    problems,
    tables,
    unstable,
    verified,
    winners,
)
from trt_workbench.core.artefacts import command_of, foreign_files, read_bench_run, read_environment, run_document
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, foreign, refuse_foreign, write_text
from trt_workbench.core.percent import change, share
from trt_workbench.core.verification import Mark
from trt_workbench.decide import Decision
from trt_workbench.llm import LlmMetrics
from trt_workbench.model.precision import precision_label
from trt_workbench.overview.runs import RunAnswer, run_answer, run_tables
from trt_workbench.quantize import ScoreMetrics
from trt_workbench.report.page import evidence_from, is_our_page, render
from trt_workbench.report.tables import Cell, Column, Table
from trt_workbench.report.verdict import tone
from trt_workbench.verify import VerifyFindings
from trt_workbench.vision import CocoMetrics, task_in

# How the figures of an evaluation are shown, where not as their name and four digits.
_FIGURES: dict[str, Callable[[float], str]] = {
    "images_per_s": "{:.1f} images/s".format,
    "perplexity": "perplexity {:.4f}".format,
    "relative_difference": lambda value: f"change {change(value)}",
    "top1_agreement": lambda value: f"top-1 agreement {share(value, 2)}",
}
# With more workloads than this, who is fastest how often stands for the sentence of each.
_MOST_SENTENCES = 3


@dataclass
class Overview:
    """What the runs hold: the answer, accuracy figures, tables of speed, and what went wrong."""

    said: list[str] = field(default_factory=list)
    accuracy: list[dict[str, Any]] = field(default_factory=list)
    speed: list[WorkTable] = field(default_factory=list)
    winners: list[Winner] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    unstable: list[dict[str, Any]] = field(default_factory=list)
    runs: list[RunAnswer] = field(default_factory=list)

    @property
    def verdict(self) -> str | None:
        """The worst outcome of a run; None where every run passed or judges nothing."""
        outcomes = [run.outcome for run in self.runs]
        return next((one for bad in ("bad", "doubt") for one in outcomes if tone(one) == bad), None)


def check_folder(output: Path) -> None:
    """Check where overviews are to be written, before the work begins.

    Raises:
        UsageProblem: it is no folder or a run directory, whose files would be replaced, or a file that we did not write
            has the name of one of ours.
    """
    if output.exists() and not output.is_dir():
        raise UsageProblem(f"The output is a file; name a folder: {output}")
    if os.path.lexists(output / "run.json"):
        raise UsageProblem(
            f"The output is a run directory, whose files would be overwritten; name another folder: {output}"
        )
    for name in ("overview.html", "overview.md", "decision.html"):
        refuse_foreign(output / name, is_our_page)
    refuse_foreign(output / "decision.json", lambda file: read_document(file, Decision))
    if os.path.lexists(output / "plots") and not is_our_page(output / "overview.html"):
        raise foreign(output / "plots")


def write_overview(directories: list[Path], output: Path) -> Path:
    """Write `overview.html` and `overview.md` into `output`.

    Args:
        directories: run directories of any commands that write a report.
        output: folder, made if absent.

    Returns:
        The path of overview.html.

    Raises:
        UsageProblem: a run directory is incomplete or damaged.
        OSError: the folder cannot be written.
    """
    overview, evidence = _collect(directories), evidence_from(output)
    for ending in ("md", "html"):
        page = render(
            f"overview/report.{ending}.j2",
            overview=overview,
            tables=_shown(overview, evidence),
            folder=output,
            runs=run_tables(overview.runs, output),
        )
        write_text(output / f"overview.{ending}", page, over=anything)
    return output / "overview.html"


def _shown(overview: Overview, evidence: Callable[[Mark | None], Cell]) -> list[Table]:
    """Return the tables of the page, in its order."""
    accuracy = [
        Column("model", "model"),
        Column("runtime", "backend"),
        Column("precision", "precision"),
        *verified(evidence, "verification"),
        Column("metrics", lambda row: ", ".join(row["figures"])),
    ]
    rows = [(work, row) for work in overview.speed for row in work.rows]
    speed = [
        Column("workload", lambda pair: f"{pair[0].scenario}: {pair[0].work}"),
        Column("runtime", "1.standing.runtime"),
        Column("precision", "1.precision"),
        *verified(evidence, "1.verification"),
        Column(
            "rank",
            "1.standing.rank",
            0,
            marks=lambda pair: (
                [Cell("unstable", verdict="unstable", title="; ".join(pair[1].standing.reasons))]
                * pair[1].standing.all_unstable
            ),
        ),
        Column("latency", lambda pair: latency(pair[1].standing.latency_ms), 3, unit="ms", better="lower"),
        Column("items/s", "1.standing.items_per_s", 1, better="higher"),
    ]
    return [
        Table(accuracy, overview.accuracy, "Accuracy"),
        Table(WINNERS, overview.winners, "Speed: which wins where"),
        Table(speed, rows, "Speed: all runtimes"),
        Table(PROBLEMS, overview.problems, "Failed, not available"),
        Table(UNSTABLE, overview.unstable, "Unstable"),
    ]


def _collect(directories: list[Path]) -> Overview:
    overview = Overview()
    commands = [command_of(directory) for directory in directories]
    several = commands.count("bench") > 1
    for directory, command in zip(directories, commands, strict=True):
        with foreign_files(directory):
            _add(overview, directory, command, several=several)
    overview.said = _said(overview)
    return overview


def _said(overview: Overview) -> list[str]:
    """Say what is wrong, who is fastest, and what was scored; nothing where no run has any of these."""
    names = Counter(run.command for run in overview.runs)
    bad = [
        f"{run.command}{f' {run.run_id}' if names[run.command] > 1 else ''}: {run.outcome}"
        for run in overview.runs
        if tone(run.outcome) == "bad"
    ]
    sentences = [f"{len(bad)} of {counted(len(overview.runs), 'run')} did not pass: {', '.join(bad)}."] if bad else []
    wrong = [row["runtime"] for row in overview.problems if row["status"] == "wrong"]
    sentences += [f"Wrong answers: {', '.join(dict.fromkeys(wrong))}."] if wrong else []
    if len(overview.speed) > _MOST_SENTENCES:
        sentences += leaders(overview.speed)
    else:
        sentences += [table.sentence for table in overview.speed]
    scored = [row for row in overview.accuracy if row["scored"] is not None]
    by_figure = grouped(scored, lambda row: (row["model"], row["figures"][0].rpartition(" ")[0]))
    for (model, _), rows in by_figure.items():
        mine = sorted(rows, key=lambda row: row["scored"])
        low, high = mine[0], mine[-1]
        figure = low["figures"][0]
        if len(mine) == 1:
            sentences.append(f"{model} on {' in '.join(filter(None, (low['backend'], low['precision'])))}: {figure}.")
        else:
            to = high["figures"][0].split()[-1]
            sentences.append(f"{model}: {figure} to {to} over {counted(len(mine), 'row')}.")
    return sentences


def _add(overview: Overview, directory: Path, command: str, *, several: bool) -> None:
    overview.runs.append(run_answer(directory, run_document(directory), read_environment(directory)))
    if command == "bench":
        bench = read_bench_run(directory)
        measured = [_of_run(table, directory) if several else table for table in tables(bench)]
        overview.speed += measured
        overview.winners += winners(measured)
        overview.problems += problems(bench.records)
        overview.unstable += unstable(bench.records)
    elif command == "eval-coco":
        overview.accuracy.append(_coco(read_document(directory / "metrics.json", CocoMetrics)))
    elif command == "eval-vision":
        overview.accuracy.append(_own(read_document(directory / "metrics.json", ScoreMetrics)))
    elif command == "eval-llm":
        metrics = read_document(directory / "metrics.json", LlmMetrics)
        overview.accuracy += _llm(metrics)
        overview.problems += _not_generated(metrics)
    elif command == "verify":
        found = read_document(directory / "verify.json", VerifyFindings)
        overview.problems += [_wrong(found)] if found["verdict"] == "wrong" else []


def _of_run(table: WorkTable, directory: Path) -> WorkTable:
    """Name the run in a table: another may hold the same work, measured elsewhere."""
    name = directory.absolute().name
    return replace(table, scenario=f"{name}: {table.scenario}", sentence=f"{name}: {table.sentence}")


def _not_generated(metrics: LlmMetrics) -> list[dict[str, Any]]:
    """Return what eval-llm found wrong or could not have, in the form of the problems of a bench."""
    return [
        {
            "runtime": f"{row['backend']}:{row['precision']}",
            "works": [f"{row['mode']} b{row['batch']} prompt {row['prompt_tokens']}"],
            "status": "wrong" if row["agreement"] else "failed",
            "error": row["failure"],
            "count": None,
        }
        for row in metrics.get("generation", ())
        if row["failure"]
    ]


def _wrong(document: VerifyFindings) -> dict[str, Any]:
    """Return what verify found to be wrong, in the form of the problems of a bench."""
    works = [case["label"] for case in document["cases"] if case["verdict"] == "wrong"]
    runtime = f"{document['backend']}:{document['precision']}, {Path(document['target']).name}"
    return {"runtime": runtime, "works": works, "status": "wrong", "error": document["failures"][0], "count": None}


def _coco(metrics: CocoMetrics) -> dict[str, Any]:
    precision = precision_label(metrics) or metrics["settings"].get("precision")
    return _scored(
        metrics, metrics["model"], precision, metrics.get("verification"), (*task_in(metrics).shown, "images_per_s")
    )


def _own(found: ScoreMetrics) -> dict[str, Any]:
    return {
        "model": Path(found.model).name,
        "backend": found.backend,
        "precision": precision_label(found.provenance) or found.settings["precision"],
        "verification": found.verification,
        "scored": found.score.value,
        "figures": [f"{name} {value}" for name, value, _ in found.rows],
    }


def _llm(metrics: LlmMetrics) -> list[dict[str, Any]]:
    """Return one row a backend, with the mark of its first engine."""
    figures = ("perplexity", "relative_difference", "top1_agreement")
    return [
        _scored(
            row,
            metrics["model"],
            precision_label(row) or row["precision"],
            next(iter(row.get("verification", [])), None),
            figures,
        )
        for row in metrics["backends"]
    ]


def _scored(
    row: Mapping[str, Any], model: Mapping[str, Any], precision: str | None, mark: Mark | None, figures: Sequence[str]
) -> dict[str, Any]:
    return {
        "model": Path(model["path"]).name,
        "backend": row["backend"],
        "precision": precision,
        "verification": mark,
        "scored": row[figures[0]],
        "figures": [
            _FIGURES.get(name, f"{name} {{:.4f}}".format)(row[name]) for name in figures if row[name] is not None
        ],
    }
