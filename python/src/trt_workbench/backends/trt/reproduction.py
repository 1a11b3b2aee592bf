"""A script that builds and runs a model with TensorRT's own Python package, as a session did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.reproduction import Reproduction
from trt_workbench.core.precision import parse

_TENSORRT = """builder = trt.Builder(logger := trt.Logger(trt.Logger.WARNING))
explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # none in TensorRT 11
network = builder.create_network(0 if explicit is None else 1 << int(explicit))
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file(str(here / "minimal.onnx")), parser.get_error(0)
config = builder.create_builder_config()
{settings}
engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
context = engine.create_execution_context()
arrays = inputs | {{name: np.zeros_like(array) for name, array in expected.items()}}
tensors = {{name: torch.from_numpy(array).cuda() for name, array in arrays.items()}}
for name, tensor in tensors.items():
    if name in inputs:
        context.set_input_shape(name, tuple(tensor.shape))
    context.set_tensor_address(name, tensor.data_ptr())
context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
found = {{name: tensors[name].cpu().numpy() for name in expected}}
"""


def trt_reproduction(options: SessionOptions, provenance: Mapping[str, Any]) -> Reproduction | None:
    """Return the parts of the script, as `Backend.reproduction` describes."""
    settings = _settings(options, provenance)
    if settings is None:
        return None
    body = _TENSORRT.format(settings="\n".join(settings))
    return Reproduction("tensorrt, torch and numpy", "import numpy as np, tensorrt as trt, torch", body)


def _settings(options: SessionOptions, provenance: Mapping[str, Any]) -> list[str] | None:
    """Return the lines that set a TensorRT builder as the session did; None where they would not say the same."""
    types = [row for row in parse(options.precision) if row.is_half or row.is_quantised]
    known = {"optimization_level", "tactic_sources"}
    sources = options.extra.get("tactic_sources", ())
    sources = [sources] if isinstance(sources, str) else list(sources)
    only_off = all(str(name).startswith("-") for name in sources)
    unsaid = len(types) > 1 or any(row.is_quantised for row in types) or options.extra.keys() - known
    if unsaid or not only_off or "converted_file" in provenance:
        return None
    lines = [f"config.set_flag(trt.BuilderFlag.{row.flag.upper()})" for row in types]
    if "tf32" not in options.precision.split("+"):
        lines.append("config.clear_flag(trt.BuilderFlag.TF32)")
    if (level := options.extra.get("optimization_level")) is not None:
        lines.append(f"config.builder_optimization_level = {level}")
    if sources:
        off = " | ".join(f"1 << int(trt.TacticSource.{str(name)[1:].upper()})" for name in sources)
        lines.append(f"config.set_tactic_sources(config.get_tactic_sources() & ~({off}))")
    if options.shapes:
        ranges = {name: (one.min, one.opt, one.max) for name, one in options.shapes.shapes.items()}
        lines.append("profile = builder.create_optimization_profile()")
        lines.append(f"for name, shapes in {ranges!r}.items(): profile.set_shape(name, *shapes)")
        lines.append("config.add_optimization_profile(profile)")
    return lines
