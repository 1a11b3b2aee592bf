"""The page that is made from the records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.jobs import NOT_RUN, TENSORRT
from zoo.table import GROUPS, entries

Record = Mapping[str, Any]


def write_report(folder: Path) -> Path:
    """Write README.md beside records.jsonl and return it."""
    records = latest(folder / "records.jsonl")
    envs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("env*.json"))]
    lines = ["# Verdicts of verify on a table of models", "", *_ran_on(records, envs), "", *_commands(envs), ""]
    for column in sorted({_column(record) for record in records}):
        of_column = [record for record in records if _column(record) == column]
        lines += [f"## {column}", "", *_counts(of_column), "", *_named(of_column), ""]
    lines += _undecided(records)
    lines += _wrong(records, {_key(one): one for one in latest(folder / "bisected.jsonl")})
    path = folder / "README.md"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return path


def latest(path: Path) -> list[Record]:
    """Return the last record of every job; empty without the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list({_key(record): record for record in map(json.loads, lines)}.values())


def _key(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("model", "backend", "precision", "level", "batch"))


def _ran_on(records: Iterable[Record], envs: Sequence[Mapping[str, Any]]) -> list[str]:
    gpus = sorted({gpu["name"] for env in envs for gpu in env["driver"]["gpus"]}) or ["no GPU"]
    packages = envs[0]["packages"]
    versions = {name: packages.get(name) for name in ("onnxruntime", "onnxruntime-gpu", "torch", "transformers")}
    versions["TensorRT"] = next((record["tensorrt"] for record in records if record.get("tensorrt")), None)
    stack = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return [
        "Made by `measure.py report` from `records.jsonl`; the machines are in `env*.json`.",
        f"{', '.join(gpus)}; {stack}; commit {', '.join(sorted({str(env['git']['commit'])[:8] for env in envs}))}.",
        "Weights are random, except the embedded models'; `measure.py list` says how an architecture was reduced.",
        "Batches 1, 2, 3 and 4, ends of every other free dimension, two sets of random inputs, all properties, against",
        "ONNX Runtime's CPU provider. TensorRT builds without cuBLAS, cuDNN and compiled convolutions, for the sake of",
        "the builds' time. A share is the largest relative L2 error over what the precision explains; above 1 an",
        "output is wrong, and only floats count. `right` alone is within what fp32 explains; where fp16",
        "was asked for, the engine then computed in fp32, as it may.",
    ]


def _commands(envs: Iterable[Mapping[str, Any]]) -> list[str]:
    script = "python tasks/benchmarks/verify/measure.py"
    return ["```", *sorted(f"{script} {' '.join(env['command_line'][1:])}" for env in envs), "```"]


def _column(record: Record) -> str:
    level = f", optimisation level {record['level']}" if record["backend"] == TENSORRT else ""
    fixed = f", the batch fixed to {record['batch']}" if record["batch"] else ", a free batch"
    return f"{record['backend']}{level}{fixed}"


def _counts(records: Sequence[Record]) -> list[str]:
    precisions = sorted({record["precision"] for record in records}, key=["fp32", "fp16"].index)
    lines = [f"| models | {' | '.join(precisions)} |", f"| --- | {' | '.join('---' for _ in precisions)} |"]
    for group, title in GROUPS.items():
        cells = []
        for precision in precisions:
            of_cell = [record for record in records if (record["group"], record["precision"]) == (group, precision)]
            counted = Counter(record["verdict"] for record in of_cell)
            cells.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(counted.items())) or "-")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    jobs = len(entries()) * len(precisions)
    return [*lines, "", f"{len(records)} of the {jobs} jobs of the table have a record."]


def _named(records: Sequence[Record]) -> list[str]:
    """Return a row for each model with a name of its own."""
    precisions = sorted({record["precision"] for record in records}, key=["fp32", "fp16"].index)
    found = {(record["model"], record["precision"]): record for record in records}
    lines = [
        f"| model | {' | '.join(f'{one} | share | open + verify, s' for one in precisions)} |",
        f"| --- | {' | '.join('--- | --: | --:' for _ in precisions)} |",
    ]
    for entry in entries():
        of_model = [found.get((entry.name, precision)) for precision in precisions]
        if entry.group != "generated" and any(of_model):
            lines.append(f"| {entry.name} | {' | '.join(map(_cell, of_model))} |")
    return lines


def _cell(record: Record | None) -> str:
    if record is None:
        return "- | - | -"
    worst = record.get("worst")
    share = f"{worst['rel_l2'] / worst['limit']:.2g}" if worst else "-"
    verdict = record["verdict"] if record["verdict"] != "wrong" else "**wrong**"
    seconds = f"{record['open_s']:.0f} + {record['verify_s']:.0f}" if "verify_s" in record else "-"
    return f"{verdict} | {share} | {seconds}"


def _undecided(records: Iterable[Record]) -> list[str]:
    """Return what verify could not decide: outputs that the rounding of the precision alone turns over."""
    rows = [record for record in records if record["verdict"] == "undecided"]
    lines = [
        "## Undecided",
        "",
        "Rounding alone exceeds the limit, in copies of the model that ONNX Runtime runs.",
        "",
    ]
    lines += ["| model | on | undecided, for each shape and inputs |", "| --- | --- | --- |"]
    for record in rows:
        on = f"{_column(record)}, {record['precision']}"
        lines.append(f"| {record['model']} | {on} | {record['undecided']} of {record['outputs']} outputs |")
    return [*lines, ""] if rows else []


def _wrong(records: Iterable[Record], bisected: Mapping[tuple[Any, ...], Record]) -> list[str]:
    """Return the first finding of every wrong one, and the reason of every one that could not be run."""
    rows = [record for record in records if record["verdict"] in ("wrong", NOT_RUN)]
    lines = ["## Wrong, and not run", "", "| model | on | verdict | first finding | form | bisected to |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for record in rows:
        text = record["failures"][0] if record["verdict"] == "wrong" else record["reason"]
        finding = " ".join(text.split())[:300].replace("|", "\\|")
        cells = [record["model"], f"{_column(record)}, {record['precision']}", record["verdict"], finding]
        cells += [" ".join(record.get("words", [])) or "-", _part(bisected.get(_key(record)))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines if rows else []


def _part(record: Record | None) -> str:
    """Return the operators of the wrong part, or why there is none."""
    if record is None:
        return "-"
    part = record.get("bisect")
    if part is None:
        return f"the verdict was {record['verdict']} this time"
    operators = ", ".join(one["operator"] for one in part.get("nodes", ()))
    return operators or part["reason"]
