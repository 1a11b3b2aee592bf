"""Nondeterministic operators: their results differ from run to run."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.constants import constants
from trt_workbench.model.editing import NodeWriter, inlined
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import operator_name
from trt_workbench.model.walking import all_graphs, all_nodes

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
            # ONNX Runtime draws only float and double
            dtype = kind if kind == TensorProto.DOUBLE else TensorProto.FLOAT
            drawn = node("RandomUniformLike", like, low=low, high=high, dtype=dtype, seed=float(seed % _SEEDS))
            return node("Cast", drawn, to=kind)
        held = {name: one.name for name, one in self._constants.items()}
        # the mask of the Dropout, as ONNX Runtime takes away one whose mask nobody reads, in training mode too
        text = f"""
            size = Size(x) one = Constant<value = int64[1] {{-1}}>() count = Reshape(size, one)
            shape = Concat<axis = 0>(count, row) coins = ConstantOfShape<value = float[1] {{1}}>(shape)
            left, mask = Dropout<seed = {seed % _SEEDS}>(coins, coin, training) kept = Cast<to = 1>(mask)
            sums = MatMul(kept, weights) span = Constant<value = float {{{high - low!r}}}>() wide = Mul(sums, span)
            least = Constant<value = float {{{low!r}}}>() moved = Add(wide, least) like = Shape(x)
            shaped = Reshape<allowzero = 1>(moved, like) y = Cast<to = {kind}>(shaped)
        """
        return self.writer.formula(text, f"{stem}__drawn", x=like, **held)


# A seed does not help: every runtime draws other numbers from it, and other ones again at the next call.
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Sampling"}
)
# Operators that are random only in training, with the place of the input that says so.
_TRAINED = {"Dropout": 2, "BitmaskDropout": 2, "BiasDropout": 4, "BitmaskBiasDropout": 4}


def refuse_random(model: Model, done: str, otherwise: str = "") -> None:
    """Raise UsageProblem for a nondeterministic model, or one that cannot be read.

    Args:
        model: the opened file.
        done: what cannot be done with it, such as "verified".
        otherwise: what the user may do in place of that, a sentence.
    """
    if found := random_operators(model.proto):
        raise UsageProblem(
            f"The model is nondeterministic ({', '.join(found)}): two correct runs differ for any seed, so it cannot "
            f"be {done}. Export it for inference, without these operators, or cut it before "
            f"them{'; ' + otherwise if otherwise else ''}: {model.path}"
        )


def random_operators(model: onnx.ModelProto) -> list[str]:
    """Return the names of the random operators of a model, those in subgraphs and functions included.

    A dropout counts unless its training mode is left out or a constant `false`.

    Args:
        model: with or without its weights.
    """
    known = []
    whole = inlined(model)
    for values in map(constants, all_graphs(whole)):
        known += [(name, bool(values[name].any())) for name in values if values.facts(name)[0] == np.bool_]
    # parts of the model may give a name several values
    off = {name for name, on in known if not on} - {name for name, on in known if on}
    found = set()
    for node in all_nodes(whole):
        place = _TRAINED.get(node.op_type)
        mode = node.input[place] if place is not None and len(node.input) > place else ""
        if node.op_type in _RANDOM or (mode and mode not in off):
            found.add(operator_name(node) + (" in training mode" if mode else ""))
    return sorted(found)
