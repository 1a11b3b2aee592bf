"""The report of a check-target run, made only from the files of its run directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trt_workbench.core.counts import mebibytes
from trt_workbench.core.documents import read_document, reader
from trt_workbench.report.tables import ROOMY, Column, Table, verdict
from trt_workbench.report.verdict import Headline
from trt_workbench_rtx.document import TargetCheck, TargetLayers
from trt_workbench_rtx.layers import BuiltTensor

read = reader("check-target.json", TargetCheck)


def answer(check: TargetCheck) -> Headline:
    """Return what the page of a run says first."""
    return Headline(_said(check), check.reach.word("built"))


TARGETS = (
    Column("architecture", "name"),
    Column("outcome", verdict("outcome")),
    Column("engine", "engine_size_bytes", form=mebibytes, unit="MiB"),
    Column("layers", lambda one: one.layers or None, 0),
    Column("layers that multiply compute in", "precision.text"),
    Column("seconds", "build_s", 1),
    Column("why not", lambda one: one.reason or None, places=ROOMY),
)
LAYERS = (
    Column("layer", "name"),
    Column("kind", "kind"),
    Column("reads", lambda layer: _types(layer.inputs)),
    Column("constants", lambda layer: _types(layer.constants)),
    Column("writes", lambda layer: _types(layer.outputs)),
    Column("ONNX nodes", lambda layer: ", ".join(layer.nodes)),
)


def view(check: TargetCheck, directory: Path) -> dict[str, Any]:
    """Return what the page of a run shows besides."""
    layers = read_document(directory / "layers.json", TargetLayers).layers
    return {
        "name": Path(check.model).name,
        "built": sum(target.outcome == "built" for target in check.targets),
        "largest": max((target.engine_size_bytes or 0 for target in check.targets), default=0),
        "targets": Table(TARGETS, check.targets, "Architectures"),
        "layers": {
            sm: Table(LAYERS, [one for one in built if one.inputs or one.outputs]) for sm, built in layers.items()
        },
    }


def _said(check: TargetCheck) -> list[str]:
    """Say which architectures the model was built for, then why it was not for others."""
    built = [one.name for one in check.targets if one.outcome == "built"]
    others = [
        f"{one.name}: {one.outcome}. {one.reason or ''}".rstrip() for one in check.targets if one.name not in built
    ]
    names = f" ({', '.join(built)})" if built and others else ""
    return [f"Built for {len(built)} of {len(check.targets)} architectures{names}", *others]


def _types(tensors: Sequence[BuiltTensor]) -> str:
    return ", ".join(dict.fromkeys(one.type for one in tensors)) or "\N{EN DASH}"
