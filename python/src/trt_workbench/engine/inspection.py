"""What TensorRT tells of a plan: memory, profiles, and its layers from the engine inspector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.engine import native
from trt_workbench.engine.layer_precision import layer_precision
from trt_workbench.engine.loading import CheckedPlan, load_checked
from trt_workbench.model.precision import Precision


@dataclass(frozen=True)
class TensorRanges:
    """An input or output of an engine, with the shapes that each profile allows.

    Attributes:
        name: of the tensor.
        is_input: whether it is an input.
        dtype: numpy's name, or TensorRT's where numpy has none.
        shape: -1 for a dimension known at run time only.
        format: TensorRT's description of the memory layout.
        location: "device", or "host" for shape tensors.
        profiles: per profile (min, opt, max); of inputs only.
    """

    name: str
    is_input: bool
    dtype: str
    shape: tuple[int, ...]
    format: str
    location: str
    profiles: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class Inspection:
    """What TensorRT tells of an engine.

    Attributes:
        summary: properties of the engine, such as `device_memory_bytes` and `tactic_sources`.
        tensors: inputs and outputs in the engine's order.
        layers: one document a layer; with verbosity "layer_names_only" they hold the key `Name` alone.
        notes: what a person should know.
    """

    summary: dict[str, Any]
    tensors: tuple[TensorRanges, ...]
    layers: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """Return everything but the notes as JSON values."""
        tensors = [asdict(tensor) for tensor in self.tensors]
        return {**self.summary, "tensors": tensors, "layers": list(self.layers)}


def inspect_plan(
    plan: CheckedPlan, *, allow_host_code: bool = False, device: int = 0, plugins: Sequence[Path] = ()
) -> Inspection:
    """Deserialise a checked plan and ask TensorRT about it.

    Args:
        plan: from `read_plan`.
        allow_host_code: let a version-compatible plan execute the host code it carries.
        device: index of the CUDA device.
        plugins: plugin libraries to load first; those that the manifest names must be among them.

    Raises:
        UsageProblem: the plan was made for another TensorRT version or GPU, or needs a plugin library.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device is out of memory or failed.
    """
    loaded = load_checked(plan, allow_host_code=allow_host_code, device=device, plugins=plugins)
    with native.translated():
        summary = dict(native.require("inspect_engine")(loaded.engine))
    layers, notes = read_layers(str(summary.pop("layers_json")))
    tensors = tuple(_ranges(tensor) for tensor in loaded.engine.tensors)
    return Inspection(summary, tensors, layers, (*loaded.notes, *notes))


def engine_precision(engine: Any, allowed: Sequence[str] = ()) -> Precision:
    """Return what the layers of a deserialised engine compute in.

    Args:
        engine: the core's.
        allowed: precisions that it was built with, for an engine that tells the names of its layers alone.

    Raises:
        ComponentMissing: the native core or TensorRT is absent.
    """
    with native.translated():
        text = str(native.require("inspect_engine")(engine)["layers_json"])
    return layer_precision(read_layers(text)[0], allowed)


def read_layers(text: str) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Return the layers in the engine inspector's JSON, and notes.

    The inspector lists names alone unless the engine was built with detailed profiling verbosity.
    """
    try:
        # TensorRT 8.6 leaves the characters that part a layer's metadata (0x1E, 0x1F) unescaped
        found = json.loads(text, strict=False)["Layers"]
    except json.JSONDecodeError as error:
        return (), (_unreadable(f"{error}, near {text[max(0, error.pos - 60) : error.pos + 20]!r}"),)
    except (KeyError, TypeError):
        found = None
    if not isinstance(found, list):
        return (), (_unreadable(f"it has no list of layers and begins {text[:80]!r}"),)
    layers = tuple(layer if isinstance(layer, dict) else {"Name": str(layer)} for layer in found)
    if layers and all(layer.keys() == {"Name"} for layer in layers):
        return layers, ("The engine tells layer names only; build it with --profiling-verbosity detailed for more.",)
    return layers, ()


def _unreadable(reason: str) -> str:
    return f"What TensorRT's engine inspector returned cannot be read: {reason}"


def _ranges(tensor: Any) -> TensorRanges:
    profiles = tuple(tuple(tuple(dims) for dims in profile) for profile in tensor.profiles)
    return TensorRanges(
        tensor.name, tensor.is_input, tensor.dtype, tuple(tensor.shape), tensor.format, tensor.location, profiles
    )
