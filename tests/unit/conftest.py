"""Records as a bench run leaves them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trt_workbench.measure import worker_process
from trt_workbench.runs.records import Record


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(forking: Any) -> Iterator[None]:
    """Start workers fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "subprocess", forking)
        yield


def make_record(runtime: str = "ort-cpu", repetition: int = 0, p50: float = 1.0, **changes: Any) -> Record:
    latency = {"mean": p50, "p50": p50, "p90": p50, "p95": p50, "p99": p50, "min": p50, "max": p50, "count": 1000}
    values = {
        "key": runtime,
        "scenario": "arrays",
        "kind": "arrays",
        "model": "detector",
        "model_sha256": "0" * 64,
        "work": "detector b1",
        "batch": 1,
        "dims": {},
        "runtime": runtime,
        "backend": "ort-cpu",
        "precision": "fp32",
        "repetition": repetition,
        "status": "ok",
        "latency_ms": latency,
        "items_per_s": 1000 / p50,
        **changes,
    }
    return Record(**values)


@pytest.fixture
def record() -> Callable[..., Record]:
    """Make a record."""
    return make_record
