"""`trtw inspect-engine`: what an engine is, by its manifest and by TensorRT's own engine inspector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    note,
    print_json,
    stdout_console,
)
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Device, HostCode, Plugins, Trust

ManifestOnly = Annotated[
    bool, typer.Option("--manifest-only", help="Show only the manifest; needs neither TensorRT nor a GPU.")
]


@handled
def inspect_engine(
    plan: Annotated[Path, typer.Argument(help="Plan made by `build-engine`.")],
    *,
    manifest_only: ManifestOnly = False,
    trust: Trust = False,
    allow_host_code: HostCode = False,
    plugins: Plugins = (),
    device: Device = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Show an engine's inputs, outputs, profiles and layers. The manifest is checked against the plan first."""
    show_plan(
        plan,
        manifest_only=manifest_only,
        trust=trust,
        allow_host_code=allow_host_code,
        plugins=plugins,
        device=device,
        as_json=as_json,
    )


def show_plan(
    plan: Path,
    *,
    manifest_only: bool,
    trust: bool,
    allow_host_code: bool,
    plugins: Plugins,
    device: int,
    as_json: bool,
) -> None:
    """Print what the manifest of a plan says, and, unless that is all that is asked for, what TensorRT says of it."""
    if manifest_only and trust:
        raise UsageProblem(
            f"--manifest-only shows a matching manifest, which --trust skips; pass only one of them: {plan}"
        )
    from trt_workbench.engine.inspection import inspect_plan
    from trt_workbench.engine.loading import read_plan

    checked = read_plan(plan, trust=trust, advise_trust=not manifest_only)
    found = None
    if not manifest_only:
        found = inspect_plan(checked, allow_host_code=allow_host_code, device=device, plugins=plugins)
    for text in (*checked.notes, *(found.notes if found else ())):
        note(text)
    if as_json:
        print_json(_document(plan, checked, found))
        return
    from trt_workbench.inspect.tables import print_inspection, print_manifest

    console = stdout_console(quiet=False)
    if checked.manifest:
        print_manifest(console, checked.manifest)
    if found:
        print_inspection(console, found)


def _document(plan: Path, checked: Any, found: Any) -> dict[str, Any]:
    from trt_workbench.core.documents import json_values

    return {
        "schema_version": 1,
        "plan": str(plan),
        "sha256": checked.sha256,
        "size_bytes": checked.size_bytes,
        "notes": [*checked.notes, *(found.notes if found else ())],
        "manifest": json_values(checked.manifest),
        "engine": found.document() if found else None,
    }
