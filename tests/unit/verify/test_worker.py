"""The process in which suspicious engines are tried keeps TensorRT's builder from the first trial to its end."""

import importlib

import pytest

from trt_workbench.verify import worker
from trt_workbench.verify.worker import Verifier


@pytest.mark.usefixtures("doubled_core")
@pytest.mark.parametrize(("backend", "verb", "kept"), [("trt", "trial", 1), ("trt", "way", 1), ("ort-cpu", "trial", 0)])
def test_one_builder_serves_every_trial(monkeypatch: pytest.MonkeyPatch, backend: str, verb: str, kept: int) -> None:
    core = importlib.import_module("trt_workbench_native")
    seen = []
    for name in ("_trial", "_way"):
        monkeypatch.setattr(worker, name, lambda *_: {"held": seen.append(core.BuilderHold.held)})
    verifier = Verifier()
    for _ in range(2):
        verifier.answer({"verb": verb, "request": {"backend": backend, "device": 0}})
    assert seen == [kept, kept]
    verifier.close()
    assert core.BuilderHold.held == 0
