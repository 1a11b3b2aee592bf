"""TensorRT's times by layer, joined with the engine inspector's layers and with the nodes of the ONNX model."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.profiling import Operation
from trt_workbench.backends.roles import layer_role
from trt_workbench.backends.trt.names import names_in_layer, names_in_metadata, served_layer
from trt_workbench.engine.layer_precision import tensor_types

Times = Sequence[tuple[str, NDArray[np.floating[Any]]]]


def join_layers(layers: Sequence[Mapping[str, Any]], times: Times, operators: Mapping[str, str]) -> list[Operation]:
    """Return one operation a layer.

    Layers are matched with times by name; of several layers with one name, the first belongs to the first time. A
    layer without a time (a constant, an alias) has none, and a time without a layer is kept under its name.

    Args:
        layers: as the engine inspector tells them, in detail or by `Name` alone.
        times: name and milliseconds [iterations] of every layer, in the order of execution.
        operators: operators of the model's nodes by name; empty where the model is not at hand.
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
