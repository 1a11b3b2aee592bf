"""The report of a verify run, made only from the files of its run directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.documents import read_document, reader
from trt_workbench.core.percent import share
from trt_workbench.core.verification import UNVERIFIED, WRONG
from trt_workbench.model.precision import precision_label
from trt_workbench.report.tables import ROOMY, Column, Table, verdict
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
_FIGURES = ("rel_l2", "max_rel", "changed")


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
    part = read_document(bisect, BisectFindings) if bisect.is_file() else None
    findings = read_document(fix, FixFindings) if fix.is_file() else None
    return {
        "fix": findings,
        "name": Path(document["target"]).name,
        "grid": grid(document["cases"]),
        "legend": _legend(document["cases"]),
        "workarounds": Table(WORKAROUNDS, findings["tried"]) if findings else None,
        "properties": Table(PROPERTIES, properties(document["cases"])),
        "ways": Table(WAYS, document["ways"], "Other ways to run it"),
        "worst": Table(WORST, worst_differences(document)),
        "unverified": [case for case in document["cases"] if case["verdict"] == "unverified"],
        "bisected": part,
        "parts": Table(NODES, part["nodes"] if part else ()),
    }


WORKAROUNDS = (
    Column("workaround", "way", long=True),
    Column("verdict", verdict("verdict")),
    Column("latency", "latency_ms", 3, unit="ms", better="lower"),
    Column("relative to the wrong engine", "relative_latency", 2),
    Column("why not", lambda one: one["reason"] or None, places=ROOMY),
    Column("why not", lambda one: one["reason"].split("; ")[0], places=("terminal",), long=True),
)
NODES = (Column("node", "name"), Column("operator", "operator"))
PROPERTIES = (
    Column("property", "name"),
    Column("held", lambda one: f"{one['held']} of {one['asked']}"),
    Column("first violation", lambda one: one["broken"] or None),
)
WAYS = (
    Column("way", "way"),
    Column("shape", "case"),
    Column(
        "result",
        lambda one: (
            "\n".join(f"{each['output']}: {each['detail']}" for each in one["findings"] if not each["holds"])
            or one["reason"]
            or "the same"
        ),
    ),
)
WORST = (
    Column("output", "output"),
    Column("shape", "label"),
    Column("inputs", "inputs"),
    Column("relative L2", lambda row: _distance(row["difference"]["rel_l2"], "not finite"), 2),
    Column("limit", lambda row: _distance(row["limit"]["rel_l2"], "none"), 2),
    Column("largest element", lambda row: _distance(row["difference"]["max_rel"], "not finite"), 2),
    Column("limit", lambda row: _distance(row["limit"]["max_rel"], "none"), 2),
    Column("changed", "difference.changed", form="{:.2e}".format),
    Column("limit", "limit.changed", form="{:.2e}".format),
    Column("cosine", "difference.cosine", 6),
    Column("argmax the same", "difference.argmax_agreement", 4),
)


def _distance(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:.2e}"


def short(reasons: str) -> str:
    """Return the first of several reasons for a wrong output; the page has all."""
    first, *more = reasons.split("; ")
    return f"{first} (and {len(more)} more)" if more else first


def outputs(precision: str, rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Table:
    """Return outputs at shapes for a terminal: pairs of a case and a row of its outputs, empty where it has none."""

    def apart(row: Mapping[str, Any], found: Mapping[str, Any] | None) -> str | None:
        difference = row.get("difference") or {}
        if found and difference.get("changed") and not difference.get("rel_l2"):  # of integers, which have no L2
            return f"{share(found['changed'])} changed"
        return None if not found or found.get("rel_l2") is None else f"{found['rel_l2']:.2e}"

    def why(case: Mapping[str, Any], row: Mapping[str, Any]) -> str:
        reasons: str = row.get("reason") or case["reason"]
        return short(reasons) if row.get("verdict") == "wrong" else reasons

    columns = (
        Column("shapes", "0.label"),
        Column("output", "1.output"),
        Column("inputs", "1.inputs"),
        Column("verdict", verdict(lambda pair: pair[1].get("verdict", pair[0]["verdict"]))),
        Column("relative L2", lambda pair: apart(pair[1], pair[1].get("difference")), 2),
        Column("explained by precision", lambda pair: apart(pair[1], (pair[1].get("limits") or {}).get(precision)), 2),
        Column("why", lambda pair: why(*pair), long=True),
    )
    return Table(columns, rows)


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
    every = [(case, row, one) for case, row in _rows(cases) for one in row["properties"]]
    return [
        {
            "name": name,
            "asked": len(mine),
            "held": sum(one["holds"] for _, _, one in mine),
            "broken": next(
                (f"{case['label']}, {row['output']}: {one['detail']}" for case, row, one in mine if not one["holds"]),
                "",
            ),
        }
        for name, mine in grouped(every, lambda triple: triple[2]["property"]).items()
    ]


def worst_differences(document: VerifyFindings) -> list[dict[str, Any]]:
    """Return for each output the row with the largest difference in relation to its limit."""
    limited = [
        {
            **row,
            "label": case["label"],
            "limit": limit,
            "share": share_of_limit((apart[key], limit[key]) for key in _FIGURES),
        }
        for case, row in _rows(document["cases"])
        for limit, apart in [((row.get("limits") or {}).get(document["precision"]), row.get("difference"))]
        if limit and apart
    ]
    return [max(mine, key=lambda row: row["share"]) for mine in grouped(limited, lambda row: row["output"]).values()]


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
