import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.small_models import linear, reshaped

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.torch import backend as backend_module
from trt_workbench.backends.torch.backend import TorchBackend, TorchCompileBackend, compiler
from trt_workbench.backends.torch.common import chosen_device
from trt_workbench.core.errors import ComponentMissing, UsageProblem

torch = pytest.importorskip("torch")

CPU = {"device": "cpu"}


def options(precision: str = "fp32", **extra: Any) -> SessionOptions:
    return SessionOptions(threads=1, precision=precision, extra={**CPU, **extra})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    batch = torch.export.Dim("batch")
    saved = torch.export.export(module, (torch.zeros(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(saved, tmp_path / "m.pt2")
    return tmp_path / "m.pt2"


def test_an_onnx_file_gives_what_onnx_runtime_gives_at_any_batch(tmp_path: Path) -> None:
    for make in (linear, reshaped):
        model = make(tmp_path / f"{make.__name__}.onnx")
        with TorchBackend().load(model, options()) as session, OrtCpuBackend().load(model) as reference:
            assert session.inputs == reference.inputs
            assert [spec.name for spec in session.outputs] == [spec.name for spec in reference.outputs]
            assert session.provenance["host_reads"] == []  # shapes are computed without reading tensors
            for batch in (1, 3):
                shape = [batch if dim is None else dim for dim in session.inputs[0].shape]
                x = np.random.default_rng(batch).standard_normal(shape).astype(np.float32)
                np.testing.assert_allclose(
                    session.run({"x": x})["y"], reference.run({"x": x})["y"], rtol=1e-5, atol=1e-6
                )


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 3e-3), ("bf16", 2e-2)])
def test_half_precision_keeps_the_types_of_the_file(tmp_path: Path, precision: str, tolerance: float) -> None:
    model = linear(tmp_path / "m.onnx")
    x = np.random.default_rng(0).random((8, 4), np.float32)
    with TorchBackend().load(model, options()) as full, TorchBackend().load(model, options(precision)) as half:
        exact, rounded = full.run({"x": x})["y"], half.run({"x": x})["y"]
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, exact, rtol=tolerance)
    assert not np.array_equal(rounded, exact)


def test_a_finite_mask_stays_finite_in_half_precision(tmp_path: Path) -> None:
    graph = "g (float[1,3] x) => (float[1,3] y) { masked = Add(x, mask) y = Softmax<axis = -1>(masked) }"
    mask = {"mask": np.full((1, 3), np.finfo(np.float32).min, np.float32)}
    model = write_onnx(tmp_path / "m.onnx", graph, mask)
    with TorchBackend().load(model, options("fp16")) as session:
        result = session.run({"x": np.zeros((1, 3), np.float32)})["y"]
    np.testing.assert_allclose(result, np.full((1, 3), 1 / 3), atol=1e-3)


def test_outputs_belong_to_the_caller(tmp_path: Path) -> None:
    graph = "g (float[2] x) => (float[2] same, float[2] weight) { same = Identity(x) weight = Identity(w) }"
    model = write_onnx(tmp_path / "m.onnx", graph, {"w": np.ones(2, np.float32)})
    x = np.arange(2, dtype=np.float32)
    x.flags.writeable = False
    with TorchBackend().load(model, options()) as session:
        first = session.run({"x": x})
        first["same"][:], first["weight"][:] = 7, 7
        second = session.run({"x": x})
    np.testing.assert_array_equal(second["same"], [0, 1])
    np.testing.assert_array_equal(second["weight"], [1, 1])


def test_runs_from_several_threads(tmp_path: Path) -> None:
    model = linear(tmp_path / "m.onnx")
    with TorchBackend().load(model, SessionOptions(concurrency=2, extra=CPU)) as session:
        inputs = [np.random.default_rng(i).random((1 + i % 3, 4), np.float32) for i in range(12)]
        expected = [session.run({"x": x})["y"] for x in inputs]

        def work(_: int) -> None:
            for x, y in zip(inputs, expected, strict=True):
                np.testing.assert_array_equal(session.run({"x": x})["y"], y)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
    with refused(UsageProblem):
        session.run({"x": inputs[0]})


def test_an_exported_program_needs_trust_and_runs_with_it(program: Path) -> None:
    with refused(UsageProblem):
        TorchBackend().load(program, options())
    with TorchBackend().load(program, options(trust=True)) as session:
        assert session.inputs[0].shape == (None, 4)
        assert session.run({session.inputs[0].name: np.ones((3, 4), np.float32)})[session.outputs[0].name].shape == (
            3,
            3,
        )
    with refused(UsageProblem):
        TorchBackend().load(program, options("fp16", trust=True))
    program.write_bytes(b"no archive")
    with refused(UsageProblem):
        TorchBackend().load(program, options(trust=True))


def test_devices_are_those_that_pytorch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(chosen_device("cuda:1")) == "cuda:1"
    assert str(chosen_device(None)) == "cuda"
    with refused(UsageProblem):
        chosen_device("cuda:2")


@pytest.mark.parametrize(
    "given",
    [
        SessionOptions(extra={"devise": "cpu"}),
        SessionOptions(extra={"device": "tpu"}),
        SessionOptions(extra={"device": "meta"}),
        SessionOptions(precision="int8", extra=CPU),
        SessionOptions(concurrency=0, extra=CPU),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, given: SessionOptions) -> None:
    with refused(UsageProblem):
        TorchBackend().load(linear(tmp_path / "m.onnx"), given)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error_and_never_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(ComponentMissing, match="has no CUDA device"):
        TorchBackend().load(linear(tmp_path / "m.onnx"), SessionOptions(extra={"device": "cuda"}))


def test_without_a_compiler_torch_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert compiler() is None
    found = TorchCompileBackend().availability()
    assert not found.ok
    assert "/nowhere/g++" in found.reason
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(backend_module, "_COMPILERS", ("no-such-compiler",))
    assert "C++ compiler" in TorchCompileBackend().availability().reason
    assert TorchBackend().availability().ok


@pytest.mark.long
@pytest.mark.skipif(compiler() is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # of the compiler's own parts
def test_compiled_agrees_with_onnx_runtime(tmp_path: Path) -> None:
    model = reshaped(tmp_path / "m.onnx")
    with TorchCompileBackend().load(model, options()) as session, OrtCpuBackend().load(model) as reference:
        assert session.provenance["compile"] == {"mode": "default", "dynamic": None, "fullgraph": True}
        for batch in (2, 5):
            x = np.random.default_rng(batch).standard_normal((batch, 2, 3)).astype(np.float32)
            np.testing.assert_allclose(session.run({"x": x})["y"], reference.run({"x": x})["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(compiler() is None, reason="torch.compile needs a C++ compiler")
def test_rows_of_arrays_of_any_length_are_compiled_once(tmp_path: Path, compiled_graphs: Callable[[], int]) -> None:
    """numpy calls one row of them row-major, whose strides tell how long the whole array is."""
    model = linear(tmp_path / "m.onnx")
    with TorchCompileBackend().load(model, options()) as session:
        for length in range(1, 12):
            row = np.ones((1, length, 4), np.float32)[:, -1]
            assert row.flags.c_contiguous
            assert row.strides == (length * 16, 4)
            session.run({"x": row})
    assert compiled_graphs() == 1


@pytest.mark.usefixtures("compiled_graphs")
@pytest.mark.skipif(compiler() is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_where_pytorch_gives_up_on_compiling_nothing_runs_uncompiled(
    tmp_path: Path, fullgraph: bool, suppress: bool
) -> None:
    from torch._dynamo import config

    asked = options(dynamic=False, fullgraph=fullgraph)
    with TorchCompileBackend().load(linear(tmp_path / "m.onnx"), asked) as session:
        with config.patch(recompile_limit=2, suppress_errors=suppress):
            for batch in (1, 2):
                session.run({"x": np.ones((batch, 4), np.float32)})
            for _ in range(2):
                with refused(UsageProblem):
                    session.run({"x": np.ones((3, 4), np.float32)})
            assert config.suppress_errors == suppress
        assert not config.fail_on_recompile_limit_hit  # of the process, so it holds during a run alone


@pytest.mark.parametrize("switch", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
def test_where_compiling_is_switched_off_torch_compile_does_not_serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, switch: str
) -> None:
    monkeypatch.setenv(switch, "1")
    found = TorchCompileBackend().availability()
    assert (found.ok, found.fix) == (False, f"Unset {switch}.")
    with refused(ComponentMissing):
        TorchCompileBackend().load(linear(tmp_path / "m.onnx"), options())
    assert TorchBackend().availability().ok


def test_one_index_of_an_output(tmp_path: Path) -> None:
    graph = "g (float[batch,3,2] x) => (float[batch,3,2] same, float[batch,3,2] y) { same = Identity(x) y = Neg(x) }"
    model = write_onnx(tmp_path / "m.onnx", graph)
    x = np.random.default_rng(0).random((2, 3, 2), np.float32)
    with TorchBackend().load(model, options()) as session:
        for name, whole in session.run({"x": x}).items():
            for index in (-1, 0):
                found = session.run_at({"x": x}, name, index)
                np.testing.assert_array_equal(found, whole[:, index], strict=True)
                assert not np.shares_memory(found, x)
        with refused(UsageProblem):
            session.run_at({"x": x}, "y", -4)


def test_nodes_may_stand_in_any_order_as_onnx_runtime_takes_them(tmp_path: Path) -> None:
    text = "g (float[n,4] x) => (float[n,4] y) { y = Relu(b) b = Add(a, x) a = Neg(x) }"
    model = write_onnx(tmp_path / "m.onnx", text)
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4) ** 2 - 1
    with TorchBackend().load(model, options()) as session, OrtCpuBackend().load(model) as reference:
        np.testing.assert_array_equal(session.run({"x": x})["y"], reference.run({"x": x})["y"])


def test_compiled_code_is_kept_among_our_caches_and_never_in_a_folder_of_anybodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "caches"))
    for given in (None, ""):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
        if given is None:
            monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
        TorchBackend()._load(linear(tmp_path / "m.onnx"), SessionOptions()).close()
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "caches" / "torchinductor")
    assert (tmp_path / "caches" / "torchinductor").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/chosen")
    TorchBackend()._load(linear(tmp_path / "m.onnx"), SessionOptions()).close()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/chosen"
