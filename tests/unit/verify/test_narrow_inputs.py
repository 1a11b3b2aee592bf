"""An engine of TensorRT 8.6 takes int32 where its model takes int64: the model's copies get what they take."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import faulty_backend
from tests.random_attention import Attention, write_attention

from trt_workbench.backends.base import Session, TensorSpec
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions of the backend `faulty` take int32 for int64."""
    before = faulty_backend.FaultySession.__init__

    def narrowed(self: Any, inner: Session, *rest: Any) -> None:
        before(self, inner, *rest)
        types = {"int64": "int32"}
        self.inputs = tuple(TensorSpec(one.name, types.get(one.dtype, one.dtype), one.shape) for one in inner.inputs)
        run = inner.run
        wide = {one.name: one.dtype for one in inner.inputs}
        inner.run = lambda inputs: run({name: np.asarray(array, wide[name]) for name, array in inputs.items()})

    monkeypatch.setattr(faulty_backend.FaultySession, "__init__", narrowed)


@pytest.mark.usefixtures("_narrow")
def test_an_engine_with_narrower_integers_is_verified(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    write_attention(Attention("slots", "rows", queries=1), model)
    request = VerifyRequest(
        model, backend="faulty", options={"fault": "none"}, ranges={"N": Range(1, 2, 3)}, quick=True
    )
    found = verify(request, tmp_path)
    assert found.document["verdict"] == "right", found.failures
    assert found.document["cases_unverified"] == 0
