"""Models for tests, written in ONNX's own language."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx


def write_onnx(path: Path, text: str, weights: Mapping[str, Any] | None = None, opset: int = 17) -> Path:
    """Write a model such as `g (float[N,3] x) => (float[N,3] y) { [name] y = Mul(x, w) }`, with arrays as weights."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    onnx.save(model, path)
    return path
