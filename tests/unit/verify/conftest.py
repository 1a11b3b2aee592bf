"""Small models, and a backend that is wrong on demand."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import faulty_backend
from tests.in_process_worker import InProcessWorker
from tests.onnx_text import write_onnx

from trt_workbench.core import workers
from trt_workbench.verify.yardstick import Limit, Yardstick


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch, outside_backend: Callable[..., None]) -> None:
    """Register the backend `faulty`."""
    outside_backend("faulty", "tests.faulty_backend:FaultyBackend")
    monkeypatch.setattr(faulty_backend.FaultySession, "opened", 0)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers be in this process, where tests plant their faults; test_isolation.py has processes."""
    monkeypatch.setattr(workers, "WorkerProcess", InProcessWorker)


@pytest.fixture(scope="session")
def limits_by_input() -> dict[bytes, dict[str, Limit]]:
    """The limits that `known_limits` has, by all that they depend on."""
    return {}


@pytest.fixture
def known_limits(limits_by_input: dict[bytes, dict[str, Limit]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the noise of one model for one set of inputs once: faults of a backend do not change it."""
    measured = Yardstick.limits

    def limits(self: Yardstick, *given: Any, **how: Any) -> dict[str, Limit]:
        key = pickle.dumps((self._model.path.read_bytes(), self._seed, given, how))
        if key not in limits_by_input:
            limits_by_input[key] = measured(self, *given, **how)
        return limits_by_input[key]

    monkeypatch.setattr(Yardstick, "limits", limits)
    monkeypatch.setattr(Yardstick, "prepare", lambda *_: None)  # `limits` makes the copies that it needs


@pytest.fixture
def masked_model(tmp_path: Path) -> Path:
    """x [N,6,6] and mask [N,6] to y [N,6,6]: attention of x over itself, with what the mask leaves."""
    graph = """attention (float[N,6,6] x, float[N,6] mask) => (float[N,6,6] y)
      <int64[1] one = {1}, float unit = {1}, float much = {1e4}> {
        q = MatMul(x, w) k = Transpose<perm = [0, 2, 1]>(x) scores = MatMul(q, k)
        wide = Unsqueeze(mask, one) bias = Sub(wide, unit) biases = Mul(bias, much)
        masked = Add(scores, biases) p = Softmax<axis = -1>(masked) y = MatMul(p, x)
    }"""
    weights = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32) / 2
    return write_onnx(tmp_path / "attention.onnx", graph, {"w": weights})


@pytest.fixture
def index_model(tmp_path: Path) -> Path:
    """x [N,6] to the place [N,1] of its largest element."""
    return write_onnx(tmp_path / "index.onnx", "g (float[N,6] x) => (int64[N,1] y) { y = ArgMax<axis = 1>(x) }")
