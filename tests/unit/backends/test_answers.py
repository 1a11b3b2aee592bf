"""What a backend of another package raises and answers: never more than a sentence with its name."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends import registry
from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.images import ImageSession, ImageTransform
from trt_workbench.backends.measuring import MeasuringSession, SamplingLimits
from trt_workbench.core.errors import (
    BackendFailure,
    ComponentMissing,
    DeviceFailure,
    DeviceLost,
    OutOfMemory,
    UsageProblem,
    WorkbenchError,
)

FOLDER = Path(__file__).parents[2] / "odd"
X = {"x": np.ones((2, 3), np.float32)}
WHO = r"Backend odd \(package addon 1\.0\) failed in "


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "m.onnx", "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")


@pytest.fixture
def odd(outside_package: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(what: str, *, device: bool = False) -> None:
        monkeypatch.setenv("TRTW_ODD", what)
        if device:
            monkeypatch.setenv("TRTW_ODD_DEVICE", "1")
        outside_package({"trt_workbench.backends": {"odd": "odd_backend:OddBackend"}}, FOLDER)

    return install


def session_of(model: Path) -> Session:
    return registry.require_backend("odd").load(model, SessionOptions(threads=1))


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("backend:KeyError('x')", BackendFailure, "OddBackend: KeyError: 'x'"),
        ("backend:SystemExit(3)", BackendFailure, "OddBackend: SystemExit: 3"),
        ("availability:RuntimeError('no licence')", BackendFailure, "availability: RuntimeError: no licence"),
        ("availability:None", BackendFailure, "availability: TypeError: it returned NoneType, not Availability"),
        ("__init__:ValueError('boom')", BackendFailure, "_load: ValueError: boom"),
        ("__init__:ImportError('libx.so')", ComponentMissing, "_load: ImportError: libx.so"),
        ("_load:None", BackendFailure, "_load: TypeError: it returned NoneType, not Session"),
        ("_load:7", BackendFailure, "_load: TypeError: it returned int, not Session"),
        ("_infer:RuntimeError('boom')", BackendFailure, "_infer: RuntimeError: boom"),
        ("_infer:SystemExit()", BackendFailure, "_infer: SystemExit"),
        ("_infer:Panic('of Rust')", BackendFailure, "_infer: Panic: of Rust"),
        ("_infer:RecursionError()", BackendFailure, "_infer: RecursionError"),
        ("_infer:OSError(28, 'No space left')", BackendFailure, "_infer: OSError: .* No space left"),
        ("_infer:MemoryError()", OutOfMemory, "_infer: MemoryError"),
        ("_infer:OutOfMemoryError('CUDA out of memory')", OutOfMemory, "_infer: OutOfMemoryError: CUDA"),
        ("_infer:RuntimeError('CUDA failure 700: an illegal memory access')", DeviceLost, "_infer: RuntimeError: CUDA"),
        ("_infer:RuntimeError('CUDA failure 1: invalid argument')", DeviceFailure, "_infer: RuntimeError: CUDA"),
        ("_infer:None", BackendFailure, "_infer: AttributeError: 'NoneType' object"),
        ("_infer:[*found.values()]", BackendFailure, "_infer: AttributeError: 'list' object"),
        ("_infer:{}", BackendFailure, r"_infer: ValueError: it returned the outputs \[\], but the model has \['y'\]"),
        ("_infer:{**found, 'z': 1}", BackendFailure, "_infer: ValueError: it returned the outputs .*'z'"),
        ("_infer:{1: found['y']}", BackendFailure, r"_infer: ValueError: it returned the outputs \['1'\]"),
        ("arrays.y:None", BackendFailure, "_infer: AttributeError: 'NoneType' object"),
        ("_infer:GeneratorExit()", BackendFailure, "_infer: GeneratorExit"),
        ("arrays.y:array.tolist()", BackendFailure, "_infer: AttributeError: 'list' object"),
        (
            "arrays.y:array[0]",
            BackendFailure,
            r"_infer: ValueError: Output y has shape \[3\], the model returns y float32",
        ),
        ("arrays.y:array[:, :2]", BackendFailure, r"_infer: ValueError: Output y has shape \[2, 2\]"),
        ("arrays.y:array.astype('f8')", BackendFailure, "_infer: ValueError: Output y is float64"),
        ("arrays.y:array.astype('>f4')", BackendFailure, "_infer: ValueError: Output y is in foreign byte order"),
        ("_close:RuntimeError('boom')", BackendFailure, "_close: RuntimeError: boom"),
    ],
)
def test_what_it_raises_or_answers_is_a_sentence_with_its_name(
    odd: Callable[..., None], model: Path, what: str, error: type[WorkbenchError], text: str
) -> None:
    odd(what)
    with pytest.raises(error, match=f"^{WHO}{text}") as raised, session_of(model) as session:
        session.run(X)
    assert raised.type is error
    assert raised.value.exit_code == (3 if error is ComponentMissing else 4)


@pytest.mark.parametrize("what", ["_infer:UsageProblem('as it is')", "_infer:KeyboardInterrupt()"])
def test_what_it_raises_of_ours_stays(odd: Callable[..., None], model: Path, what: str) -> None:
    odd(what)
    with session_of(model) as session, pytest.raises((UsageProblem, KeyboardInterrupt), match=r"^(as it is)?$"):
        session.run(X)


@pytest.mark.parametrize("what", ["inputs", "outputs"])
@pytest.mark.parametrize("names", ["()", "(TensorSpec('other', 'float32', (3,)),)"])
def test_a_session_has_the_names_of_the_model(odd: Callable[..., None], model: Path, what: str, names: str) -> None:
    odd(f"session.{what}:{names}")
    with refused(BackendFailure):
        session_of(model)


@pytest.mark.parametrize("what", ["availability:SystemExit(1)", "backend:Panic('x')"])
def test_the_others_are_listed_beside_it(odd: Callable[..., None], what: str) -> None:
    odd(what)
    found = registry.availabilities()
    assert found["ort-cpu"].ok
    assert not found["odd"].ok
    assert "addon 1.0" in found["odd"].reason


@pytest.mark.parametrize(
    "what",
    [
        "measure:RuntimeError('boom')",
        "run_images:ZeroDivisionError()",
        "run_images:None",
    ],
)
def test_what_a_session_can_do_beside_run_is_guarded_alike(odd: Callable[..., None], tmp_path: Path, what: str) -> None:
    odd(what, device=True)
    model = write_onnx(tmp_path / "m.onnx", "g (float[N,3,8,8] x) => (float[N,3,8,8] y) { y = Relu(x) }")
    images = [np.zeros((8, 8, 3), np.uint8)]
    arrays, limits = {"x": np.ones((1, 3, 8, 8), np.float32)}, SamplingLimits(min_iterations=3)
    with session_of(model) as session:
        assert isinstance(session, MeasuringSession)
        assert isinstance(session, ImageSession)
        call = (
            (lambda: session.measure(arrays, limits))
            if "measure" in what
            else (lambda: session.run_images(images, ImageTransform(8, 8)))
        )
        with refused(BackendFailure):
            call()


def test_a_healthy_one_and_its_warnings_are_left_alone(odd: Callable[..., None], model: Path) -> None:
    odd("_infer:warns")
    with session_of(model) as session, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.array_equal(session.run(X)["y"], X["x"])
        assert type(session).__name__ == "OddSession"
        assert type(session) is type(session_of(model))
    assert [str(one.message) for one in caught] == ["an old interface"]
    with session_of(model) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused(BackendFailure):
            session.run(X)
