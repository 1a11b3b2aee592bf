from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.bound_sessions import CopyingSession, bound, plain
from tests.unit.backends.small_models import linear

from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.core.errors import ComponentMissing, UsageProblem


def batch(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4)).astype(np.float32)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_bound_runs_equal_plain_runs_for_every_shape(tmp_path: Path, cuda_graph: bool) -> None:
    model = linear(tmp_path / "m.onnx")
    reference = plain(model)
    with bound(model, cuda_graph=cuda_graph) as session:
        kept = {}
        for size in [1, 3, 1, 2, 5, 3, 1]:
            x = batch(size, size)
            (expected,) = reference.run(None, {"x": x})
            found = session.run({"x": x})["y"]
            np.testing.assert_array_equal(found, expected)
            kept[size] = (found, expected)
        for found, expected in kept.values():  # outputs belong to the caller: later runs leave them alone
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_one_index_of_an_output_among_runs_of_every_shape(tmp_path: Path, cuda_graph: bool) -> None:
    model = linear(tmp_path / "m.onnx")
    reference = plain(model)
    kept = []
    with bound(model, cuda_graph=cuda_graph) as session:
        for turn, size in enumerate([1, 3, 3, 3, 1, 2, 5, 3, 0, 3]):
            x = batch(size, turn)
            (expected,) = reference.run(None, {"x": x})
            for index in (-1, 0, 1):
                kept.append((session.run_at({"x": x}, "y", index), expected[:, index]))
            np.testing.assert_array_equal(session.run({"x": x})["y"], expected)
    for found, expected in kept:
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, expected, strict=True)


class CountingHost(PageableHost):
    """Counts the bytes that are fetched from the device."""

    fetched = 0

    def fetch_at(self, value: Any, dtype: str, index: int) -> Any:
        found = super().fetch_at(value, dtype, index)
        self.fetched += found.nbytes
        return found


class WatchedBinding:
    """Notes where outputs are bound."""

    def __init__(self, binding: Any, places: list[tuple[Any, ...]]) -> None:
        self._iobinding, self.places = binding, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iobinding, name)

    def bind_output(self, *place: Any) -> None:
        self.places.append(place)
        self._iobinding.bind_output(place[0], "cpu", 0)


class WatchedSession:
    """A session whose bindings are kept and note where outputs are bound."""

    def __init__(self, model: Path) -> None:
        self._session = plain(model)
        self.places: list[tuple[Any, ...]] = []
        self.bindings: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def io_binding(self) -> WatchedBinding:
        self.bindings.append(self._session.io_binding())
        return WatchedBinding(self.bindings[-1], self.places)

    def run_with_iobinding(self, binding: WatchedBinding, options: Any) -> None:
        self._session.run_with_iobinding(binding._iobinding, options)


def test_nothing_but_the_index_leaves_the_device(tmp_path: Path) -> None:
    graph = "g (float[n,4] x) => (float[n,4] y, float[n,4] z) { y = Neg(x) z = Abs(x) }"
    model = write_onnx(tmp_path / "m.onnx", graph)
    watched, host = WatchedSession(model), CountingHost()
    # its inputs are read on the host, so that it needs no memory of the device that is not there
    with bound(model, device="cuda", session=watched, host=host) as session:
        for size in (2, 3, 2):
            np.testing.assert_array_equal(session.run_at({"x": batch(size)}, "z", 1), np.abs(batch(size))[:, 1])
        assert host.fetched == (2 + 3 + 2) * 4
        assert watched.places == [("y", "cuda", 0), ("z", "cuda", 0)] * 3
        assert all(binding.get_outputs() == [] for binding in watched.bindings)
        watched.places.clear()
        session.run({"x": batch(2)})
        assert watched.places == [("y", "cpu", 0), ("z", "cpu", 0)]


@pytest.mark.parametrize(("name", "index"), [("y", 3), ("y", -4), ("z", 0)])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_an_index_that_does_not_exist(tmp_path: Path, name: str, index: int, cuda_graph: bool) -> None:
    with bound(linear(tmp_path / "m.onnx"), cuda_graph=cuda_graph) as session:
        for _ in range(2):
            with refused(UsageProblem):
                session.run_at({"x": batch(2)}, name, index)
            assert session.run_at({"x": batch(2)}, "y", 2).shape == (2,)
    with refused(UsageProblem):
        session.run_at({"x": batch(2)}, "y", 0)


def test_shapes_that_never_come_again_get_no_buffers_for_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, ...]] = []
    array = PageableHost.array
    monkeypatch.setattr(
        PageableHost, "array", lambda host, shape, dtype: made.append(shape) or array(host, shape, dtype)
    )
    with bound(linear(tmp_path / "m.onnx")) as session:
        for size in (1, 2, 3, 3):
            session.run({"x": batch(size)})
    assert made == [(1, 4), (2, 4), (3, 4), (3, 3)]  # the output of the shape that came again, beside the inputs


COUNTING = {
    "NonZero": "y = NonZero(x)",
    "Unique": "y = Unique(x)",
    "Compress": "positive = Greater(x, zero) y = Compress<axis = 0>(x, positive)",
    "Range": "most = ReduceMax<keepdims = 0>(x) y = Range(zero, most, one)",
    # the shape of what was counted sets another one
    "ConstantOfShape": "u = Unique(x) shape = Shape(u) y = ConstantOfShape(shape)",
}


def counting(path: Path, operator: str, declared: str = "found") -> Path:
    """One float input `x` [n], one output whose length the data say, `declared` as the name of its dimension."""
    made = f"int64[1,{declared}]" if operator == "NonZero" else f"float[{declared}]"
    graph = f"g (float[n] x) => ({made} y) <float zero = {{0}}, float one = {{1}}> {{ {COUNTING[operator]} }}"
    return write_onnx(path, graph)


@pytest.mark.parametrize("operator", COUNTING)
@pytest.mark.parametrize("declared", ["found", "n"])
def test_an_output_whose_shape_depends_on_the_data(tmp_path: Path, operator: str, declared: str) -> None:
    # a name that an input has too promises nothing
    model = counting(tmp_path / "m.onnx", operator, declared)
    reference = plain(model)
    rng = np.random.default_rng(0)
    with bound(model) as session:
        assert session.provenance["outputs_of_unknown_shape"] == ["y"]
        kept = []
        for _ in range(30):
            x = rng.integers(0, 5, 6).astype(np.float32)
            (expected,) = reference.run(None, {"x": x})
            kept.append((session.run({"x": x})["y"], expected))
        for found, expected in kept:
            np.testing.assert_array_equal(found, expected, strict=True)
        assert len({found.shape for found, _ in kept}) > 1
    with refused(UsageProblem):
        bound(model, cuda_graph=True)


@pytest.mark.parametrize("operator", ["NonZero", "Unique"])
def test_inputs_that_are_copied_when_they_are_bound_reach_each_run(tmp_path: Path, operator: str) -> None:
    model = counting(tmp_path / "m.onnx", operator)
    reference = plain(model)
    with bound(model, session=CopyingSession(model)) as session:
        for values in ([3, 1, 3, 2, 1, 1, 2, 3], [0, 1, 2], [5, 0, 0, 0, 0, 0, 0, 5], [1, 1, 1]):
            x = np.array(values, np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], reference.run(None, {"x": x})[0], strict=True)


def test_an_input_that_is_read_on_the_host_is_bound_there(tmp_path: Path) -> None:
    # every input of this session is read on the CPU, so none needs memory of the device that is not there
    model = counting(tmp_path / "m.onnx", "Unique")
    with bound(model, device="cuda") as session:
        assert session.provenance["inputs_read_on_host"] == ["x"]
        for values in ([3, 1, 3], [0, 0, 0], [9, 8, 7]):
            x = np.array(values, np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], np.unique(x))
    with refused(UsageProblem):
        bound(linear(tmp_path / "l.onnx"), device="cuda", cuda_graph=True)


def test_runs_from_several_threads(tmp_path: Path) -> None:
    model = linear(tmp_path / "m.onnx")
    reference = plain(model)
    with bound(model, concurrency=2) as session:

        def work(seed: int) -> None:
            for index in range(50):
                x = batch(1 + (seed + index) % 3, seed * 100 + index)
                np.testing.assert_array_equal(session.run({"x": x})["y"], reference.run(None, {"x": x})[0])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = bound(linear(tmp_path / "m.onnx"))
    session.close()
    session.close()
    with refused(UsageProblem):
        session.run({"x": batch(1)})


def test_page_locked_memory_without_cuda_names_the_library() -> None:
    with refused(ComponentMissing):
        PinnedHost("libcudart.so.99")
