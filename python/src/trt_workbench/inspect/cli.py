"""`trtw inspect`: what a model, an engine or the folder of a language model is, without running it."""

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
from trt_workbench.core.counts import counted, sized
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Device, HostCode, Plugins, Trust
from trt_workbench.inspect.engine_cli import ManifestOnly, show_plan
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


@handled
def inspect(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(help="ONNX file, engine, folder of a language model, or the name of an embedded model."),
    ],
    *,
    manifest_only: ManifestOnly = False,
    trust: Trust = False,
    allow_host_code: HostCode = False,
    plugins: Plugins = (),
    device: Device = 0,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Describe a model or an engine without running it.

    A model: inputs, outputs, detector family, types, quantisation, operators, and those that the installed TensorRT
    lacks.
    An engine: its manifest and the output of TensorRT's engine inspector.
    """
    if not model.is_dir() and model.suffix != ".onnx":
        show_plan(
            model,
            manifest_only=manifest_only,
            trust=trust,
            allow_host_code=allow_host_code,
            plugins=plugins,
            device=device,
            as_json=as_json,
        )
        return
    flags = {"manifest_only": "manifest-only", "trust": "trust", "allow_host_code": "allow-host-code"}
    flags |= {"plugins": "plugin", "device": "device"}
    given = {flag: context.get_parameter_source(name) for name, flag in flags.items()}
    if wrong := [flag for flag, source in given.items() if source is not None and source.name == "COMMANDLINE"]:
        raise UsageProblem(f"--{wrong[0]} is for engines, but this is a model; omit it: {model}")
    from trt_workbench.inspect.model_facts import language_model_facts, model_facts

    if model.is_dir():
        document, shown = language_model_facts(model), _language_model
    else:
        document, shown = model_facts(model), _model
    print_found(document, shown, as_json=as_json)


def _model(document: dict[str, Any]) -> Parts:
    tensors = (
        (kind, one["name"], one["dtype"], _shape(one["shape"]))
        for kind in ("input", "output")
        for one in document[f"{kind}s"]
    )
    return [
        Table(("", "name", "dtype", "shape"), tensors, "Inputs and outputs"),
        Table(("property", Column("value", "1", long=True)), _facts(document), "Model"),
        Table(("operator", "nodes"), document["operators"].items(), counted(document["nodes"], "node")),
        _parser(document["tensorrt"]),
    ]


def _shape(dims: list[int | str | None] | None) -> str:
    return "unknown rank" if dims is None else f"[{', '.join('?' if one is None else str(one) for one in dims)}]"


def _parser(asked: dict[str, Any]) -> str:
    """Return what TensorRT's parser says of the operators."""
    if asked["version"] is None:
        return "TensorRT's parser cannot be asked here. `trtw check-target` compiles for RTX cards without a GPU."
    parser = f"The parser of TensorRT {asked['version']}"
    if not asked["refused"]:
        return f"{parser} imports every operator. It checks types, shapes and attributes when an engine is built."
    lacks = ", ".join(f"{name} ({counted(nodes, 'node')})" for name, nodes in asked["refused"].items())
    return f"{parser} does not import {lacks}, unless a plugin does."


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    detector = document["detector"]
    family = "none: " + detector["reason"] if detector["family"] is None else _family(detector)
    others = "".join(f", {domain} {version}" for domain, version in document["other_opsets"].items())
    quantizers = ", ".join(f"{count} {name}" for name, count in document["quantizers"].items())
    external = ", ".join(f"{one['file']} ({sized(one['size_bytes'])})" for one in document["external_files"])
    return [
        ("producer", document["producer"] or "not named"),
        ("opset", f"{document['opset']}{others} (IR version {document['ir_version']})"),
        ("family", family),
        ("precision", document["precision"]["text"]),
        ("quantised", quantizers or "no QuantizeLinear or DequantizeLinear"),
        ("parameters", f"{document['parameters']:,}"),
        ("size", sized(document["size_bytes"])),
        ("external data", external or "none"),
        ("metadata", ", ".join(document["metadata"]) or "none"),
        ("SHA-256", document["sha256"]),
    ]


def _family(detector: dict[str, Any]) -> str:
    height, width = detector["input_size"]
    classes = f"{counted(detector['classes'], 'class', 'classes')}" if detector["classes"] else "classes unknown"
    return f"{detector['family']}, {classes}{' with names' if detector['names'] else ''}, input {height}x{width}"


def _language_model(document: dict[str, Any]) -> Parts:
    by_type = ", ".join(f"{count:,} {dtype}" for dtype, count in document["parameters_by_type"].items())
    size = sum(one["size_bytes"] for one in document["weights"])
    rows = [
        ("architecture", document["architecture"]),
        *((name, str(document[name] or "not named")) for name in ("layers", "vocabulary", "positions")),
        ("parameters", f"{document['parameters']:,} ({by_type})"),
        ("weights", f"{sized(size)} in {', '.join(one['file'] for one in document['weights'])}"),
        ("tokenizer", "there" if document["tokenizer"] else "none"),
        ("own code", "yes; it is never executed" if document["brings_code"] else "none"),
    ]
    return [Table(("property", Column("value", "1", long=True)), rows, "Model")]
