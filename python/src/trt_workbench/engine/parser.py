"""Which operators of a model the ONNX parser of the installed TensorRT lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trt_workbench.core.errors import WorkbenchError
from trt_workbench.engine import native
from trt_workbench.model.opened import Model


@dataclass(frozen=True)
class ParserAnswer:
    """What the parser says of a model.

    Attributes:
        version: of the TensorRT that was asked; None where none could be.
        refused: operators that it does not import, with how many nodes have them.
        reason: why it could not be asked.
    """

    version: str | None
    refused: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None


def ask_parser(model: Model) -> ParserAnswer:
    """Ask the parser of the TensorRT here which operators of a model, its subgraphs included, it does not import."""
    own = {f"{function.domain}::{function.name}" for function in model.proto.functions}
    # the parser's own table has no domains
    names = {name: name.split("::")[-1] for name in model.facts.operators.keys() - own}
    try:
        version = native.load_tensorrt()["version"]
        with native.translated():
            refused = set(native.require("unsupported_operators")(sorted(set(names.values()))))
    except WorkbenchError as error:
        return ParserAnswer(None, reason=str(error))
    counts = model.facts.operators
    return ParserAnswer(version, {name: counts[name] for name in sorted(names) if names[name] in refused})
