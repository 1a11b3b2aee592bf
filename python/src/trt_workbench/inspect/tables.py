"""Tables about an engine, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from trt_workbench.console.common import print_line
from trt_workbench.core.builds import BUILD
from trt_workbench.core.counts import counted, sized

if TYPE_CHECKING:
    from rich.console import Console

    from trt_workbench.engine.inspection import Inspection
    from trt_workbench.engine.manifest import Manifest, Tensor


def print_manifest(console: Console, manifest: Manifest) -> None:
    """Print inputs, outputs, profiles, and what the engine was made from and with."""
    from rich.table import Table

    tensors = Table("", "name", "dtype", "shape", title="Inputs and outputs")
    for kind, group in (("input", manifest.inputs), ("output", manifest.outputs)):
        for tensor in group:
            tensors.add_row(kind, escape(tensor.name), tensor.dtype, escape(_shape(tensor)))
    facts = Table("property", "value", title="Engine")
    for name, value in _facts(manifest):
        facts.add_row(name, escape(value))
    console.print(tensors, facts)
    for warning in manifest.warnings:
        print_line(console, f"TensorRT warning: {warning}")


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    from trt_workbench.engine.verdicts import kept_verdict

    profiles = [(f"profile {number}", text) for number, text in enumerate(manifest.profiles)]
    return [
        ("model", f"{manifest.model.file} (SHA-256 {manifest.model.sha256[:16]}…)"),
        ("precision", "+".join(manifest.precision)),
        *profiles,
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


def _shape(tensor: Tensor) -> str:
    return f"[{', '.join('?' if dim < 0 else str(dim) for dim in tensor.shape)}]"


def print_inspection(console: Console, found: Inspection) -> None:
    """Print profiles, properties and layers as TensorRT reports them."""
    from rich.table import Table

    ranges = Table("profile", "input", "min", "opt", "max", title="Optimisation profiles")
    for tensor in found.tensors:
        for number, (low, best, high) in enumerate(tensor.profiles):
            ranges.add_row(str(number), escape(tensor.name), *(escape(str(list(dims))) for dims in (low, best, high)))
    properties = Table("property", "value", title="Reported by TensorRT")
    for name, value in found.summary.items():
        properties.add_row(name, escape(", ".join(value) if isinstance(value, list) else str(value)))
    for tensor in found.tensors:
        if "linear" not in tensor.format.lower():
            properties.add_row(escape(f"format of {tensor.name}"), escape(tensor.format))
    layers = Table("#", "layer", "type", "outputs", title=f"{counted(len(found.layers), 'layer')}")
    for number, layer in enumerate(found.layers):
        layers.add_row(str(number), *_layer(layer))
    console.print(ranges, properties, layers)


def _layer(layer: dict[str, Any]) -> tuple[str, str, str]:
    outputs = [f"{tensor.get('Name')} {tensor.get('Dimensions')}" for tensor in layer.get("Outputs", [])]
    # names may hold brackets, which rich would take for styles
    return escape(str(layer.get("Name", "-"))), escape(str(layer.get("LayerType", "-"))), escape("\n".join(outputs))
