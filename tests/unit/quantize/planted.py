"""A model with one convolution whose input no single scale can carry: one channel is a thousand times the others."""

from pathlib import Path

import numpy as np
from tests.onnx_text import write_onnx

from trt_workbench.quantize.settings import CalibrationSettings

PLANTED = "planted"
_TEXT = """g (float[n,4,6,6] x) => (float[n,4,6,6] z) {
  [first] a = Conv<pads=[1,1,1,1]>(x, w0)
  [act] r = Relu(a)
  [second] s = Conv<pads=[1,1,1,1]>(r, w1)
  [widen] b = Mul(s, wide)
  [planted] c = Conv(b, w2)
  [last] z = Conv<pads=[1,1,1,1]>(c, w3)
}"""


def planted_model(path: Path) -> Path:
    """Write the model."""
    generator = np.random.default_rng(1)
    weights = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in {"w0": (4, 4, 3, 3), "w1": (4, 4, 3, 3), "w2": (4, 4, 1, 1), "w3": (4, 4, 3, 3)}.items()
    }
    wide = np.array([1000, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)
    weights |= {"wide": wide, "w2": weights["w2"] / wide}
    return write_onnx(path, _TEXT, weights)


def planted_data(folder: Path, samples: int = 24) -> CalibrationSettings:
    """Write samples and return how they are used."""
    arrays = np.random.default_rng(2).standard_normal((samples, 4, 6, 6)).astype(np.float32)
    np.save(folder / "data.npy", arrays)
    return CalibrationSettings(calibration=str(folder / "data.npy"), seed=3)
