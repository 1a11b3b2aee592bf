"""What TensorRT reports of a plan: memory, profiles, and its layers from the engine inspector."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from trt_workbench.core.precision import Format, data_type, find, ordered
from trt_workbench.engine import native
from trt_workbench.engine.loading import CheckedPlan, load_checked
from trt_workbench.model.precision import Precision, Source, shares_of

Move = Literal["reformat", "cast", "quantize", "copy", "other"]
"""What a layer is for that computes nothing the model asks for."""

_ORIGINS: Mapping[str, Move] = {"REFORMAT": "reformat", "CAST": "cast", "QDQ": "quantize"}
_LAYER_TYPES: Mapping[str, Move] = {
    "cast": "cast",
    "constant": "other",
    "dequantize": "quantize",
    "devicetoshapehost": "copy",
    "noop": "other",
    "quantize": "quantize",
    "reformat": "reformat",
    "shapehosttodevice": "copy",
}


def tensor_types(tensors: Any) -> list[str]:
    """Return the precisions of a layer's `Inputs` or `Outputs`; TensorRT 8 and 10 give format and type in one text."""
    found = []
    for tensor in tensors if isinstance(tensors, list) else []:
        if isinstance(tensor, dict):
            text = next((str(tensor[key]) for key in ("Datatype", "Format/Datatype", "Format") if key in tensor), "")
            found.append(data_type(text) or text or "?")
    return found


def move_of(layer: Mapping[str, Any]) -> Move | None:
    """Return what a layer moves or converts; None for one that may compute."""
    if move := _ORIGINS.get(str(layer.get("Origin", "")).upper()):
        return move
    if str(layer.get("Name", "")).startswith("Reformatting CopyNode"):
        return "reformat"
    return _LAYER_TYPES.get(str(layer.get("LayerType", "")).lower())


def layer_precision(layers: Sequence[Mapping[str, Any]], allowed: Sequence[str] = ()) -> Precision:
    """Return what an engine's layers compute in.

    Layers that only convert or move are left out, as are those of integers. A layer computes in the type of its
    weights, else in the narrowest type among its inputs; one of fp32 whose kernel multiplies in TF32 counts as that.
    A region that TensorRT compiles as a whole (`ForeignNode`) shows only the types at its borders: where more than
    fp32 is allowed, it may have chosen any of them.

    Args:
        layers: as the inspector lists them; with only names it is unknown what ran.
        allowed: precisions that the engine was built with, for the case that its layers do not show it.
    """
    choice = tuple(dict.fromkeys((*allowed, "fp32"))) if allowed else ()
    computing = [layer for layer in layers if move_of(layer) is None]
    shown = [layer for layer in computing if len(choice) < 2 or not _is_region(layer)]
    found = [name for layer in shown if (name := _computes_in(layer))]
    may_choose = choice if not found or len(shown) < len(computing) else ()
    source: Source = "engine layers" if found or not choice else "build options"
    return Precision(shares_of(found), "layers", len(found), source, may_choose=may_choose)


def _is_region(layer: Mapping[str, Any]) -> bool:
    return str(layer.get("Name", "")).startswith("{ForeignNode[") or layer.get("LayerType") == "Myelin"


def _computes_in(layer: Mapping[str, Any]) -> str | None:
    inputs = _formats(tensor_types(layer.get("Inputs")))
    weights = layer.get("Weights")
    weights_type = (
        data_type(str(weights.get("Type", ""))) if isinstance(weights, dict) and weights.get("Count") else None
    )
    held = _formats([weights_type or ""])
    candidates = held or inputs or _formats(tensor_types(layer.get("Outputs")))
    if any(_is_widened(row) for row in held):
        candidates = [*candidates, *inputs]
    wide = [row for row in candidates if not _is_widened(row)] or candidates
    if not wide:
        return None
    name = ordered(wide)[0].name
    return "tf32" if name == "fp32" and "tf32" in str(layer.get("TacticName", "")) else name


def _is_widened(row: Format) -> bool:
    """Whether weights of a format are widened to meet a wider input."""
    return row.bits <= 4


def _formats(names: Sequence[str]) -> list[Format]:
    return [row for row in map(find, names) if row]


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
    """What TensorRT reports of an engine.

    Attributes:
        summary: properties of the engine, such as `device_memory_bytes` and `tactic_sources`.
        tensors: inputs and outputs in the engine's order.
        layers: one document a layer; with verbosity "layer_names_only" they hold only the key `Name`.
        notes: messages for the user.
    """

    summary: dict[str, Any]
    tensors: tuple[TensorRanges, ...]
    layers: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """Return everything but the notes as JSON values."""
        return {**self.summary, "tensors": [asdict(tensor) for tensor in self.tensors], "layers": list(self.layers)}


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
        allowed: precisions that it was built with, for an engine that lists only the names of its layers.

    Raises:
        ComponentMissing: the native core or TensorRT is absent.
    """
    with native.translated():
        text = str(native.require("inspect_engine")(engine)["layers_json"])
    return layer_precision(read_layers(text)[0], allowed)


def read_layers(text: str) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Return the layers in the engine inspector's JSON, and notes.

    The inspector lists only names unless the engine was built with detailed profiling verbosity.
    """
    try:
        # TensorRT 8.6 leaves the characters that part a layer's metadata (0x1E, 0x1F) unescaped
        found = json.loads(text, strict=False)["Layers"]
    except json.JSONDecodeError as error:
        return (), (_unreadable(f"{error}, near {text[max(0, error.pos - 60) : error.pos + 20]!r}"),)
    except (KeyError, TypeError):
        found = None
    if not isinstance(found, list):
        return (), (_unreadable(f"it has no list of layers and begins with {text[:80]!r}"),)
    layers = tuple(layer if isinstance(layer, dict) else {"Name": str(layer)} for layer in found)
    if layers and all(layer.keys() == {"Name"} for layer in layers):
        return layers, ("The engine reports only layer names; build it with --profiling-verbosity detailed for more.",)
    return layers, ()


def _unreadable(reason: str) -> str:
    return f"The output of TensorRT's engine inspector cannot be read: {reason}"


def _ranges(tensor: Any) -> TensorRanges:
    profiles = tuple(tuple(tuple(dims) for dims in profile) for profile in tensor.profiles)
    return TensorRanges(
        tensor.name, tensor.is_input, tensor.dtype, tuple(tensor.shape), tensor.format, tensor.location, profiles
    )
