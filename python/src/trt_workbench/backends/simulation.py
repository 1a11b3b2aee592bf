"""Models in formats that a runtime lacks: simulated on the CPU, refused in one sentence elsewhere."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from trt_workbench.backends.ort.common import CPU_PROVIDER
from trt_workbench.backends.ort.rewrites import optimised_model
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.memory import give_back
from trt_workbench.core.workspace import cache_root
from trt_workbench.model.editing import Names, NodeWriter
from trt_workbench.model.graph_types import computed_results, output_type
from trt_workbench.model.narrow_formats import is_widening
from trt_workbench.model.opened import Model, checked_on_error, once
from trt_workbench.model.proto import STANDARD, copied, integer
from trt_workbench.model.walking import all_graphs, nodes_within, readers

# They move codes before a product; the products and their axes for which there are kernels of QLinear operators:
# the last axis of a matrix, the first of a convolution's weights.
_MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Gather", "Slice", "Cast"})
_AXES = {"MatMul": (1, -1), "Conv": (0, -4), "ConvTranspose": (0, 1, -4, -3), "Gemm": (0, 1, -1, -2)}
_MATRIX = 2


def with_zero_points(model: onnx.ModelProto) -> int:
    """Write out the zero points of int8 weights with a scale for each channel, which are optional in ONNX.

    The rewrite behind `session.x64quantprecision` (ONNX Runtime 1.31) gives such weights one zero point for all
    channels, which its own DequantizeLinear refuses.

    Args:
        model: changed; with or without its weights.

    Returns:
        How many there were.
    """
    writer, count, known = NodeWriter(Names.of(model)), 0, _Tensors(model)
    for graph in all_graphs(model):
        for node in graph.node:
            lacking = len(node.input) < 3 or not node.input[2]
            if lacking and known.has_channels(node) and known.kinds.get(node.input[0]) == TensorProto.INT8:
                zeros = writer.constant(np.zeros(known.shapes[node.input[1]], np.int8), f"{node.input[1]}_zero_point")
                node.input[:] = [*node.input[:2], zeros]
                count += 1
        graph.initializer.extend(writer.initializers)
        writer.initializers.clear()
    return count


def lacks_kernel(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime would fuse a scale for each channel into an operator that takes none along that axis."""
    known = _Tensors(model)
    for graph in all_graphs(model):
        following = readers(graph.node)
        for node in graph.node:
            if not known.has_channels(node):
                continue
            axis, rank = integer(node, "axis", 1), len(known.shapes.get(node.input[0], ()))
            for reader in following[node.output[0]]:
                axes = _AXES.get(reader.op_type, ())
                matrix = reader.op_type != "MatMul" or rank == _MATRIX
                if reader.op_type not in _MOVES and not (axis in axes and matrix):
                    return True
    return False


class _Tensors:
    """Constants of a model, in all its graphs, and what QuantizeLinear makes of them: element types and shapes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.kinds: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for graph in all_graphs(model):
            for tensor in graph.initializer:
                self._add(tensor.name, tensor.data_type, tensor.dims)
        for node in nodes_within(model.graph.node):
            if node.op_type == "Constant":
                for entry in (one for one in node.attribute if one.name == "value"):
                    self._add(node.output[0], entry.t.data_type, entry.t.dims)
            elif node.op_type == "QuantizeLinear" and node.input[0] in self.shapes:
                self._add(node.output[0], output_type(node, self.kinds), self.shapes[node.input[0]])

    def _add(self, name: str, kind: int, dims: Iterable[int]) -> None:
        self.kinds[name], self.shapes[name] = kind, tuple(dims)

    def has_channels(self, node: onnx.NodeProto) -> bool:
        """Whether a node widens constants of 8 bits by a scale for each channel."""
        own = node.domain in STANDARD and is_widening(node) and not integer(node, "block_size")
        codes = own and self.kinds.get(node.input[0]) in (TensorProto.INT8, TensorProto.UINT8)
        return bool(codes) and math.prod(self.shapes.get(node.input[1], ())) > 1


# Bump to invalidate cached files when the simulation changes.
_RECIPE = 6


def runnable_model(model: Model, *, exact: bool = False) -> tuple[Model, dict[str, Any]]:
    """Return what ONNX Runtime's CPU provider loads in place of `model`, and the record of it.

    A model in FP8, MXFP8, NVFP4, bf16 or fp16 is rewritten, once for every model, into standard operators and fp32 with
    exactly the formats' values; int8 weights with a scale for each channel get their zero points written out; any other
    model is loaded as it is. So is one in fp16 where the provider's own kernels
    compute in it, as on some processors of ARM, and where `exact` asks for the digits of fp32.

    Raises:
        UsageProblem: the model cannot be simulated.
    """
    found = [row.name for row in model.facts.rows if not row.cpu]
    if not exact and _lacks_fp16(model):
        found.append("fp16")
    written_out = _lacks_zero_points(model)
    if not found and not written_out:
        return model, {}
    from trt_workbench.core.documents import write_json
    from trt_workbench.core.kept import seal, sealed
    from trt_workbench.model.low_precision.simulate import simulated
    from trt_workbench.model.weights import save_model

    key = {
        "recipe": _RECIPE,
        "model_sha256": model.sha256,
        "onnx": str(onnx.__version__),
        "formats": found,
        "zero_points": written_out,
    }
    folder = cache_root() / "simulated" / hash_document(key)
    path, record = folder / "model.onnx", folder / "simulation.json"
    files = (path, folder / "model.onnx.data", record)
    if not sealed(files):
        try:
            rewritten = model.load()
            if found:
                with checked_on_error(model):
                    rewritten = simulated(rewritten, ("bf16", *(["fp16"] if "fp16" in found else [])))
            with_zero_points(rewritten)
        except UsageProblem as error:
            raise UsageProblem(f"The model uses {' and '.join(found)} and cannot be simulated. {error}") from error
        save_model(rewritten, path)
        del rewritten
        give_back()
        write_json(record, {"schema_version": 1, **key})
        seal(files)
    made = {"simulated": True, "simulated_formats": found, "simulated_file": str(path)} if found else {}
    return Model.open(path), {**made, **({"zero_points": "written out"} if written_out else {})}


@once
def _lacks_zero_points(model: Model) -> bool:
    return model.facts.is_quantized and with_zero_points(copied(model.proto)) > 0


@once
def _lacks_fp16(model: Model) -> bool:
    """Whether a model computes in fp16, and ONNX Runtime's CPU provider would compute a part of that in fp32.

    It casts what it has no kernel for, and drops the casts between: nothing is rounded to fp16 then.
    """
    own = computed_results(model.proto)
    if "fp16" not in own.values():
        return False
    import onnxruntime as ort

    def load(config: Any) -> None:
        ort.InferenceSession(model.path, config, providers=[CPU_PROVIDER], enable_fallback=0)

    ran = optimised_model(ort, "basic", load)
    wide = {name for name, kind in computed_results(ran).items() if kind != "fp16"} if ran else {*own}
    return any(own.get(name) != "fp32" for name in wide)


def refuse_formats(backend: str, model: Model, runs: Collection[str] = ()) -> None:
    """Raise UsageProblem if a model is in a format that a backend lacks.

    Args:
        backend: its name.
        model: the model.
        runs: formats that it has, of those that ONNX Runtime's CPU provider lacks.
    """
    lacking = [row for row in model.facts.rows if not row.cpu and row.name not in runs]
    if lacking:
        built = ""
        if all(row.tensorrt for row in lacking):
            release = max(row.tensorrt for row in lacking)
            built = f", and TensorRT {release} or newer builds it for GPUs that support the format"
        raise UsageProblem(
            f"The model uses {' and '.join(row.name for row in lacking)}, which {backend} does not support; ort-cpu "
            f"simulates it{built}: {model.path}"
        )
