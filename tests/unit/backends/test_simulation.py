"""Files in formats that runtimes lack: simulated by ort-cpu under that label, refused in one sentence elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.half_models import half_model
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.backends.registry import load_reference
from trt_workbench.backends.torch.backend import TorchBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import Candidate, make_candidate
from trt_workbench.quantize.settings import CalibrationSettings

RNG = np.random.default_rng(0)
Make = Callable[[Any], Candidate]
TEXT = "g (float[4,64] x) => (float[4,8] y) { [one] a = MatMul(x, w0) b = Relu(a) [two] y = MatMul(b, w1) }"


@pytest.fixture(autouse=True)
def _output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    shapes = {"w0": (64, 64), "w1": (64, 8)}
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) * 0.2 for name, shape in shapes.items()}
    model = write_onnx(tmp_path / "model.onnx", TEXT, arrays)
    random = CalibrationSettings(calibration="random")
    return lambda to: make_candidate(Model.open(model), to, tmp_path / f"model.{to}.onnx", calibration=random)


def run(session: Session) -> np.ndarray:
    with session:
        return session.run({"x": np.linspace(-2, 2, 256, dtype=np.float32).reshape(4, 64)})["y"]


@pytest.mark.parametrize(
    ("to", "label", "formats", "error"),
    [
        ("fp16", "fp16 (simulated)", ("fp16",), 0.002),
        ("bf16", "bf16 (simulated)", ("bf16",), 0.02),
        ("fp8", "fp8 (simulated, not calibrated)", ("fp8",), 0.3),
        ("mxfp8", "mxfp8+fp32 (simulated)", ("mxfp8",), 0.1),
        ("nvfp4", "nvfp4+fp32 (simulated)", ("nvfp4",), 0.3),
        ("int4-weights", "fp32, int4 weights", ("int4",), 0.3),
    ],
)
def test_each_format_runs_under_its_own_name(
    make: Make, to: Any, label: str, formats: tuple[str, ...], error: float
) -> None:
    path = make(to).path
    assert Model.open(path).facts.formats == tuple(name for name in formats if name != "fp16")
    expected = run(OrtCpuBackend().load(path.with_name("model.onnx")))
    session = OrtCpuBackend().load(path)
    record = session.record()
    assert record["precision_ran"]["label"] == label
    assert record["precision_ran"]["simulated"] is ("simulated" in label)
    assert record.get("simulated", False) is ("simulated" in label)
    assert record.get("simulated_formats", []) == (list(formats) if "simulated" in label else [])
    difference = np.linalg.norm(run(session) - expected) / np.linalg.norm(expected)
    assert 0 < difference < error


@pytest.mark.parametrize("to", ["fp8", "mxfp8", "nvfp4"])
def test_who_lacks_a_format_says_where_it_runs(make: Make, to: Any) -> None:
    path, options = make(to).path, SessionOptions()
    with refused(UsageProblem):
        OrtCudaBackend().request(path, options)
    with refused(UsageProblem):
        OrtTrtBackend().request(path, options, {"tensorrt": "8601"})
    if to == "nvfp4":
        with refused(UsageProblem):
            OrtTrtBackend().request(path, options, {"tensorrt": "101601"})
    assert OrtTrtBackend().request(path, options, {"tensorrt": "110100"}).model.path == path
    with refused(UsageProblem):
        OrtTrtBackend().request(path, SessionOptions(precision="int8"), {"tensorrt": "110100"})


@pytest.mark.parametrize("to", ["fp8", "nvfp4"])
def test_pytorch_says_what_it_lacks(make: Make, to: Any) -> None:
    pytest.importorskip("torch")
    with refused(UsageProblem):
        TorchBackend().load(make(to).path)


def test_pytorch_has_bf16(make: Make) -> None:
    pytest.importorskip("torch")
    path = make("bf16").path
    assert np.allclose(run(TorchBackend().load(path)), run(OrtCpuBackend().load(path)), atol=0.03)


def test_references_keep_the_digits_of_fp32(make: Make) -> None:
    path = make("fp16").path
    session = load_reference(path)
    assert not session.simulated
    assert not np.array_equal(run(session), run(OrtCpuBackend().load(path)))


def test_fp16_leaves_its_range_as_in_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = "g (float16[4,64] x) => (float16[4,8] y) { a = MatMul(x, w0) b = Relu(a) y = MatMul(b, w1) }"
    weights = {"w0": np.full((64, 64), 2000, np.float16), "w1": np.full((64, 8), 1e-4, np.float16)}
    path = write_onnx(tmp_path / "m.onnx", text, weights)
    x = np.full((4, 64), 2, np.float16)
    for backend in (OrtCpuBackend(), TorchBackend()):
        with backend.load(path) as session:
            assert np.isinf(session.run({"x": x})["y"]).all()
    with load_reference(path) as session:
        assert np.isfinite(session.run({"x": x})["y"]).all()


def test_functions_branches_and_loops_in_fp16_are_found(tmp_path: Path) -> None:
    for seed in range(12):
        onnx.save(half_model(seed, blocks=1), path := tmp_path / f"{seed}.onnx")
        session = OrtCpuBackend().load(path)
        assert session.record()["precision_ran"]["label"] == "fp16 (simulated)"


def test_a_simulated_file_that_changed_is_made_anew(make: Make) -> None:
    made = make("fp8").path
    first = OrtCpuBackend().load(made, SessionOptions())
    kept = Path(first.provenance["simulated_file"])
    before = run(first)
    edited = onnx.load(kept)
    for weight in edited.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT and len(weight.dims) == 2:
            weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    for harm in (edited.SerializeToString(), kept.read_bytes()[:-10], b""):
        kept.write_bytes(harm)
        assert np.array_equal(run(OrtCpuBackend().load(made, SessionOptions())), before)
