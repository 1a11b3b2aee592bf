"""`trtw refit-engine`: new weights for an engine, from an ONNX model of the same structure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_workbench.console.common import DebugOption, JsonOption, handled, print_found
from trt_workbench.core.settings import Device, Plugins


@handled
def refit_engine(
    plan: Annotated[Path, typer.Argument(help="Plan that was built with --refit or --strip-weights.")],
    model: Annotated[Path, typer.Argument(help="ONNX file with the new weights.")],
    *,
    output: Annotated[Path, typer.Option("--plan", "-o", help="The new plan; its manifest is written next to it.")],
    plugins: Plugins = (),
    device: Device = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Put a model's weights into an engine without a new build.

    The engine must have been built with --refit or --strip-weights, by TensorRT 10 or newer.
    """
    from trt_workbench.core.documents import json_values
    from trt_workbench.engine.loading import read_plan
    from trt_workbench.engine.refit import refit_plan
    from trt_workbench.inspect import shown_manifest
    from trt_workbench.model.opened import Model

    checked = read_plan(plan, advise_trust=False)
    manifest = refit_plan(checked, Model.open(model), output, device=device, plugins=plugins)
    document = {"schema_version": 1, "plan": str(output), "manifest": json_values(manifest)}
    print_found(document, lambda _: [*shown_manifest(manifest), f"Refitted: {output}"], as_json=as_json)
