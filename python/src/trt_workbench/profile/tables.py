"""A finished profile in the terminal: the longest layers and kernels, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Column
from rich.text import Text

from trt_workbench.backends.profiling import Operation
from trt_workbench.console.common import print_line, print_run, print_table, stdout_console
from trt_workbench.core.counts import decimals
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
            heads = _heads("name, or ONNX nodes", "operator", "role", figures=("mean ms", "share"))
            title = Text(f"{side.title}: the longest {side.noun}")
            print_table(console, heads, _operations(side.longest[:_ROWS]), title=title)
        if side.kernels:
            heads = _heads("kernel", "layer", "by", figures=("launches", "total ms", "share"))
            title = Text(f"{side.title}: the longest kernels")
            print_table(console, heads, _kernels(side.kernels[:_ROWS]), title=title)
    if len(sides) > 1:
        heads = _heads("ONNX nodes", "extra", figures=("first ms", "second ms", "difference"))
        title = Text(f"{sides[0].title} against {sides[1].title}")
        print_table(console, heads, _differences(telling(groups, _ROWS)), title=title)
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


def _operations(operations: Sequence[Operation]) -> Iterator[tuple[str | Text, ...]]:
    for one in operations:
        yield (
            _short(", ".join(one.onnx_nodes) or one.name),
            one.operator or "",
            one.role,
            f"{one.mean_ms or 0.0:.4f}",
            share(one.share or 0.0, 1),
        )


def _kernels(kernels: Sequence[Kernel]) -> Iterator[tuple[str | Text, ...]]:
    for one in kernels:
        yield (
            _short(one.name),
            _short(one.layer or ""),
            one.tool,
            str(one.launches),
            f"{one.total_ms:.4f}",
            share(one.share or 0.0, 1),
        )


def _differences(groups: Sequence[LayerGroup]) -> Iterator[tuple[str | Text, ...]]:
    for group in groups:
        yield (
            _short(", ".join(group.onnx_nodes) or (group.target or group.against)[0].name),
            ", ".join(group.roles),
            f"{group.target_ms:.4f}",
            f"{group.against_ms:.4f}",
            decimals(group.difference_ms, plus="+"),
        )


def _heads(*names: str, figures: Sequence[str]) -> list[Column | str]:
    return [*names, *(Column(name, justify="right") for name in figures)]


def _short(text: str) -> Text:
    """Return a name as it is: TensorRT's hold square brackets, which rich takes for markup in plain strings."""
    return Text(text if len(text) <= _NAME else f"{text[: _NAME - 1]}…")
