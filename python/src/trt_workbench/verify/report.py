"""The report of a verify run, made only from the files of its run directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted
from trt_workbench.core.documents import read_document, reader
from trt_workbench.core.verification import UNVERIFIED, WRONG
from trt_workbench.model.precision import precision_label
from trt_workbench.report.verdict import Headline
from trt_workbench.verify.document import BisectFindings, CaseFindings, FixFindings, OutputFindings, VerifyFindings
from trt_workbench.verify.outcome import reach
from trt_workbench.verify.verdict import share_of_limit

# From the best to the worst: fill, ink and mark of a cell. Not everyone can distinguish the colours.
_COLOURS = {
    "right": ("#26804f", "#ffffff", "\N{CHECK MARK}"),
    "right within": ("#9fd3a8", "#1f2933", "\N{CHECK MARK}"),
    "consistent": ("#7fb2e5", "#1f2933", "="),
    "unverified": ("#d5dae0", "#1f2933", "\N{EN DASH}"),
    "undecided": ("#f0c36d", "#1f2933", "?"),
    "wrong": ("#c0392b", "#ffffff", "\N{MULTIPLICATION SIGN}"),
}
_ORDER = list(_COLOURS)
_SIDE, _LABEL_CHARACTER = 26, 7


read = reader("verify.json", VerifyFindings)


def answer(document: VerifyFindings) -> Headline:
    """Return what the page of a run says first."""
    said = [headline(document)]
    said += [f"Wrong {document['where']}."] if document["where"] else []
    said += map(sentence, document.get("remarks", ()))
    said += [document["shards"]["text"]] if "shards" in document else []
    return Headline(said, reach(document).word(document["verdict"], WRONG))


def view(document: VerifyFindings, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    fix, bisect = directory / "fix" / "fix.json", directory / "bisect" / "bisect.json"
    return {
        "document": document,
        "fix": read_document(fix, FixFindings) if fix.is_file() else None,
        "name": Path(document["target"]).name,
        "grid": grid(document["cases"]),
        "legend": _legend(document["cases"]),
        "properties": properties(document["cases"]),
        "worst": worst_differences(document),
        "unverified": [case for case in document["cases"] if case["verdict"] == "unverified"],
        "bisected": read_document(bisect, BisectFindings) if bisect.is_file() else None,
    }


def headline(document: Mapping[str, Any]) -> str:
    """Return the verdict of a verification in one line."""
    level = (document.get("reference_provenance") or {}).get("graph_optimization_level")
    rewrites = {None: "", "disable": " without rewrites"}.get(level, f" with rewrites ({level})")
    compared = f" compared with {document['reference']}{rewrites}"
    reference = compared if document["reference"] else ", only properties checked"
    if document.get("compared_with_itself"):
        reference += (
            ", the same file on the same runtime: this only shows that its calls agree (--reference names another "
            "runtime)"
        )
    count = sum(case["verdict"] == UNVERIFIED and not case.get("outside") for case in document["cases"])
    left = f" except at {counted(count, 'shape')}" if count else ""
    return (
        f"{Path(document['target']).name}: {document['verdict'].upper()}{left} on {document['backend']} "
        f"({_computed(document)}), {counted(document['cases_tried'], 'shape')}{reference}"
    )


def sentence(remark: str) -> str:
    """Return a remark of a document as a sentence."""
    return f"{remark[:1].upper()}{remark[1:]}."


def _computed(document: Mapping[str, Any]) -> str:
    """Say whose limits hold, and what the runtime computed in where that is more than this precision or another one."""
    precision: str = document["precision"]
    provenance = document["provenance"]
    ran, label = provenance.get("precision_ran") or {}, precision_label(provenance) or precision
    may_be = {*(ran.get("shares") or ()), *(ran.get("may_choose") or ())}
    if may_be == {precision} or label.split(" (")[0] == precision:
        return precision + (", simulated" if provenance.get("simulated") else "")
    return f"{precision}; " + ("what it computed in is unknown" if label == "unknown" else f"computed in {label}")


def grid(cases: list[CaseFindings]) -> dict[str, Any]:
    """Return the picture of outputs by shapes: sizes, labels, and cells with place, colour and what they say."""
    outputs = list(dict.fromkeys(row["output"] for case in cases for row in case["outputs"])) or ["all"]
    outputs = [name for name in outputs if name != "all"] or outputs
    left = 16 + _LABEL_CHARACTER * min(40, max(len(name) for name in outputs))
    top = 16 + round(0.75 * _LABEL_CHARACTER * max(len(case["label"]) for case in cases))
    cells = []
    for column, case in enumerate(cases):
        for row, output in enumerate(outputs):
            verdict, text = _cell(case, output)
            fill, ink, mark = _COLOURS[_kind(verdict)]
            place = {"x": left + column * _SIDE, "y": top + row * _SIDE}
            title = f"{output} at {case['label']}: {verdict}" + (f" ({text})" if text else "")
            cells.append({**place, "fill": fill, "ink": ink, "mark": mark, "title": title})
    return {
        "side": _SIDE,
        "width": left + len(cases) * _SIDE + top,
        "height": top + len(outputs) * _SIDE + 4,
        "columns": [
            {"x": left + i * _SIDE + _SIDE / 2, "y": top - 6, "label": c["label"]} for i, c in enumerate(cases)
        ],
        "rows": [
            {"x": left - 8, "y": top + (i + 0.65) * _SIDE, "label": o if len(o) <= 40 else f"…{o[-39:]}"}
            for i, o in enumerate(outputs)
        ],
        "cells": cells,
    }


def properties(cases: list[CaseFindings]) -> list[dict[str, Any]]:
    """Return for each property at how many shapes and outputs it was asked, held, and the first that broke it."""
    found: dict[str, dict[str, Any]] = {}
    for case, row in _rows(cases):
        for one in row["properties"]:
            entry = found.setdefault(one["property"], {"name": one["property"], "asked": 0, "held": 0, "broken": ""})
            entry["asked"] += 1
            entry["held"] += one["holds"]
            if not one["holds"] and not entry["broken"]:
                entry["broken"] = f"{case['label']}, {row['output']}: {one['detail']}"
    return list(found.values())


def worst_differences(document: VerifyFindings) -> list[dict[str, Any]]:
    """Return for each output the row with the largest difference in relation to its limit."""
    worst: dict[str, tuple[float, dict[str, Any]]] = {}
    for case, row in _rows(document["cases"]):
        limit, difference = (row.get("limits") or {}).get(document["precision"]), row.get("difference")
        if not limit or not difference:
            continue
        share = share_of_limit((difference[key], limit[key]) for key in ("rel_l2", "max_rel", "changed"))
        if row["output"] not in worst or share > worst[row["output"]][0]:
            worst[row["output"]] = (share, {**row, "label": case["label"], "limit": limit, "share": share})
    return [row for _, row in worst.values()]


def _rows(cases: list[CaseFindings]) -> Iterator[tuple[CaseFindings, OutputFindings]]:
    return ((case, row) for case in cases for row in case["outputs"])


def _cell(case: CaseFindings, output: str) -> tuple[str, str]:
    """Return the worst verdict of an output over the inputs of a case, and its reason; as `verify.verdict` counts."""
    rows = [row for row in case["outputs"] if row["output"] in (output, "all")]
    if not rows:
        return case["verdict"], case["reason"]
    decided = [row for row in rows if row["verdict"] != "undecided"]
    if any(row["inputs"] != "zeros" or row["verdict"] == "wrong" for row in decided):
        rows = decided
    row = max(rows, key=lambda one: _ORDER.index(_kind(one["verdict"])))
    return row["verdict"], row["reason"]


def _kind(verdict: str) -> str:
    return "right within" if verdict.startswith("right within") else verdict


def _legend(cases: list[CaseFindings]) -> list[dict[str, str]]:
    seen = {_kind(row["verdict"]) for _, row in _rows(cases)} | {_kind(case["verdict"]) for case in cases}
    return [
        {"name": name, "fill": fill, "ink": ink, "mark": mark}
        for name, (fill, ink, mark) in _COLOURS.items()
        if name in seen
    ]
