"""What the PyTorch backends load: an ONNX file through our converter, or a program that torch.export saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import UsageProblem

if TYPE_CHECKING:
    import torch

    from trt_workbench.model.opened import Model


@dataclass(frozen=True)
class TorchModel:
    """A module with its contract.

    Attributes:
        module: takes the inputs in order; returns a tuple of the outputs.
        inputs: of the file.
        outputs: of the file.
        metadata: of the file.
        record: how it was made.
        source: the ONNX model that it was made of; None of an exported program.
    """

    module: torch.nn.Module
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    source: Model | None = None


def load_model(path: Path, precision: torch.dtype, *, trust: bool = False) -> TorchModel:
    """Load `path` for computation in `precision`.

    Args:
        path: an ONNX file or a program of torch.export.
        precision: what fp32 is held in.
        trust: the user vouches for the file. An exported program can carry pickles, and torch evaluates the
            expressions of its shapes; an ONNX file is only data.

    Raises:
        UsageProblem: the file cannot be converted or read, has no form of this precision, or is not trusted.
    """
    if path.suffix == ".onnx":
        return _from_onnx(path, precision)
    if not trust:
        raise UsageProblem(
            f"A .pt2 file can contain code that runs when it is loaded; pass trust=true if you know its origin: {path}"
        )
    return _from_export(path, precision)


def _from_onnx(path: Path, precision: torch.dtype) -> TorchModel:
    from trt_workbench.backends.simulation import refuse_formats
    from trt_workbench.backends.torch.onnx_torch.convert import convert
    from trt_workbench.model.opened import Model

    opened = Model.open(path)
    facts = opened.facts
    refuse_formats("PyTorch", opened, ("bf16",))
    converted = convert(opened, precision)

    return TorchModel(
        converted.module,
        tuple(map(TensorSpec.of, facts.inputs)),
        tuple(map(TensorSpec.of, facts.outputs)),
        facts.metadata,
        {
            "loaded_as": "ONNX converted to torch.fx",
            "opset": facts.opset,
            "host_reads": converted.host_reads,
            "uncompiled": converted.uncompiled,
        },
        opened,
    )


def _from_export(path: Path, precision: torch.dtype) -> TorchModel:
    """Load a .pt2 archive that is trusted."""
    import torch

    if precision != torch.float32:
        raise UsageProblem(
            f"A .pt2 program computes in the precision of its export; export it again or request fp32: {path}"
        )
    try:
        program = torch.export.load(path)
    except Exception as error:  # zip, JSON and schema errors of many kinds
        raise UsageProblem(
            f"The file is not a program saved by torch.export ({' '.join(str(error).split())[:300]}): {path}"
        ) from error
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    inputs = tuple(_export_spec(name, values.get(name), path) for name in signature.user_inputs)
    outputs = tuple(_export_spec(name, values.get(name), path) for name in signature.user_outputs)
    module = _positional(program.module())
    return TorchModel(module, inputs, outputs, {}, {"loaded_as": "torch.export program"})


def _export_spec(name: Any, value: Any, path: Path) -> TensorSpec:
    import torch

    if not isinstance(value, torch.Tensor):
        raise UsageProblem(
            f"{name} of the exported program is not a tensor; export a program with only tensors: {path}"
        )
    dims = tuple(dim if isinstance(dim, int) else None for dim in value.shape)
    return TensorSpec(str(name), str(value.dtype).removeprefix("torch."), dims)


def _positional(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module whose result is a tuple whatever `module` returns."""
    import torch

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            result = self.module(*inputs)
            return (result,) if isinstance(result, torch.Tensor) else tuple(result)

    return Positional()
