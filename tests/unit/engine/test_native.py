from types import SimpleNamespace

import pytest
from tests.texts import refused

from trt_workbench.core.errors import ComponentMissing
from trt_workbench.engine import native


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_a_part_that_was_left_out_names_its_cause(monkeypatch: pytest.MonkeyPatch, cuda: str | None) -> None:
    core = SimpleNamespace(build_info=lambda: {"version": "0.1.0", "cuda": cuda, "tensorrt_headers": None})
    monkeypatch.setattr(native, "native", lambda: core)
    with refused(ComponentMissing):
        native.require("Runner")
