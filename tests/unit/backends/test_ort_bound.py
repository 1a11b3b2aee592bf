import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest

from trt_workbench.backends import ort_bound
from trt_workbench.backends.ort_bound import Binding, BoundSession
from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.errors import ComponentMissing, UsageProblem


def bound(model: Path, *, cuda_graph: bool = False, concurrency: int = 1) -> BoundSession:
    """The session as on a GPU, its device being the CPU."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    binding = Binding("cpu", 0, PageableHost(), cuda_graph=cuda_graph)
    return BoundSession("ort-test", session, model, binding, concurrency, {})


def batch(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4)).astype(np.float32)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_bound_runs_equal_plain_runs_for_every_shape(
    onnx_models: SimpleNamespace, tmp_path: Path, cuda_graph: bool
) -> None:
    model = onnx_models.linear(tmp_path / "m.onnx")
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    with bound(model, cuda_graph=cuda_graph) as session:
        kept = {}
        for size in [1, 3, 1, 2, 5, 3, 1]:
            x = batch(size, size)
            (expected,) = plain.run(None, {"x": x})
            found = session.run({"x": x})["y"]
            np.testing.assert_array_equal(found, expected)
            kept[size] = (found, expected)
        for found, expected in kept.values():  # outputs belong to the caller: later runs leave them alone
            np.testing.assert_array_equal(found, expected)


def test_more_shapes_than_are_kept(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    with bound(onnx_models.linear(tmp_path / "m.onnx")) as session:
        for size in [*range(1, 21), 1]:
            assert session.run({"x": batch(size)})["y"].shape == (size, 3)


def test_large_outputs_and_small_memory(
    onnx_models: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_bound, "_LARGEST_PINNED", 100)
    monkeypatch.setattr(ort_bound, "_KEPT_BYTES", 200)
    model = onnx_models.linear(tmp_path / "m.onnx")
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    with bound(model) as session:
        for size in [1, 20, 3, 20, 2, 1]:
            x = batch(size, size)
            np.testing.assert_array_equal(session.run({"x": x})["y"], plain.run(None, {"x": x})[0])


def test_an_output_whose_shape_depends_on_the_data(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    model = onnx_models.nonzero(tmp_path / "m.onnx")
    with bound(model) as session:
        assert session.provenance["outputs_of_unknown_shape"] == ["y"]
        for values in ([0, 1, 2], [0, 0, 0], [1, 1, 1]):
            x = np.array(values, np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], [np.flatnonzero(x)])
    with pytest.raises(UsageProblem, match=r"CUDA graph.*depend on the data: y"):
        bound(model, cuda_graph=True)


def test_runs_from_several_threads(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path / "m.onnx")
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    wrong: list[int] = []
    with bound(model, concurrency=2) as session:

        def work(seed: int) -> None:
            for index in range(50):
                x = batch(1 + (seed + index) % 3, seed * 100 + index)
                if not np.array_equal(session.run({"x": x})["y"], plain.run(None, {"x": x})[0]):
                    wrong.append(index)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_closed_session_says_so(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    session = bound(onnx_models.linear(tmp_path / "m.onnx"))
    session.close()
    session.close()
    with pytest.raises(UsageProblem, match="closed"):
        session.run({"x": batch(1)})


def test_page_locked_memory_without_cuda_names_the_library() -> None:
    with pytest.raises(ComponentMissing, match=r"libcudart\.so\.99"):
        PinnedHost(99)
