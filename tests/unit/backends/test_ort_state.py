from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.bound_sessions import CopyingSession, bound, plain

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.core.errors import DeviceFailure, UsageProblem

STATE = {"h_next": "h", "count_next": "count"}
H, COUNT = (2, 3), (1,)


def recurrent(path: Path, h: str = "2,3", kind: int = TensorProto.FLOAT) -> Path:
    """One step: h/2 + the mean of x's rows and count + 1 go on, with y = x + h_next·count_next between them."""
    after = "float16" if kind == TensorProto.FLOAT16 else "float"
    graph = f"""g (float[n,2,3] x, float[{h}] h, float[1] count) =>
      ({after}[2,3] h_next, float[n,2,3] y, float[1] count_next) <float half = {{0.5}}, float one = {{1}}> {{
        halved = Mul(h, half) mean = ReduceMean<axes = [0], keepdims = 0>(x) h_float = Add(halved, mean)
        h_next = Cast<to = {kind}>(h_float) count_next = Add(count, one)
        scaled = Mul(h_float, count_next) y = Add(x, scaled)
    }}"""
    return write_onnx(path, graph)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return recurrent(tmp_path / "m.onnx")


def steps(seed: int = 0) -> list[np.ndarray]:
    """Inputs of several shapes: a long first one and then short ones, as prompts and tokens."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((size, *H)).astype(np.float32) for size in (4, 1, 1, 2, 1, 4, 1, 1)]


def by_hand(model: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    session = plain(model)
    state = {"h": np.zeros(H, np.float32), "count": np.zeros(COUNT, np.float32)}
    found = []
    for x in inputs:
        h, y, count = session.run(None, {"x": x, **state})
        state = {"h": h, "count": count}
        found.append(y)
    return found


class FailingSession(CopyingSession):
    """A session whose next run may fail."""

    failing = False

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        if self.failing:
            raise RuntimeError("Error in execution: CUDA failure 700")
        super().run_with_iobinding(binding, options)


@pytest.mark.parametrize("device", ["cpu", "cuda"])  # on "cuda" this session reads every state in host memory
@pytest.mark.parametrize("copying", [False, True])
def test_state_equals_feeding_by_hand_until_it_is_reset(model: Path, device: str, copying: bool) -> None:
    made = CopyingSession(model) if copying else None
    with bound(model, device=device, session=made, state=STATE) as session:
        assert [spec.name for spec in session.inputs] == ["x"]
        assert [spec.name for spec in session.outputs] == ["y"]
        assert [spec.name for spec in session.state_inputs] == ["h", "count"]
        assert session.provenance["state"] == STATE
        assert sum(session.memory_bytes().values()) == 0  # taken at the first run
        for seed in range(3):
            owned = [session.run({"x": x}) for x in steps(seed)]
            for found, expected in zip(owned, by_hand(model, steps(seed)), strict=True):
                assert list(found) == ["y"]
                np.testing.assert_array_equal(found["y"], expected)
            session.reset_state()
        kind = "device_state" if device == "cpu" else "host_state"
        assert session.memory_bytes() == {"device_state": 0, "host_state": 0} | {kind: 2 * (6 + 1) * 4}


def test_a_run_that_fails_keeps_the_state(model: Path) -> None:
    inner = FailingSession(model)
    with bound(model, session=inner, state=STATE) as session:
        for x, expected in zip(steps(), by_hand(model, steps()), strict=True):
            with refused(UsageProblem):
                session.run({"x": x, "h": np.zeros(H, np.float32)})
            inner.failing = True
            with pytest.raises(DeviceFailure):
                session.run({"x": x})
            inner.failing = False
            np.testing.assert_array_equal(session.run({"x": x})["y"], expected)


def test_a_state_that_passes_through_and_one_that_never_changes(tmp_path: Path) -> None:
    graph = """g (float[1] x, float[1] a, float[1] b) => (float[1] a_next, float[1] b_next, float[1] y)
      <float[1] three = {3}> { s = Add(a, x) y = Add(s, b) a_next = Identity(a) b_next = Identity(three) }"""
    model = write_onnx(tmp_path / "m.onnx", graph)
    with bound(model, state={"a_next": "a", "b_next": "b"}) as session:
        found = [float(session.run({"x": np.ones(1, np.float32)})["y"][0]) for _ in range(4)]
    assert found == [1, 4, 4, 4]


@pytest.mark.parametrize(
    "state",
    [
        {"h_nxt": "h"},
        {"h_next": "g"},
        {"h_next": "h", "count_next": "h"},
        {"h_next": "count"},
        {"y": "x"},
    ],
)
def test_pairs_that_do_not_fit(model: Path, state: dict[str, str]) -> None:
    with refused(UsageProblem):
        bound(model, state=state)


@pytest.mark.parametrize("made", [{"h": "rows,3"}, {"kind": TensorProto.FLOAT16}])
def test_shapes_and_types_that_do_not_fit(tmp_path: Path, made: dict[str, Any]) -> None:
    with refused(UsageProblem):
        bound(recurrent(tmp_path / "m.onnx", **made), state={"h_next": "h"})


def test_an_output_that_no_run_writes(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", "g (float[1] x, float[1] h) => (float[1] y, float[1] h) { y = Add(x, h) }")
    with refused(UsageProblem):
        bound(path, state={"h": "h"})


def test_a_shape_that_depends_on_the_data(tmp_path: Path) -> None:
    graph = "g (float[3] x, float[3] h) => (float[3] h_next, float[3] y) { h_next = Unique(h) y = Add(x, h) }"
    model = write_onnx(tmp_path / "m.onnx", graph)
    with refused(UsageProblem):
        bound(model, state={"h_next": "h"})


def test_no_state_and_none_any_more(model: Path) -> None:
    with bound(model) as session:
        assert session.state_inputs == ()
        assert session.memory_bytes() == {}
        with refused(UsageProblem):
            session.reset_state()
    session = bound(model, state=STATE)
    session.run({"x": steps()[0]})
    session.close()
    assert session.memory_bytes() == {"device_state": 0, "host_state": 0}
    with refused(UsageProblem):
        session.reset_state()


def test_a_run_in_flight_keeps_its_state(model: Path) -> None:
    class Resetting(CopyingSession):
        def run_with_iobinding(self, binding: Any, options: Any) -> None:
            with refused(UsageProblem):
                session.reset_state()
            super().run_with_iobinding(binding, options)

    with bound(model, session=Resetting(model), state=STATE) as session:
        np.testing.assert_array_equal(session.run({"x": steps()[0]})["y"], by_hand(model, steps())[0])


@pytest.mark.parametrize("backend", [OrtCudaBackend(), OrtTrtBackend()])
@pytest.mark.parametrize(
    ("extra", "concurrency"),
    [
        ({}, 2),
        ({"cuda_graph": True}, 1),
        ({"state": "h_next=h"}, 1),
    ],
)
def test_what_does_not_go_together(model: Path, backend: Any, extra: dict[str, Any], concurrency: int) -> None:
    options = SessionOptions(concurrency=concurrency, extra={"state": STATE, **extra})
    with refused(UsageProblem):
        backend.request(model, options)
    assert backend.request(model, SessionOptions(extra={"state": STATE})).extra["state"] == STATE


def test_tensorrts_own_graphs_do_not_go_with_state(model: Path) -> None:
    with refused(UsageProblem):
        OrtTrtBackend().request(model, SessionOptions(extra={"state": STATE, "trt_cuda_graph_enable": True}))
