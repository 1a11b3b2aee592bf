"""Nodes that draw uniform random numbers, others at every run, by operators that ONNX Runtime has on a processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# From this operator set on ONNX Runtime (1.31) has none of ONNX's random operators, but Dropout in training mode.
_WITHOUT_RANDOM = 22
_BITS = 4  # coins that a number is made of: it has 16 steps; each costs two floats of memory for each element
_COIN, _TRAINING, _ROW, _WEIGHTS = (f"trtw__{name}" for name in ("coin", "training", "row", "weights"))
_SEEDS = 1 << 24  # seeds are floats


class Drawing:
    """How numbers are drawn in models of an operator set."""

    def __init__(self, opset: int) -> None:
        """Take the version of ONNX's operators."""
        self._by_coins = opset >= _WITHOUT_RANDOM

    def constants(self) -> list[onnx.TensorProto]:
        """Return what the main graph needs once."""
        if not self._by_coins:
            return []
        weights = 2.0 ** np.arange(_BITS) / (2**_BITS - 1)
        return [
            numpy_helper.from_array(np.array(0.5, np.float32), _COIN),
            numpy_helper.from_array(np.array(True), _TRAINING),
            numpy_helper.from_array(np.array([_BITS]), _ROW),
            numpy_helper.from_array(weights.astype(np.float32).reshape(-1, 1), _WEIGHTS),
        ]

    def nodes(self, like: str, made: str, kind: int, *, low: float, high: float, seed: int) -> list[onnx.NodeProto]:
        """Return nodes that make `made`, of an element type and of the shape of `like`, with numbers of a range."""
        drawn = f"{made}__drawn"
        cast = helper.make_node("Cast", [drawn], [made], to=kind)
        if not self._by_coins:
            # ONNX Runtime draws float and double alone
            dtype = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
            number = float(seed % _SEEDS)
            draw = helper.make_node("RandomUniformLike", [like], [drawn], low=low, high=high, dtype=dtype, seed=number)
            return [draw, cast]
        nodes: list[onnx.NodeProto] = []

        def node(operator: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
            names = [f"{made}__{output}" for output in outputs]
            nodes.append(helper.make_node(operator, inputs, names, **attributes))
            return names[-1]

        def constant(name: str, number_type: int, shape: list[int], value: float) -> str:
            return node("Constant", [], name, value=helper.make_tensor(name, number_type, shape, [value]))

        count = node("Reshape", [node("Size", [like], "size"), constant("line", TensorProto.INT64, [1], -1)], "count")
        one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
        coins = node("ConstantOfShape", [node("Concat", [count, _ROW], "rows", axis=0)], "ones", value=one)
        # the mask, as ONNX Runtime takes a Dropout away whose mask nobody reads, in training mode too
        kept = node("Dropout", [coins, _COIN, _TRAINING], "left", "kept", seed=seed % _SEEDS)
        sums = node("MatMul", [node("Cast", [kept], "coins", to=TensorProto.FLOAT), _WEIGHTS], "sums")
        wide = node("Mul", [sums, constant("width", TensorProto.FLOAT, [], high - low)], "wide")
        moved = node("Add", [wide, constant("low", TensorProto.FLOAT, [], low)], "moved")
        node("Reshape", [moved, node("Shape", [like], "shape")], "drawn", allowzero=1)
        return [*nodes, cast]
