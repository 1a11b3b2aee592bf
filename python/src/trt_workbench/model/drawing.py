"""Nodes that draw uniform random numbers, others at every run, by operators that ONNX Runtime has on a processor."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.model.editing import NodeWriter

# From this operator set on ONNX Runtime (1.31) has none of ONNX's random operators, but Dropout in training mode.
_WITHOUT_RANDOM = 22
_BITS = 4  # coins that a number is made of: it has 16 steps; each costs two floats of memory for each element
_SEEDS = 1 << 24  # seeds are floats


class RandomSource:
    """How numbers are drawn in models of an operator set."""

    def __init__(self, opset: int, writer: NodeWriter) -> None:
        """Take the version of ONNX's operators, and what writes the nodes."""
        self._by_coins, self.writer = opset >= _WITHOUT_RANDOM, writer
        weights = 2.0 ** np.arange(_BITS) / (2**_BITS - 1)
        values = {"coin": np.float32(0.5), "training": True, "row": [_BITS], "weights": weights.reshape(-1, 1)}
        dtypes = {"weights": np.float32}
        self._constants = {
            name: numpy_helper.from_array(np.asarray(value, dtypes.get(name)), writer.names.fresh(f"trtw__{name}"))
            for name, value in values.items()
            if self._by_coins
        }

    def constants(self) -> list[onnx.TensorProto]:
        """Return what the main graph needs once."""
        return list(self._constants.values())

    def draw(self, like: str, stem: str, kind: int, *, low: float, high: float, seed: int) -> str:
        """Write nodes that draw numbers of a range, of an element type and the shape of `like`; return the tensor."""
        node = partial(self.writer.node, stem=f"{stem}__drawn")
        if not self._by_coins:
            # ONNX Runtime draws float and double alone
            dtype = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
            number = float(seed % _SEEDS)
            drawn = node("RandomUniformLike", like, low=low, high=high, dtype=dtype, seed=number)
            return node("Cast", drawn, to=kind)
        coin, training, row, weights = (one.name for one in self._constants.values())

        def constant(number_type: int, shape: list[int], value: float) -> str:
            return node("Constant", value=helper.make_tensor("value", number_type, shape, [value]))

        count = node("Reshape", node("Size", like), constant(TensorProto.INT64, [1], -1))
        one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
        coins = node("ConstantOfShape", node("Concat", count, row, axis=0), value=one)
        # the mask, as ONNX Runtime takes a Dropout away whose mask nobody reads, in training mode too
        stems = [f"{stem}__left", f"{stem}__kept"]
        _, kept = self.writer.outputs("Dropout", [coins, coin, training], stems, seed=seed % _SEEDS)
        sums = node("MatMul", node("Cast", kept, to=TensorProto.FLOAT), weights)
        wide = node("Mul", sums, constant(TensorProto.FLOAT, [], high - low))
        moved = node("Add", wide, constant(TensorProto.FLOAT, [], low))
        return node("Cast", node("Reshape", moved, node("Shape", like), allowzero=1), to=kind)
