"""Measure how exactly a backend computes the elementary functions of ONNX in fp32: what `verify` has to allow them.

    python functions.py --output FILE [--backend trt] [--level 0] [--jobs N] [--only Tanh Erf …] [--range LOW HIGH]

Each function is a graph of its own, alone and after a product and a sum that a compiler fuses with it. Truth is
ONNX's reference implementation in float64. One JSON line a graph: the largest and the 90th percentile of the error,
relative to the value and to the largest value of the array, in units of roundoff (2^-24), and the largest error that
16 units of the value do not explain.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

UNIT = 2.0**-24
SHAPE = (64, 256)
_WIDE, _POSITIVE, _INNER = (-10.0, 10.0), (0.01, 20.0), (-0.99, 0.99)
# Of each function: the range of its argument and its attributes.
FUNCTIONS: dict[str, tuple[tuple[float, float], dict[str, Any]]] = {
    **{name: (_WIDE, {}) for name in ("Tanh", "Sigmoid", "Erf", "Exp", "Sin", "Cos", "Tan", "Atan", "Softplus")},
    **{name: (_WIDE, {}) for name in ("Sinh", "Cosh", "Asinh", "Elu", "Selu", "Softsign", "HardSigmoid", "HardSwish")},
    **{name: (_POSITIVE, {}) for name in ("Log", "Sqrt", "Reciprocal")},
    **{name: (_INNER, {}) for name in ("Asin", "Acos", "Atanh")},
    "Acosh": ((1.01, 20.0), {}),
    "Softmax": (_WIDE, {"axis": -1}),
    "LogSoftmax": (_WIDE, {"axis": -1}),
    "Gelu": (_WIDE, {}),
    "LayerNormalization": (_WIDE, {"axis": -1}),
    "Pow": (_POSITIVE, {}),
    "Div": (_POSITIVE, {}),
    "ReduceMean": (_WIDE, {"axes": [-1], "keepdims": 1}),
}
# Functions that came after version 17 of the operators, the newest that TensorRT 8.6 reads.
_NEWER = {"Gelu": 20}


def model(function: str, *, fused: bool, kind: int) -> onnx.ModelProto:
    """Return y = f(x), or y = f(x * a + b) with a near 1 and b near 0; x and y have SHAPE, of element type `kind`."""
    attributes = FUNCTIONS[function][1]
    generator = np.random.default_rng(3)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights, nodes, value = [], [], "x"

    def weight(name: str, array: np.ndarray[Any, Any]) -> str:
        # of values that float32 holds, so that both types compute with the same ones
        weights.append(numpy_helper.from_array(array.astype(np.float32).astype(dtype), name))
        return name

    if fused:
        nodes.append(helper.make_node("Mul", ["x", weight("a", generator.uniform(0.99, 1.0, SHAPE[1]))], ["xa"]))
        nodes.append(helper.make_node("Add", ["xa", weight("b", generator.uniform(0, 0.001, SHAPE[1]))], ["xab"]))
        value = "xab"
    inputs = [value]
    if function in ("Pow", "Div"):
        inputs.append(weight("second", generator.uniform(0.5, 3.0, SHAPE[1])))
    if function == "LayerNormalization":
        inputs.append(weight("scale", generator.uniform(0.5, 1.5, SHAPE[1])))
    nodes.append(helper.make_node(function, inputs, ["y"], **attributes))
    info = [helper.make_tensor_value_info(name, kind, None if name == "y" else SHAPE) for name in ("x", "y")]
    graph = helper.make_graph(nodes, function, info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _NEWER.get(function, 17))], ir_version=8)


def measured(
    function: str, *, fused: bool, backend: str, level: int, bounds: tuple[float, float] | None
) -> dict[str, Any]:
    """Return the record of one graph."""
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.registry import require_backend

    low, high = bounds or FUNCTIONS[function][0]
    x = np.random.default_rng(7).uniform(low, high, SHAPE).astype(np.float32)
    truth = ReferenceEvaluator(model(function, fused=fused, kind=TensorProto.DOUBLE)).run(
        None, {"x": x.astype(np.float64)}
    )[0]
    record: dict[str, Any] = {"function": function, "fused": fused, "backend": backend, "level": level}
    record["range"] = [low, high]
    extra: dict[str, Any] = {}
    if backend == "trt":
        extra = {"optimization_level": level, "tactic_sources": ["-CUBLAS", "-CUBLAS_LT", "-CUDNN"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model(function, fused=fused, kind=TensorProto.FLOAT), path)
        try:
            with require_backend(backend).load(path, SessionOptions(extra=extra)) as session:
                found = session.run({"x": x})["y"].astype(np.float64)
        except Exception as error:
            return {**record, "reason": str(error)[:300]}  # such as a function that a backend lacks
    error = np.abs(found - truth)
    relative = error / np.maximum(np.abs(truth), np.finfo(np.float32).tiny)
    to_largest = error / np.abs(truth).max()
    unexplained = float(np.maximum(0, error - 16 * UNIT * np.abs(truth)).max())
    return {
        **record,
        "beyond_16_units": float(f"{unexplained:.3g}"),
        **{
            f"{name}_{share}_units": float(f"{value / UNIT:.4g}")
            for name, values in (("relative", relative), ("of_largest", to_largest))
            for share, value in (("p90", np.quantile(values, 0.9)), ("max", values.max()))
        },
    }


def main() -> int:
    """Measure what was asked for and return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--backend", default="trt")
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of the arguments")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        asked = [
            pool.submit(
                measured, function, fused=fused, backend=options.backend, level=options.level, bounds=options.range
            )
            for function in options.only
            for fused in (False, True)
        ]
        with options.output.open("w", encoding="utf-8") as file:
            for one in asked:
                file.write(json.dumps(one.result()) + "\n")
                sys.stdout.write(json.dumps(one.result()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
