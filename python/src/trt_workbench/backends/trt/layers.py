"""TensorRT's times by layer, joined with the engine inspector's layers and with the nodes of the ONNX model."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.profiling import Operation, layer_role
from trt_workbench.engine import native
from trt_workbench.engine.inspection import read_layers, tensor_types
from trt_workbench.engine.loading import LoadedEngine


@dataclass(frozen=True)
class LayerTimes:
    """Layers of one engine.

    Attributes:
        layers: as the engine inspector reports them; only `Name` unless built with detailed profiling verbosity.
        times: name and milliseconds [iterations] of every layer, in the order of execution.
        notes: what the user should know.
    """

    layers: tuple[dict[str, Any], ...]
    times: tuple[tuple[str, NDArray[np.float32]], ...]
    notes: tuple[str, ...]


def time_layers(
    loaded: LoadedEngine, inputs: Mapping[str, NDArray[Any]], iterations: int, profile: int | None = None
) -> LayerTimes:
    """Run an engine with TensorRT's profiler, without a CUDA graph; the sum exceeds the engine's own time.

    Args:
        loaded: the engine.
        inputs: by name.
        iterations: runs after one to warm up.
        profile: optimisation profile; None chooses by the shapes.

    Raises:
        UsageProblem: the inputs do not fit, or the engine was built with profiling verbosity "none".
        ComponentMissing: the native core lacks CUDA or TensorRT.
        DeviceFailure: the device failed or is out of memory.
    """
    with native.translated():
        text = str(native.require("inspect_engine")(loaded.engine)["layers_json"])
        found = native.require("profile_layers")(loaded.engine, dict(inputs), iterations=iterations, profile=profile)
    layers, notes = read_layers(text)
    return LayerTimes(layers, tuple((layer.name, layer.milliseconds) for layer in found), notes)


_METADATA = re.compile(r"\[ONNX Layer: (.*)\]", re.DOTALL)
_BETWEEN_ENTRIES = re.compile(r"[\x1e\x1f]|(?<=\])\s*(?=\[ONNX Layer: )")
_REFORMAT = re.compile(
    r"Reformatting CopyNode for (?:Input|Output|Network Input|Network Output)(?: Tensor \d+ to)? (.+)"
)
_BETWEEN_NAMES = re.compile(r" \+ | \|\| |\.\.\.|[(){}\[\],]")
_SUFFIX = re.compile(r"(?:_clone_\d+| copy| \d+)$")
# Words that TensorRT's own names are made of.
_WORDS = frozenset({"PWN", "ForeignNode", "Unnamed Layer*", "HostToDeviceCopy", "ShapeHostToDeviceCopy"})


def names_in_metadata(metadata: str) -> list[str]:
    """Return the names of the nodes in a layer's metadata, each once, in order."""
    found = [_METADATA.fullmatch(part.strip()) for part in _BETWEEN_ENTRIES.split(metadata)]
    return list(dict.fromkeys(match.group(1) for match in found if match))


def served_layer(layer: str) -> str | None:
    """Return the layer that a reformat layer works for; None for any other layer."""
    match = _REFORMAT.fullmatch(layer)
    return match.group(1) if match else None


def names_in_layer(layer: str, known: Collection[str] = ()) -> list[str]:
    """Return the names of nodes in the name of a layer, each once, in order.

    Args:
        layer: TensorRT's name of it.
        known: names of the model's nodes, where the model is available; then only these are returned.

    Returns:
        The names; none for a layer of TensorRT's own. Of a region (`ForeignNode[first...last]`) only the two ends.
    """
    if layer in known:
        return [layer]
    if served_layer(layer) or layer.startswith("__myl"):
        return []
    parts = [part.strip() for part in _BETWEEN_NAMES.split(layer)]
    names = [part if part in known else _SUFFIX.sub("", part) for part in parts]
    if known:
        return list(dict.fromkeys(name for name in names if name in known))
    if layer.startswith("(Unnamed Layer*"):
        return []
    return list(dict.fromkeys(name for name in names if name and " " not in name and name not in _WORDS))


Times = Sequence[tuple[str, NDArray[np.floating[Any]]]]


def join_layers(layers: Sequence[Mapping[str, Any]], times: Times, operators: Mapping[str, str]) -> list[Operation]:
    """Return one operation a layer.

    Layers are matched with times by name; of several layers with one name, the first belongs to the first time. A
    layer without a time (a constant, an alias) has none, and a time without a layer is kept under its name.

    Args:
        layers: as the engine inspector reports them, in detail or only by `Name`.
        times: name and milliseconds [iterations] of every layer, in the order of execution.
        operators: operators of the model's nodes by name; empty where the model is not available.
    """
    waiting: dict[str, deque[NDArray[np.floating[Any]]]] = defaultdict(deque)
    for name, samples in times:
        waiting[name].append(samples)
    operations: list[Operation] = []
    for layer in layers:
        queue = waiting[str(layer.get("Name", ""))]
        operations.append(_operation(layer, queue.popleft() if queue else None, operators, len(operations)))
    for name, left in waiting.items():
        for samples in left:
            operations.append(_operation({"Name": name}, samples, operators, len(operations)))
    return operations


def _operation(
    layer: Mapping[str, Any],
    samples: NDArray[np.floating[Any]] | None,
    operators: Mapping[str, str],
    index: int,
) -> Operation:
    name = str(layer.get("Name", ""))
    nodes = names_in_metadata(str(layer.get("Metadata", ""))) or names_in_layer(name, operators.keys())
    timed = samples if samples is not None and len(samples) else None
    return Operation(
        kind="layer",
        index=index,
        name=name,
        operator=layer.get("LayerType"),
        role=layer_role(layer, nodes, operators),
        onnx_nodes=nodes,
        serves=served_layer(name),
        input_types=tensor_types(layer.get("Inputs")),
        output_types=tensor_types(layer.get("Outputs")),
        tactic=layer.get("TacticName"),
        median_ms=None if timed is None else float(np.median(timed)),
        mean_ms=None if timed is None else float(np.mean(timed)),
    )
