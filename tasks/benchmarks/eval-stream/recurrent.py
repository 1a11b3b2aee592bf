"""Write a recurrent model without an end to its memory, and its contract: `python recurrent.py FOLDER`.

One LSTM cell of 64 units with random weights and a forget gate that lets a state live for about 20 chunks of one frame.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FEATURES, UNITS, ANSWERS = 16, 64, 10
FORGET_BIAS = 3.0


def model() -> onnx.ModelProto:
    """Return the cell with a linear head: gates in the order input, forget, cell, output."""
    random = np.random.default_rng(0)
    bias = np.zeros(4 * UNITS)
    bias[UNITS : 2 * UNITS] = FORGET_BIAS
    weights = {
        "w": random.standard_normal((FEATURES, 4 * UNITS)) / FEATURES**0.5,
        "r": random.standard_normal((UNITS, 4 * UNITS)) / (2 * UNITS**0.5),
        "bias": bias,
        "v": random.standard_normal((UNITS, ANSWERS)) / UNITS**0.5,
    }
    node = helper.make_node
    nodes = [
        node("Squeeze", ["x", "one"], ["frame"]),
        node("MatMul", ["frame", "w"], ["from_frame"]),
        node("MatMul", ["h", "r"], ["from_state"]),
        node("Add", ["from_frame", "from_state"], ["both"]),
        node("Add", ["both", "bias"], ["gates"]),
        node("Split", ["gates"], ["i", "f", "g", "o"], axis=1),
        *(node("Sigmoid", [name], [f"{name}_open"]) for name in "ifo"),
        node("Tanh", ["g"], ["candidate"]),
        node("Mul", ["f_open", "c"], ["kept"]),
        node("Mul", ["i_open", "candidate"], ["taken"]),
        node("Add", ["kept", "taken"], ["c_next"]),
        node("Tanh", ["c_next"], ["bounded"]),
        node("Mul", ["o_open", "bounded"], ["h_next"]),
        node("MatMul", ["h_next", "v"], ["logits"]),
    ]

    def tensor(name: str, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [tensor("x", "B", "T", FEATURES), tensor("h", "B", UNITS), tensor("c", "B", UNITS)],
        [tensor("logits", "B", ANSWERS), tensor("h_next", "B", UNITS), tensor("c_next", "B", UNITS)],
        constants,
    )
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(found, full_check=True)
    return found


def contract() -> dict[str, Any]:
    """Return its contract."""
    state = {"dtype": "float32", "shape": ["B", UNITS]}
    return {
        "schema_version": 1,
        "name": "a recurrent cell of 64 units",
        "symbols": {"B": None, "T": None},
        "inputs": {
            "x": {"dtype": "float32", "shape": ["B", "T", FEATURES], "batch_axis": 0, "role": "signal", "time_axis": 1},
            "h": {**state, "role": "state"},
            "c": {**state, "role": "state"},
        },
        "outputs": {
            "logits": {"dtype": "float32", "shape": ["B", ANSWERS], "head": "argmax"},
            "h_next": state,
            "c_next": state,
        },
        "state": [{"output": "h_next", "input": "h"}, {"output": "c_next", "input": "c"}],
        "chunking": {"first": {"size": 1}, "later": {"size": 1}, "memory": {"kind": "infinite"}},
        "profiles": [{"name": "all", "symbols": {"B": [1, 1, 1], "T": [1, 1, 1]}}],
    }


def main() -> None:
    """Write recurrent.onnx and recurrent.contract.json."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model(), folder / "recurrent.onnx")
    (folder / "recurrent.contract.json").write_text(json.dumps(contract(), indent=2) + "\n")


if __name__ == "__main__":
    main()
