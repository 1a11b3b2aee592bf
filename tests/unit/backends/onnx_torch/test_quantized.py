"""int8 models on PyTorch give what they give on ONNX Runtime's CPU provider."""

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.torch.backend import TorchBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

RNG = np.random.default_rng(0)
TEXT = """g (float[16,20,6,6] x) => (float[16,5] y) {
  [one] a = Conv<pads=[1,1,1,1]>(x, w0) [two] b = ConvTranspose(a, w1) [sum] c = Add(b, x)
  [pool] d = GlobalAveragePool(c) [flat] e = Flatten(d) [last] y = Gemm<transB=1>(e, w2)
}"""
SHAPES = {"w0": (20, 20, 3, 3), "w1": (20, 20, 1, 1), "w2": (5, 20)}

pytest.importorskip("torch")


@pytest.mark.parametrize("compact", [False, True])
def test_pairs_round_alike(tmp_path: Path, *, compact: bool) -> None:
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) * 0.3 for name, shape in SHAPES.items()}
    model = write_onnx(tmp_path / "m.onnx", TEXT, arrays)
    settings = PlacementSettings(keep_sensitive=False, compact=compact)
    random = CalibrationSettings(calibration="random")
    path = make_candidate(Model.open(model), "int8", tmp_path / "q.onnx", calibration=random, placement=settings).path
    x = RNG.uniform(-1, 1, (16, 20, 6, 6)).astype(np.float32)
    found = []
    # unfused, so that both sum floats
    unfused = SessionOptions(extra={"graph_optimization_level": "disable"})
    for backend, options in ((OrtCpuBackend(), unfused), (TorchBackend(), None)):
        with backend.load(path, options) as session:
            found.append(session.run({"x": x})["y"])
    with OrtCpuBackend().load(model) as session:
        exact = session.run({"x": x})["y"]
    assert np.median(np.abs(found[1] - found[0])) < 1e-5 < np.median(np.abs(found[0] - exact))


def test_blocks_are_refused(tmp_path: Path) -> None:
    text = """g (float[2,4] x) => (float[2,2] y) {
      w = DequantizeLinear<axis=0, block_size=2>(codes, scales) y = MatMul(x, w)
    }"""
    arrays = {"codes": np.ones((4, 2), np.int8), "scales": np.ones((2, 2), np.float32)}
    path = write_onnx(tmp_path / "m.onnx", text, arrays, 21)
    with refused(UsageProblem):
        TorchBackend().load(path).run({"x": np.ones((2, 4), np.float32)})
