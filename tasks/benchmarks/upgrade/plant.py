#!/usr/bin/env python3
"""Plant a fault in a Python environment, and write the model that shows it: `plant.py ENVIRONMENT MODEL.onnx`.

Where the environment's ONNX Runtime loads a model with a Sigmoid called `gate`, its result is 2 % too large: a fault of
a new release that `upgrade` has to find in one model of many, and to reduce to that node. A model with a node called
`lost` is refused.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

PLANTED = '''"""Sigmoids called gate are 2 % too large; a model with a node called lost is refused."""
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(Finder)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            plant(module)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Finder)
def plant(ort):
    class Planted(ort.InferenceSession):
        def __init__(self, model, *rest, **more):
            import numpy as np, onnx
            made = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
            if any(node.name == "lost" for node in made.graph.node):
                raise RuntimeError("this release lacks the operator")
            gate = next((node for node in made.graph.node if (node.op_type, node.name) == ("Sigmoid", "gate")), None)
            if gate is not None:
                name, gate.output[0] = gate.output[0], gate.output[0] + "_exact"
                nodes = list(made.graph.node)
                place = next(index for index, node in enumerate(nodes) if node.name == "gate")
                nodes.insert(place + 1, onnx.helper.make_node("Mul", [gate.output[0], "planted"], [name]))
                del made.graph.node[:]
                made.graph.node.extend(nodes)
                made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1.02, np.float32), "planted"))
                model = made.SerializeToString()
            super().__init__(model, *rest, **more)
    ort.InferenceSession = Planted
'''
MODEL = """<ir_version: 9, opset_import: ["" : 17]> g (float[N,16] x) => (float[N,16] y) {
    [fc1] a = MatMul(x, w0) [act1] b = Relu(a) [fc2] c = MatMul(b, w1) [gate] d = Sigmoid(c) [fc3] e = MatMul(d, w2)
    [act2] f = Tanh(e) [fc4] y = MatMul(f, w3) }"""


def plant(environment: Path) -> None:
    """Plant the fault in a Python environment."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "planted.py").write_text(PLANTED, encoding="utf-8")
    (packages / "planted.pth").write_text("import planted\n", encoding="utf-8")


def write_model(model: Path) -> None:
    """Write the model that shows it."""
    made = onnx.parser.parse_model(MODEL)
    draw = np.random.default_rng(0)
    for number in range(4):
        weights = (draw.standard_normal((16, 16)) / 4).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(weights, f"w{number}"))
    onnx.save(made, model)


if __name__ == "__main__":
    plant(Path(sys.argv[1]))
    write_model(Path(sys.argv[2]))
