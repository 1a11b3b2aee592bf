"""`trtw sanitize-onnx`: rewrite what TensorRT refuses or runs badly, and prove that the model says the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
)
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.settings import Seed, pairs
from trt_workbench.core.settings import shapes as read_shapes
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


@handled
def sanitize_onnx(
    model: Annotated[Path, typer.Argument(help="ONNX file.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    only: Annotated[list[str] | None, typer.Option(help="Run only this rewrite; repeatable.")] = None,
    also: Annotated[list[str] | None, typer.Option(help="Also run this rewrite; repeatable.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Skip this rewrite; repeatable.")] = None,
    dim: Annotated[list[str] | None, typer.Option(help="Fix a dimension: NAME=VALUE; repeatable.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="NAME:1x3x64x64: shape of an input for the check; repeatable.")
    ] = None,
    size: Annotated[list[str] | None, typer.Option(help="Size of a dimension in the check only: NAME=VALUE.")] = None,
    check: Annotated[bool, typer.Option(help="Compare both models in ONNX Runtime on random inputs.")] = True,
    rtol: Annotated[float, typer.Option(min=0, help="Relative tolerance of the check.")] = 1e-4,
    atol: Annotated[float, typer.Option(min=0, help="Absolute tolerance of the check.")] = 1e-5,
    seed: Seed = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Rewrite what TensorRT refuses in an ONNX file, and check the result.

    It applies named rewrites, and reports what changed and what TensorRT may still refuse. It writes nothing if the
    check fails.
    """
    from trt_workbench.engine.written_models import check_model_output, write_model
    from trt_workbench.model.opened import Model
    from trt_workbench.model.sanitize.rewrites import SanitizeSettings
    from trt_workbench.model.sanitize.sanitize import chosen_rewrites
    from trt_workbench.sanitize.parity import ParityRequest, sanitize_checked

    dims = {name: _number(value, name) for name, value in pairs("--dim", dim or ()).items()}
    sizes = {name: _number(value, name) for name, value in pairs("--size", size or ()).items()}
    shapes = read_shapes("--shape", shape or ())
    chosen = chosen_rewrites(only or (), also or (), skip or ())
    if output.is_dir():
        raise UsageProblem(f"The output is a folder; name a file: {output}")
    opened = Model.open(model)
    check_model_output(output, opened.files)
    wanted = ParityRequest({**sizes, **dims}, shapes, seed, rtol, atol) if check else None
    rewritten, report, compared = sanitize_checked(opened, chosen, SanitizeSettings(dims=dims), wanted)
    write_model(rewritten, output)
    document = {**report.document(), "check": compared, "model": str(model), "output": str(output)}
    print_found(document, _shown, as_json=as_json)


def _shown(document: dict[str, Any]) -> Parts:
    rows = (
        (name, entry["changes"], "; ".join(entry["what"][:3]) + (" …" if entry["changes"] > 3 else ""))
        for name, entry in document["rewrites"].items()
    )
    check = document["check"] or {"outputs": {}, "input_sets": 0}
    largest = max((entry["max_abs"] for entry in check["outputs"].values()), default=0.0)
    passed = f"Check passed: largest difference {largest:.3g} on {counted(check['input_sets'], 'set')} of inputs"
    return [
        Table(("rewrite", "changes", Column("what", "2", long=True)), rows),
        f"Nodes: {document['nodes_before']} before, {document['nodes_after']} after",
        *(f"TensorRT may refuse: {finding}" for finding in document["findings"]),
        passed if document["check"] else "Not compared with the original model (--no-check).",
        f"Written: {document['output']}",
    ]


def _number(text: str, name: str) -> int:
    size = whole_number(text)
    if not size:
        raise UsageProblem(f"The size of {name} must be a whole number of at least 1, not {text!r}.")
    return size
