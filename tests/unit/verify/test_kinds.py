"""Operators of twenty kinds: a healthy model is never called wrong, and a copy with one thing wrong always is."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import onnx
import pytest
from tests.kinds_of_models import FAULTS, KINDS, altered, write

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range


class AlteredBackend(OrtCpuBackend):
    """ort-cpu on a copy that computes one thing wrong."""

    name: ClassVar[str] = "altered"
    fault: ClassVar[str] = ""

    def _load(self, model: Path, options: SessionOptions) -> Session:
        path = Path(tempfile.mkdtemp(dir=model.parent)) / model.name
        onnx.save(altered(onnx.load(model), self.fault), path)
        return super()._load(path, options)


# Behind these nothing is negative.
POSITIVE = ("lp pool", "log sum exp", "log softmax")


def fault_of(kind: str) -> str:
    fault = FAULTS[list(KINDS).index(kind) % len(FAULTS)]
    return "clipped" if fault == "signs" and kind in POSITIVE else fault


@pytest.mark.long(but=1)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_operators(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_backend: Any) -> None:
    outside_backend(AlteredBackend.name, f"{__name__}:AlteredBackend")
    monkeypatch.setattr(AlteredBackend, "fault", fault_of(kind))
    model = write(kind, 0, tmp_path / "m.onnx")

    def verdict(backend: str) -> str:
        folder = tmp_path / backend
        folder.mkdir()
        asked = VerifyRequest(target=model, backend=backend, quick=True, ranges={"N": Range(1, 2, 3)})
        return str(verify(asked, folder).document["verdict"])

    assert (verdict("ort-cpu"), verdict("altered")) == ("consistent", "wrong")
