"""Nondeterministic operators: their results differ from run to run."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.editing import NodeWriter
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import is_external, operator_name
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
    graphs = list(all_graphs(model))
    nodes = list(all_nodes(model))
    off = {name for name, value in _flags(graphs, nodes).items() if not value}
    found = set()
    for node in nodes:
        place = _TRAINED.get(node.op_type)
        mode = node.input[place] if place is not None and len(node.input) > place else ""
        if node.op_type in _RANDOM or (mode and mode not in off):
            found.add(operator_name(node) + (" in training mode" if mode else ""))
    return sorted(found)


def _flags(graphs: list[onnx.GraphProto], nodes: list[onnx.NodeProto]) -> dict[str, bool]:
    """Return the constant booleans of a model by name; True where parts of the model give a name several values."""
    tensors = [(tensor.name, tensor) for graph in graphs for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in nodes
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    # what has an initial value may be an input too, which a caller may set
    inputs = {value.name for graph in graphs for value in graph.input}
    found: dict[str, bool] = {}
    for name, tensor in tensors:
        if tensor.data_type == onnx.TensorProto.BOOL and name not in inputs and not is_external(tensor):
            found[name] = found.get(name, False) or bool(numpy_helper.to_array(tensor).any())
    return found
