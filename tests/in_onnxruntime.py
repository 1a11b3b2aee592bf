"""Models in ONNX Runtime by itself, on the CPU: what rewritten models and our own sessions are compared with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader

Network = onnx.ModelProto | Path


def session(model: Network, level: str = "ORT_ENABLE_ALL") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    source = model if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model: Network, inputs: Mapping[str, Any], level: str = "ORT_ENABLE_ALL") -> list[np.ndarray]:
    """Return the outputs; `inputs` may hold more than the model takes."""
    loaded = session(model, level)
    found: list[np.ndarray] = loaded.run(None, {value.name: inputs[value.name] for value in loaded.get_inputs()})
    return found


def outputs(model: Network, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the outputs by name."""
    return dict(zip([value.name for value in session(model).get_outputs()], run(model, inputs), strict=True))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Inputs for ONNX Runtime's quantiser."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self._left = samples[::-1]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None
