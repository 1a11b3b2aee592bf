"""How tests make candidates."""

from pathlib import Path
from typing import Any

import numpy as np
from tests.onnx_text import write_onnx

from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import Candidate, make_candidate
from trt_workbench.quantize.settings import PlacementSettings

GENERATOR = np.random.default_rng(0)
TEXT = """g (float[n,20,6,6] x) => (float[n,20,6,6] z) {
  [first] a = Conv<pads=[1,1,1,1]>(x, w0)
  [act] b = Relu(a)
  [deep] c = Conv<pads=[1,1,1,1], group=20>(b, w1)
  [abs] c2 = Abs(c)
  [root] r = Sqrt(c2)
  [second] d = Conv<pads=[1,1,1,1]>(r, w2)
  [end] z = Conv(d, w3)
}"""


def write(path: Path, opset: int = 17, text: str = TEXT) -> Path:
    shapes = {"w0": (20, 20, 3, 3), "w1": (20, 1, 3, 3), "w2": (20, 20, 3, 3), "w3": (20, 20, 1, 1)}
    arrays = {name: GENERATOR.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return write_onnx(path, text, arrays, opset)


def made(model: Path, data: Any, to: Any = "int8", **placement: Any) -> Candidate:
    return make_candidate(
        Model.open(model),
        to,
        model.with_name(f"m.{to}.onnx"),
        calibration=data,
        placement=PlacementSettings(**placement),
    )
