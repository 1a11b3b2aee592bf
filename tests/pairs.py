"""Pairs of arrays that every command has to judge alike, and a backend that returns the second of each.

`write_models` writes a model whose outputs are the first of every pair, whatever its inputs are, and beside it one with
the second ones, which the backend `pairs` runs in its place.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend

Array = NDArray[Any]
NAN, INF = np.nan, np.inf
_INPUTS = ("x", "s")


class Pair(NamedTuple):
    """A reference, what was computed, and whether that is right."""

    expected: Array
    found: Array
    right: bool


def _with(array: Array, place: Any, value: Any) -> Array:
    changed = array.copy()
    changed[place] = value
    return changed


def _made() -> dict[str, Pair]:
    random = np.random.default_rng(0)
    plain = random.standard_normal(64).astype(np.float32)
    near = (plain * (1 + 3e-7 * random.standard_normal(64))).astype(np.float32)
    zeros, whole, large = np.zeros(64, np.float32), np.arange(1000), 10**6 + np.arange(64)
    half = plain.astype(np.float16)
    right = {
        "rounding": (plain, near),
        "nan": (_with(plain, 3, NAN), _with(near, 3, NAN)),
        "other_nan": (_with(plain, 3, NAN), _with(near, 3, np.float32(-NAN))),
        "infinite": (_with(plain, 3, -INF), _with(near, 3, -INF)),
        "all_nan": (zeros + NAN, zeros + NAN),
        "all_infinite": (zeros - INF, zeros - INF),
        "zeros": (zeros, -zeros),
        "nearly_zeros": (zeros, zeros + np.float32(1e-12)),
        "subnormal": (zeros + np.float32(1e-40), zeros),
        "integers": (whole, whole),
        "int64": (np.array([2**53 + 1, -(2**63), 2**63 - 1]),) * 2,
        "booleans": (whole % 3 == 0, whole % 3 == 0),
        "bytes": (np.arange(256, dtype=np.uint8),) * 2,
        "half": (_with(half, 0, INF), _with(half, 0, INF)),
        "empty": (np.zeros((2, 0), np.float32),) * 2,
        "scalar": (np.array(1.5, np.float32),) * 2,
        "double": (plain.astype(np.float64) * 1e200, near.astype(np.float64) * 1e200),
    }
    wrong = {
        "nan_alone": (plain, _with(near, 3, NAN)),
        "nan_missing": (_with(plain, 3, NAN), near),
        "infinite_alone": (plain, _with(near, 3, INF)),
        "other_sign_of_infinity": (_with(plain, 3, INF), _with(near, 3, -INF)),
        "nan_for_infinity": (_with(plain, 3, -INF), _with(near, 3, NAN)),
        "largest_for_infinity": (_with(plain, 3, INF), _with(near, 3, np.finfo(np.float32).max)),
        "one_of_zeros": (zeros, _with(zeros, 3, 1)),
        "all_zeros": (plain, zeros),
        "off_by_one": (whole, _with(whole, 5, 6)),
        "large_off_by_one": (large, _with(large, 5, large[5] + 1)),
        "beyond_float64": (np.array([2**53, 1]), np.array([2**53 + 1, 1])),
        "extremes": (np.array([-(2**63), 0]), np.array([2**63 - 1, 0])),
        "byte_extremes": (np.array([255, 1], np.uint8), np.array([0, 1], np.uint8)),
        "one_boolean": (whole % 3 == 0, _with(whole % 3 == 0, 5, True)),
        "one_element": (plain, _with(near, 3, near[3] + 3)),
        "other_sign": (plain, -plain),
        "half_element": (half, _with(half, 3, half[3] + 9)),
        "other_scalar": (np.array(1.5, np.float32), np.array(2.5, np.float32)),
        "tiny_alone": (zeros + np.float32(1e-40), zeros + 1),
        "double_overflow": (np.array([1e308, 1.0]), np.array([-1e308, 1.0])),
        "double_element": (plain.astype(np.float64) * 1e200, _with(plain.astype(np.float64), 3, 9) * 1e200),
    }
    every = {name: Pair(*arrays, right=True) for name, arrays in right.items()}
    return every | {name: Pair(*arrays, right=False) for name, arrays in wrong.items()}


PAIRS = _made()


def write_models(
    folder: Path, name: str = "pairs", *, right: bool | None = None, without: Collection[str] = ()
) -> Path:
    """Write `NAME.onnx` and `NAME.found.onnx`, and return the first.

    Args:
        folder: an existing one.
        name: of the file.
        right: take the pairs of this kind alone.
        without: names of pairs to leave out.
    """
    chosen = {key: pair for key, pair in PAIRS.items() if right in (None, pair.right) and key not in without}
    _write(folder / f"{name}.onnx", {key: pair.expected for key, pair in chosen.items()})
    _write(folder / f"{name}.found.onnx", {key: pair.found for key, pair in chosen.items()})
    return folder / f"{name}.onnx"


def contract(path: Path) -> dict[str, Any]:
    """Return the contract of a model that `write_models` wrote."""
    outputs = {}
    for value in onnx.load(path).graph.output:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        outputs[value.name] = {"dtype": str(dtype), "shape": [1, "T"] if value.name == "z" else shape}
    return {
        "schema_version": 1,
        "name": "pairs",
        "symbols": {"T": None},
        "inputs": {
            "x": {"role": "signal", "dtype": "float32", "shape": [1, "T"], "time_axis": 1},
            "s": {"role": "state", "dtype": "float32", "shape": [1, 4]},
        },
        "outputs": outputs,
        "state": [{"input": "s", "output": "s_next"}],
        "chunking": {"first": {"size": 4}, "later": {"size": 4}},
        "profiles": [{"name": "p", "symbols": {"T": [4, 4, 4]}}],
        "gates": {"finite": False},
    }


def _write(path: Path, arrays: dict[str, Array]) -> None:
    values = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items()
    }
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Add", ["s", "x"], ["s_next"]),
        helper.make_node("Add", ["x", "s"], ["z"]),
    ]
    weights = [numpy_helper.from_array(array, f"{name}_given") for name, array in arrays.items()]
    weights.append(numpy_helper.from_array(np.array(True), "yes"))
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not array.size:
            nodes.append(helper.make_node("Identity", [f"{name}_given"], [name]))
            continue
        # of floats something that is computed, so that it carries rounding
        to = helper.np_dtype_to_tensor_dtype(array.dtype)
        nodes.append(helper.make_node("Cast", ["most"], [f"{name}_other"], to=to))
        nodes.append(helper.make_node("Where", ["yes", f"{name}_given", f"{name}_other"], [name]))
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in (*_INPUTS, "s_next", "z")]
    graph = helper.make_graph(nodes, "pairs", row[:2], [*values.values(), *row[2:]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


class PairsSession(Session):
    """Runs the second model of every pair; with `half` in two of four calls, the first one in the others."""

    def __init__(self, found: Session, expected: Session, *, half: bool) -> None:
        self._sessions, self._half, self._calls = (expected, found), half, 0
        self.inputs, self.outputs, self.metadata = expected.inputs, expected.outputs, expected.metadata
        self.provenance, self.concurrency = {}, 1

    def _infer(self, inputs: dict[str, Array]) -> dict[str, Array]:
        self._calls += 1
        return dict(self._sessions[not self._half or self._calls % 4 >= 2].run(inputs))

    def _close(self) -> None:
        for session in self._sessions:
            session.close()


class PairsBackend(Backend):
    """ort-cpu on the model beside the one that is named."""

    name = "pairs"
    file_kinds = (".onnx",)

    def availability(self) -> Availability:
        """It always serves."""
        return Availability(ok=True)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        plain = OrtCpuBackend()
        found = model.with_name(model.name.replace(".onnx", ".found.onnx"))
        one, other = (plain.load(path, SessionOptions(threads=1)) for path in (found, model))
        return PairsSession(one, other, half=bool(options.extra.get("half")))
