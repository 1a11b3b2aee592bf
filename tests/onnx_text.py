"""Models for tests, written in ONNX's own language."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def parse_onnx(text: str, weights: Mapping[str, Any] | None = None, opset: int = 17) -> onnx.ModelProto:
    """Make a model of `g (float[N,3] x) => (float[N,3] y) { [name] y = Mul(x, w) }`, with arrays as weights."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {text}')
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()
    )
    return model


def write_onnx(path: Path, text: str, weights: Mapping[str, Any] | None = None, opset: int = 17) -> Path:
    """Write the model of `parse_onnx`."""
    onnx.save(parse_onnx(text, weights, opset), path)
    return path


def write_detector(
    path: Path,
    boxes: Any,
    properties: Mapping[str, str],
    *,
    batch: int | str = "N",
    size: int | str = 32,
    gain: float = 1,
) -> None:
    """Write a detector as yolov10 that always sees `boxes` [K,6], the first as surely as the image is bright."""
    rows = np.array([boxes], np.float32)
    strength = np.zeros_like(rows)
    strength[0, 0, 4] = gain
    weights = {"shape": np.array([-1, 1, 1]), "rows": rows, "gain": strength}
    write_onnx(
        path,
        f"brightness (float[{batch},3,{size},{size}] images) => (float[{batch},{rows.shape[1]},6] output0) {{ "
        "mean = ReduceMean<axes=[1, 2, 3]>(images) score = Reshape(mean, shape) scores = Mul(score, gain) "
        "output0 = Add(rows, scores) }",
        weights,
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    onnx.save(model, path)
