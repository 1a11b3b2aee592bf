import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.backends.base import SessionOptions, TensorSpec
from trt_workbench.backends.ort import cpu as ort_cpu
from trt_workbench.backends.ort.common import MINIMUM_VERSION, session_config
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench.model import opened
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import make_candidate

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((8, 5)).astype(np.float32)
BIAS = RNG.standard_normal(5).astype(np.float32)


LINEAR = "product = MatMul(x, weights) y = Add(product, bias) positive = Greater(y, zero)"


def save(
    path: Path, nodes: str = LINEAR, *, batch: int | str = "batch", opset: int = 17, more: str = "", **properties: str
) -> Path:
    graph = f"""graph (float[{batch},8] x) => (float[{batch},5] y, bool[{batch},5] positive {more})
      <float[1] zero = {{0}}> {{ {nodes} }}"""
    model = parse_onnx(graph, {"weights": WEIGHTS, "bias": BIAS}, opset)
    helper.set_model_props(model, properties)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "linear.onnx", names="['a', 'b']", stride="32")


def test_it_is_available_with_its_version() -> None:
    found = OrtCpuBackend().availability()
    assert found.ok
    assert found.versions == {"onnxruntime": onnxruntime.__version__}


@pytest.mark.parametrize(("version", "ok"), [("1.30.9", False), ("1.9.0", False), ("1.32.0.dev1", True), ("2.0", True)])
def test_an_older_release_says_so(monkeypatch: pytest.MonkeyPatch, version: str, *, ok: bool) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", version)
    found = OrtCpuBackend().availability()
    assert found.ok is ok
    if not ok:
        assert version in found.reason
        assert MINIMUM_VERSION in found.fix


def test_the_model_describes_itself(model: Path) -> None:
    with OrtCpuBackend().load(model) as session:
        assert session.inputs == (TensorSpec("x", "float32", (None, 8)),)
        assert session.outputs == (TensorSpec("y", "float32", (None, 5)), TensorSpec("positive", "bool", (None, 5)))
        assert session.metadata == {"names": "['a', 'b']", "stride": "32"}
        assert session.provenance["providers"] == ["CPUExecutionProvider"]
        assert session.provenance["onnxruntime"] == onnxruntime.__version__


@pytest.mark.parametrize(
    ("threads", "concurrency", "each"), [(4, 1, 4), (4, 2, 2), (5, 2, 2), (1, 3, 1), (None, 1, None)]
)
def test_threads_are_shared_between_the_runs(
    model: Path, threads: int | None, concurrency: int, each: int | None
) -> None:
    each = each or len(os.sched_getaffinity(0))
    with OrtCpuBackend().load(model, SessionOptions(threads=threads, concurrency=concurrency)) as session:
        assert session.concurrency == concurrency
        assert session.provenance["intra_op_threads"] == each


def test_idle_threads_poll_unless_something_else_is_computed(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "square.onnx", "g (float[256,256] x) => (float[256,256] y) { y = MatMul(x, x) }")
    x = np.ones((256, 256), np.float32)

    def busy_s(options: SessionOptions) -> float:
        with OrtCpuBackend().load(model, options) as session:
            session.run({"x": x})
            before = time.process_time()
            for _ in range(20):
                session.run({"x": x})
                time.sleep(0.01)
            return time.process_time() - before

    polling, sleeping = SessionOptions(threads=2), SessionOptions(threads=2, polls=False)
    assert busy_s(polling) > 2 * busy_s(sleeping)
    asked = {"allow_spinning": True}
    assert busy_s(replace(sleeping, extra=asked)) > 2 * busy_s(replace(polling, extra={"allow_spinning": False}))


def test_a_session_is_that_of_a_plain_deployment() -> None:
    """What a latency is measured on: ONNX Runtime's defaults, with as many threads as the process has processors."""
    ours, record = session_config(onnxruntime, SessionOptions(), "all")
    plain = onnxruntime.SessionOptions()
    names = (
        "execution_mode",
        "inter_op_num_threads",
        "graph_optimization_level",
        "enable_mem_pattern",
        "enable_mem_reuse",
    )
    assert {name: getattr(ours, name) for name in names} == {name: getattr(plain, name) for name in names}
    assert ours.enable_cpu_mem_arena == plain.enable_cpu_mem_arena
    assert ours.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    assert record["allow_spinning"]


def test_several_threads_may_run_at_once(model: Path) -> None:
    inputs = [RNG.standard_normal((2, 8)).astype(np.float32) for _ in range(4)]
    with OrtCpuBackend().load(model, SessionOptions(concurrency=4)) as session:

        def work(x: np.ndarray) -> None:
            for _ in range(25):
                np.testing.assert_allclose(session.run({"x": x})["y"], x @ WEIGHTS + BIAS, rtol=1e-5, atol=1e-5)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, inputs))


@pytest.mark.parametrize(
    "options",
    [
        SessionOptions(precision="fp16"),
        SessionOptions(threads=0),
        SessionOptions(concurrency=0),
        SessionOptions(extra={"allow_spining": True}),
        SessionOptions(extra={"device_id": 1}),
        SessionOptions(extra={"allow_spinning": "yes"}),
        SessionOptions(extra={"graph_optimization_level": "most"}),
    ],
)
def test_what_it_cannot_do_is_refused(model: Path, options: SessionOptions) -> None:
    with refused(UsageProblem):
        OrtCpuBackend().load(model, options)


class TestModelsItCannotLoad:
    def refused(self, path: Path, reason: str = "") -> None:
        with refused(UsageProblem) as caught:
            OrtCpuBackend().load(path)
        assert reason in str(caught.value)

    def test_truncated(self, model: Path) -> None:
        model.write_bytes(model.read_bytes()[:-30])
        self.refused(model)

    def test_absent(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "absent.onnx")

    def test_with_an_unknown_operator(self, tmp_path: Path) -> None:
        nodes = "y = Frobnicate(x) positive = Greater(y, zero)"
        self.refused(save(tmp_path / "unknown.onnx", nodes), "Frobnicate")

    def test_with_an_operator_set_from_the_future(self, tmp_path: Path) -> None:
        self.refused(save(tmp_path / "future.onnx", opset=99), "opset")

    def test_with_a_graph_that_does_not_join_up(self, tmp_path: Path) -> None:
        nodes = "y = MatMul(x, nowhere) positive = Greater(y, zero)"
        self.refused(save(tmp_path / "loose.onnx", nodes))


def test_a_run_that_the_model_cannot_do_is_refused(tmp_path: Path) -> None:
    nodes = """product = MatMul(x, weights) shape = Constant<value_ints = [3, 5]>()
      y = Reshape(product, shape) positive = Greater(y, zero)"""
    with OrtCpuBackend().load(save(tmp_path / "reshape.onnx", nodes)) as session:
        assert session.run({"x": np.zeros((3, 8), np.float32)})["y"].shape == (3, 5)
        with refused(UsageProblem):
            session.run({"x": np.zeros((4, 8), np.float32)})


def test_a_failed_allocation_is_a_failure_of_the_device(tmp_path: Path) -> None:
    huge = f"shape = Constant<value_ints = [{2**29}, {2**29}]>() huge = ConstantOfShape(shape) max = ReduceMax(huge)"
    path = save(tmp_path / "huge.onnx", f"{LINEAR} {huge}", more=", float[] max")  # 2^60 bytes
    options = SessionOptions(extra={"graph_optimization_level": "disable"})
    with OrtCpuBackend().load(path, options) as session, refused(DeviceFailure):
        session.run({"x": np.zeros((1, 8), np.float32)})


def test_one_index_of_an_output(model: Path) -> None:
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    with OrtCpuBackend().load(model) as session:
        whole = session.run({"x": x})
        for name in ("y", "positive"):
            for index in (-1, 0, 4):
                found = session.run_at({"x": x}, name, index)
                np.testing.assert_array_equal(found, whole[name][:, index], strict=True)
                assert found.base is None  # not a view, which would keep the whole alive
        with refused(UsageProblem):
            session.run_at({"x": x}, "y", 5)
        with refused(UsageProblem):
            session.run_at({"x": x}, "z", 0)
        with refused(UsageProblem):
            session.run_at({"x": x.astype(np.float64)}, "y", 0)
    with refused(UsageProblem):
        session.run_at({"x": x}, "y", 0)


def test_activations_beside_4_bit_weights_stay_float(tmp_path: Path) -> None:
    """ONNX Runtime's own product with such weights rounds them to int8 by default: an error of 4e-3 here."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((256, 64)).astype(np.float32)}
    path = write_onnx(tmp_path / "m.onnx", "g (float[4,256] x) => (float[4,64] y) { y = MatMul(x, w) }", weights)
    made = make_candidate(Model.open(path), "int4-weights", tmp_path / "int4.onnx")
    x, found = rng.standard_normal((4, 256)).astype(np.float32), {}
    for level in ("all", "disable"):
        with OrtCpuBackend().load(made.path, SessionOptions(extra={"graph_optimization_level": level})) as session:
            found[level] = session.run({"x": x})["y"]
    np.testing.assert_allclose(found["all"], found["disable"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("product", ["MatMul(wide, weight)", "Add(one_more, again)"])
def test_int8_products_do_not_saturate(tmp_path: Path, product: str) -> None:
    """The largest codes throughout: sums of two of their products leave 16 bits, in which AVX2 without VNNI adds."""
    shared = "turned = Neg(wide) again_codes = QuantizeLinear(turned, one, zero)"
    shared += " again_wide = DequantizeLinear(again_codes, one, zero) again = MatMul(again_wide, weight)"
    shared += " one_more = MatMul(wide, weight)"
    text = f"""g (float[N,32] x) => (float[N,32] y) {{
      codes = QuantizeLinear(x, one, zero)
      wide = DequantizeLinear(codes, one, zero)
      weight = DequantizeLinear(weight_codes, one, zero)
      {shared if "again" in product else ""}
      product = {product}
      y = Abs(product)
    }}"""
    weights = {"one": np.float32(1), "zero": np.int8(0), "weight_codes": np.full((32, 32), 127, np.int8)}
    path = write_onnx(tmp_path / "int8.onnx", text, weights)
    with OrtCpuBackend().load(path, SessionOptions()) as session:
        made = session.run({"x": np.full((4, 32), 127, np.float32)})["y"]
        assert ("int8_products" in session.provenance) == ("again" in product)
        assert session.record()["precision_ran"]["simulated"] == ("again" in product)
    np.testing.assert_array_equal(made, np.float32(0 if "again" in product else 127 * 127 * 32))


def test_a_model_that_changes_while_it_is_loaded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked, hashed and found to be simulated or not is what runs."""
    path = write_onnx(tmp_path / "m.onnx", "g (float[2] x) => (float[2] y) { y = Abs(x) }")
    real = ort_cpu.cpu_session

    def changed(*words: Any) -> Any:
        write_onnx(path, "g (float[2] x) => (float[2] y) { y = Neg(x) }")
        return real(*words)

    monkeypatch.setattr(ort_cpu, "cpu_session", changed)
    with refused(UsageProblem):
        OrtCpuBackend().load(path)


def test_a_runtime_that_says_nothing_when_it_cannot_be_imported_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a build for another NumPy does."""
    (tmp_path / "onnxruntime.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    found = OrtCpuBackend().availability()
    assert (found.ok, found.reason) == (False, "onnxruntime cannot be imported (ImportError).")


@pytest.mark.parametrize("beside", [True, False])
def test_a_reference_reads_large_weights_from_their_file(
    beside: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repacked, they would be in memory as often as there are sessions."""
    path = tmp_path / "beside.onnx"
    onnx.save(onnx.load(model), path, save_as_external_data=beside, location="beside.data", size_threshold=0)
    monkeypatch.setattr(opened, "LARGE_BYTES", 100)
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    found = []
    for exact in (True, False):
        with OrtCpuBackend().load(path, SessionOptions(exact=exact)) as session:
            assert session.provenance.get("prepacked", True) is not (exact and beside)
            found.append(session.run({"x": x})["y"])
    np.testing.assert_allclose(*found, rtol=1e-5)
