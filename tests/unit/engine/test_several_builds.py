"""TensorRT's builder is kept while several engines are built, and no longer."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from trt_workbench.engine.builder import build, prepare_build
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.several_builds import several_builds
from trt_workbench.model.opened import Model

pytestmark = pytest.mark.usefixtures("doubled_core")


@pytest.fixture
def built(make_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Return a function that gets an engine and returns how many builders are kept then."""
    monkeypatch.setattr("trt_workbench.engine.several_builds._kept", [])  # tests/gpu keeps one for its session
    core = importlib.import_module("trt_workbench_native")

    def get(number: int) -> int:
        model = make_model(f"model-{number}.onnx", scale=1.0 + number)
        build(prepare_build(Model.open(model), BuildSettings()))
        return int(core.BuilderHold.held)

    return get


def test_several_builds_keep_one(built: Callable[[int], int]) -> None:
    with several_builds():
        assert [built(1), built(2)] == [1, 1]
        with several_builds():
            assert built(3) == 1
        assert built(4) == 1
    assert built(5) == 0


def test_an_error_lets_the_builder_go(built: Callable[[int], int]) -> None:
    def failing() -> None:
        with several_builds():
            assert built(1) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert built(2) == 0
