"""The report of a check-target run, made only from the files of its run directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.documents import read_document, reader
from trt_workbench.report.verdict import Headline
from trt_workbench_rtx.document import TargetCheck, TargetLayers
from trt_workbench_rtx.layers import BuiltLayer, BuiltTensor

read = reader("check-target.json", TargetCheck)


def answer(check: TargetCheck) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(check), check.reach.word("built"))


def view(check: TargetCheck, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    layers = read_document(directory / "layers.json", TargetLayers).layers
    return {
        "check": check,
        "name": Path(check.model).name,
        "built": sum(target.outcome == "built" for target in check.targets),
        "largest": max((target.engine_size_bytes or 0 for target in check.targets), default=0),
        "layers": {sm: rows(built) for sm, built in layers.items()},
    }


def _said(check: TargetCheck) -> list[str]:
    """Say which architectures the model was built for, then why it was not for others."""
    built = [one.name for one in check.targets if one.outcome == "built"]
    others = [
        f"{one.name}: {one.outcome}. {one.reason or ''}".rstrip() for one in check.targets if one.name not in built
    ]
    names = f" ({', '.join(built)})" if built and others else ""
    return [f"Built for {len(built)} of {len(check.targets)} architectures{names}", *others]


def rows(layers: Sequence[BuiltLayer]) -> list[dict[str, str]]:
    """Return what the page shows of every layer that reads or writes something."""
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "inputs": _types(layer.inputs),
            "constants": _types(layer.constants),
            "outputs": _types(layer.outputs),
            "nodes": ", ".join(layer.nodes),
        }
        for layer in layers
        if layer.inputs or layer.outputs
    ]


def _types(tensors: Sequence[BuiltTensor]) -> str:
    return ", ".join(dict.fromkeys(one.type for one in tensors)) or "\N{EN DASH}"
