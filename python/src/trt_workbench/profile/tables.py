"""A finished profile in the terminal: the longest layers and kernels, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.profile.difference import LayerGroup, telling
from trt_workbench.profile.view import SideView, answer, differences, kernels, operations, read, summary

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts

_ROWS = 12


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


def shown(directory: Path) -> Parts:
    """Return the tables and sentences of a run directory."""
    _, sides, groups = read(directory)
    tables = [
        table
        for side in sides
        for table in (operations(side, side.longest[:_ROWS]), kernels(side, _ROWS))
        if table.rows
    ]
    compared = [differences(sides, telling(groups, _ROWS))] if len(sides) > 1 else []
    return [*tables, *compared, *summary(sides, groups)]


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
