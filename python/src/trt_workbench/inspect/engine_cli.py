"""`trtw inspect` of an engine: its manifest, and what TensorRT's own engine inspector reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.console.common import note, print_found
from trt_workbench.core.counts import counted, sized
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Plugins
from trt_workbench.report.tables import Column, Table, at

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.engine.inspection import Inspection
    from trt_workbench.engine.manifest import Manifest


def shown_manifest(manifest: Manifest) -> Parts:
    """Return inputs, outputs, profiles, and what the engine was made from and with."""
    tensors = (
        (kind, tensor.name, tensor.dtype, f"[{', '.join('?' if dim < 0 else str(dim) for dim in tensor.shape)}]")
        for kind, group in (("input", manifest.inputs), ("output", manifest.outputs))
        for tensor in group
    )
    return [
        Table(("", "name", "dtype", "shape"), tensors, "Inputs and outputs"),
        Table(("property", Column("value", "1", long=True)), _facts(manifest), "Engine"),
        *(f"TensorRT warning: {warning}" for warning in manifest.warnings),
    ]


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    from trt_workbench.core.builds import BUILD
    from trt_workbench.engine.verdicts import kept_verdict

    return [
        ("model", f"{manifest.model.file} (SHA-256 {manifest.model.sha256[:16]}…)"),
        ("precision", "+".join(manifest.precision)),
        *[(f"profile {number}", text) for number, text in enumerate(manifest.profiles)],
        ("layers in the network", str(manifest.layer_count)),
        ("size", sized(manifest.engine.size_bytes)),
        ("build time", f"{manifest.build_s:.1f} s"),
        ("built at", manifest.created_at),
        ("TensorRT", manifest.tensorrt_version),
        ("GPU", f"{manifest.gpu.name} (compute capability {manifest.gpu.compute_capability})"),
        ("SHA-256", manifest.engine.sha256),
        *([("build", f"{number}, from an empty timing cache")] if (number := manifest.options.get(BUILD)) else []),
        *([("several builds", manifest.several.words)] if manifest.several else []),
        *([("workaround", manifest.way_around.name)] if manifest.way_around else []),
        ("verified", kept.text if (kept := kept_verdict(manifest)) else "no"),
    ]


def _inspected(found: Inspection) -> Parts:
    """Return profiles, properties and layers as TensorRT reports them."""
    ranges = (
        (number, tensor.name, *(str(list(dims)) for dims in profile))
        for tensor in found.tensors
        for number, profile in enumerate(tensor.profiles)
    )
    facts = [(name, ", ".join(one) if isinstance(one, list) else str(one)) for name, one in found.summary.items()]
    facts += [(f"format of {one.name}", one.format) for one in found.tensors if "linear" not in one.format.lower()]
    return [
        Table(("profile", "input", "min", "opt", "max"), ranges, "Optimisation profiles"),
        Table(("property", Column("value", "1", long=True)), facts, "Reported by TensorRT"),
        Table(_LAYERS, enumerate(found.layers), counted(len(found.layers), "layer")),
    ]


_LAYERS = (
    Column("#", "0"),
    Column("layer", "1.Name", long=True),
    Column("type", "1.LayerType"),
    Column(
        "outputs",
        lambda row: "\n".join(f"{at(one, 'Name')} {at(one, 'Dimensions')}" for one in row[1].get("Outputs", [])),
        long=True,
    ),
)
ManifestOnly = Annotated[
    bool, typer.Option("--manifest-only", help="Show only the manifest; needs neither TensorRT nor a GPU.")
]


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
    manifest = shown_manifest(checked.manifest) if checked.manifest else ()
    inspected = _inspected(found) if found else ()
    print_found(_document(plan, checked, found), lambda _: [*manifest, *inspected], as_json=as_json)


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
