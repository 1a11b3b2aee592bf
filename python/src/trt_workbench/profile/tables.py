"""A finished profile in the terminal: the longest layers and kernels, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trt_workbench.backends.profiling import Operation
from trt_workbench.console.common import print_line, print_run, stdout_console
from trt_workbench.core.percent import share
from trt_workbench.profile.difference import LayerGroup, telling
from trt_workbench.profile.document import Kernel
from trt_workbench.profile.view import SideView, answer, read, summary

_ROWS = 12
_NAME = 60


def document(directory: Path) -> dict[str, Any]:
    """Return what `--json` prints."""
    _, sides, groups = read(directory)
    return {
        "schema_version": 1,
        "directory": str(directory),
        "summary": summary(sides, groups),
        "answer": _answer(sides),
        "sides": {
            side.name: {
                **side.facts,
                "operations": [one.model_dump(mode="json") for one in side.operations],
                "kernels": [one.model_dump(mode="json") for one in side.kernels],
            }
            for side in sides
        },
        "difference": [_group(group) for group in groups],
    }


def print_profile(directory: Path) -> None:
    """Print the tables and sentences of a run directory."""
    _, sides, groups = read(directory)
    console = stdout_console(quiet=False)
    for side in sides:
        if side.operations:
            console.print(_operations(side.longest[:_ROWS], f"{side.title}: the longest {side.noun}"))
        if side.kernels:
            console.print(_kernels(side.kernels[:_ROWS], f"{side.title}: the longest kernels"))
    if len(sides) > 1:
        console.print(_differences(telling(groups, _ROWS), sides))
    for sentence in summary(sides, groups):
        print_line(console, sentence)
    print_run(console, directory)


def _answer(sides: Sequence[SideView]) -> dict[str, Any] | None:
    found = answer(sides[0].facts, sides[1].facts) if len(sides) > 1 else None
    return asdict(found) if found else None


def _group(group: LayerGroup) -> dict[str, Any]:
    return {
        "onnx_nodes": list(group.onnx_nodes),
        "target": [one.name for one in group.target],
        "against": [one.name for one in group.against],
        "target_ms": group.target_ms,
        "against_ms": group.against_ms,
        "difference_ms": group.difference_ms,
        "roles": list(group.roles),
        "only_in": group.only_in or None,
    }


def _operations(operations: Sequence[Operation], title: str) -> Table:
    table = Table("name, or ONNX nodes", "operator", "role", title=Text(title))
    for heading in ("mean ms", "share"):
        table.add_column(heading, justify="right")
    for one in operations:
        table.add_row(
            _short(", ".join(one.onnx_nodes) or one.name),
            one.operator or "",
            one.role,
            f"{one.mean_ms or 0.0:.4f}",
            share(one.share or 0.0, 1),
        )
    return table


def _kernels(kernels: Sequence[Kernel], title: str) -> Table:
    table = Table("kernel", "layer", "by", title=Text(title))
    for heading in ("launches", "total ms", "share"):
        table.add_column(heading, justify="right")
    for one in kernels:
        table.add_row(
            _short(one.name),
            _short(one.layer or ""),
            one.tool,
            str(one.launches),
            f"{one.total_ms:.4f}",
            share(one.share or 0.0, 1),
        )
    return table


def _differences(groups: Sequence[LayerGroup], sides: Sequence[SideView]) -> Table:
    table = Table("ONNX nodes", "extra", title=Text(f"{sides[0].title} against {sides[1].title}"))
    for heading in ("first ms", "second ms", "difference"):
        table.add_column(heading, justify="right")
    for group in groups:
        names = ", ".join(group.onnx_nodes) or (group.target or group.against)[0].name
        table.add_row(
            _short(names),
            ", ".join(group.roles),
            f"{group.target_ms:.4f}",
            f"{group.against_ms:.4f}",
            f"{group.difference_ms:+.4f}",
        )
    return table


def _short(text: str) -> Text:
    """Return a name as it is: TensorRT's hold square brackets, which rich takes for markup in plain strings."""
    return Text(text if len(text) <= _NAME else f"{text[: _NAME - 1]}…")
