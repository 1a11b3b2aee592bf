from types import SimpleNamespace

import pytest

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.engine import native


@pytest.mark.parametrize(
    ("cuda", "words", "absent"),
    [
        (None, "built without CUDA and has no Runner. Install the CUDA toolkit", "TensorRT's headers"),
        ("13.0", "built without TensorRT's headers and has no Runner", "without CUDA"),
    ],
)
def test_a_part_that_was_left_out_names_its_cause(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, words: str, absent: str
) -> None:
    core = SimpleNamespace(build_info=lambda: {"version": "0.1.0", "cuda": cuda, "tensorrt_headers": None})
    monkeypatch.setattr(native, "native", lambda: core)
    with pytest.raises(ComponentMissing) as problem:
        native.require("Runner")
    assert words in str(problem.value)
    assert absent not in str(problem.value)
    assert native.build_advice() in str(problem.value)
