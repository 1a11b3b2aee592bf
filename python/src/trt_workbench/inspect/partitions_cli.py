"""`trtw partitions`: which nodes of a model go to which provider, and why some do not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
)
from trt_workbench.console.drawing import present
from trt_workbench.core.counts import counted, sized
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import parts
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.model.partitions import Partitions, Subgraph

_LISTED = 40


@handled
def partitions(
    model: Annotated[Path, typer.Argument(help="ONNX file.")],
    *,
    backend: Annotated[
        str,
        typer.Option(
            help="ort-trt, ort-cuda or ort-cpu.",
            autocompletion=lambda incomplete: [
                name for name in ("ort-trt", "ort-cuda", "ort-cpu") if name.startswith(incomplete)
            ],
        ),
    ] = "ort-trt",
    min_subgraph_size: Annotated[int, typer.Option(min=1, help="Fewest nodes of a TensorRT subgraph.")] = 1,
    exclude: Annotated[str, typer.Option(help="Operators to keep from TensorRT, separated by commas.")] = "",
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Show which nodes of a model go to which provider, and why.

    The subgraphs, their borders and the nodes on other providers, as a table and JSON.

    ONNX Runtime reports its own assignment, so the provider must be available here.
    """
    from trt_workbench.backends.abilities import DividesModels
    from trt_workbench.backends.registry import get_backend
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.model.opened import Model, checked_on_error
    from trt_workbench.model.partitions import PartitionRequest

    opened = Model.open(model)
    with checked_on_error(opened):
        if not isinstance(divider := get_backend(backend), DividesModels):
            raise UsageProblem(
                f"Backend {backend} executes every node itself; choose one with several providers, such as ort-trt."
            )
        found = divider.partitions(PartitionRequest(model, min_subgraph_size, parts(exclude)))
    document = {**found.document(), "model": str(model)}
    with run_directory("partitions", output) as run:
        write_json(run.path / "partitions.json", document)
        directory = run.commit("complete", nodes=len(found.nodes))
    present(directory, document, partial(_shown, found), as_json=as_json, report=False)


def _operators(part: Subgraph) -> str:
    named = ", ".join(f"{name} {count}" for name, count in list(part.operators.items())[:6])
    return named + (" …" if len(part.operators) > 6 else "")


def _shown(found: Partitions, _directory: Path) -> Parts:
    rows = (
        (number, part.provider, part.nodes, _operators(part), _borders(part.inputs), _borders(part.outputs))
        for number, part in enumerate(found.subgraphs[:_LISTED])
    )
    fallen = [node for node in found.nodes if node.reason]
    nodes = (
        (node.name, node.operator, node.provider, ", ".join(kind or "?" for kind in node.types), node.reason)
        for node in fallen[:_LISTED]
    )
    heads = (Column("node", "0", long=True), "operator", "provider", "types", Column("why", "4", long=True))
    left = max(len(found.subgraphs) - _LISTED, 0) + max(len(fallen) - _LISTED, 0)
    counts = ", ".join(f"{provider} {count}" for provider, count in found.counts().items())
    return [
        f"{found.asked} ({found.basis})",
        Table(("subgraph", "provider", "nodes", "operators", "in", "out"), rows, "Subgraphs"),
        Table(heads, nodes, "Nodes on other providers") if fallen else None,
        f"{counted(left, 'more row')} in partitions.json." if left else "",
        f"{counted(len(found.nodes), 'node')}: {counts}",
    ]


def _borders(tensors: tuple[dict[str, Any], ...]) -> str:
    sizes = [tensor["size_bytes"] for tensor in tensors]
    return f"{len(tensors)}" + (f", {sized(sum(sizes))}" if sizes and None not in sizes else "")
