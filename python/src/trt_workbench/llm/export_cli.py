"""`export-llm`: a causal language model from Hugging Face's format to ONNX, proved against PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
    say,
)
from trt_workbench.core.counts import mebibytes
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.variables import let_idle_threads_sleep
from trt_workbench.model.opsets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET, OPSETS
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


@handled
def export_llm(
    model: Annotated[str, typer.Argument(help="Folder with config.json and safetensors; nothing is downloaded.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the ONNX files and export.json.")],
    graphs: Annotated[
        str,
        typer.Option(
            help="logits (one forward pass), cached (past and present), static (fixed cache length), step (static, for "
            "one token)."
        ),
    ] = "logits",
    opset: Annotated[
        int | None,
        typer.Option(
            min=OLDEST_OPSET,
            max=NEWEST_OPSET,
            help=f"ONNX operator set; by default {DEFAULT_OPSET}, which TensorRT 8.6 reads.",
        ),
    ] = None,
    tensorrt: Annotated[
        str | None, typer.Option(help="Use the newest operator set that this TensorRT version reads: 8.6, 10 or 11.")
    ] = None,
    cache_length: Annotated[
        int | None,
        typer.Option(
            min=2, help="Slots of the static and step graphs; by default the model's positions, at most 1024."
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Fixed batch of these graphs, needed to keep the state on a device.")
    ] = None,
    external_data: Annotated[
        bool,
        typer.Option(
            "--external-data", help="Write the weights to a file of their own even if they fit into the graph."
        ),
    ] = False,
    skip_proof: Annotated[
        bool,
        typer.Option("--skip-proof", help="Do not compare the files with PyTorch, as where ONNX Runtime is missing."),
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Export a language model to ONNX and compare it with PyTorch.

    The model is a causal one in Hugging Face's format. The comparison runs the files on ONNX Runtime's CPU provider.
    """
    let_idle_threads_sleep()
    from trt_workbench.llm.export import ExportSettings, check_folder, parse_graphs
    from trt_workbench.llm.export import export_llm as export
    from trt_workbench.llm.graph import GRAPHS, INLINE_LIMIT_BYTES, SLOTTED
    from trt_workbench.model.llm_directory import examine_llm_directory

    kinds = parse_graphs(graphs, GRAPHS)
    if not set(kinds) & set(SLOTTED) and (cache_length or batch):
        raise UsageProblem(
            "--cache-length and --batch apply to the static and step graphs; add one to --graphs or leave them out."
        )
    settings = ExportSettings(
        graphs=kinds,
        opset=_opset(opset, tensorrt),
        cache_length=cache_length,
        batch=batch,
        inline_limit_bytes=0 if external_data else INLINE_LIMIT_BYTES,
        prove=not skip_proof,
    )
    directory = examine_llm_directory(model)
    check_folder(directory, output, settings)
    manifest = export(directory, output, settings, say)
    print_found({**manifest, "directory": str(output)}, _shown, as_json=as_json)


def _opset(opset: int | None, tensorrt: str | None) -> int:
    if opset is not None and tensorrt is not None:
        raise UsageProblem("--opset and --tensorrt both choose the operator set; give one of them.")
    if tensorrt is None:
        return DEFAULT_OPSET if opset is None else opset
    found = next((chosen for version, chosen in OPSETS.items() if f"{tensorrt}.".startswith(f"{version}.")), None)
    if found is None:
        raise UsageProblem(f"--tensorrt takes {', '.join(OPSETS)}, not {tensorrt!r}; --opset chooses freely.")
    return found


def _cases(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return entry["proof"]["cases"] if entry["proof"] else []


_GRAPHS = (
    Column("graph", "kind"),
    Column("file", "file", long=True),
    Column("size", "size_bytes", form=mebibytes, unit="MiB"),
    Column(
        "cases", lambda one: ", ".join(f"{each['batch']}x{each['length']}" for each in _cases(one)) or "not compared"
    ),
    Column(
        "largest difference",
        lambda one: max((each["max_abs_difference"] for each in _cases(one)), default=None),
        form="{:.2g}".format,
    ),
)


def _shown(document: dict[str, Any]) -> Parts:
    return [Table(_GRAPHS, document["graphs"], f"Opset {document['opset']}"), f"Folder: {document['directory']}"]
