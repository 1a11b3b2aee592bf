"""What TensorRT tells of an engine's layers while it runs: their times, and the inspector's description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.engine import native
from trt_workbench.engine.inspection import read_layers
from trt_workbench.engine.loading import LoadedEngine


@dataclass(frozen=True)
class LayerTimes:
    """Layers of one engine.

    Attributes:
        layers: as the engine inspector tells them; `Name` alone unless built with detailed profiling verbosity.
        times: name and milliseconds [iterations] of every layer, in the order of execution.
        notes: what a person should know.
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
