"""The backend ort-rtx as far as a machine without such a card allows: options, availability, errors."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.texts import refused
from tests.unit.backends.small_models import linear

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort import plugin
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.engine.profiles import Profile
from trt_workbench_rtx import backend as ort_rtx
from trt_workbench_rtx.backend import PROVIDER_OPTIONS, RTX_PROVIDER, OrtRtxBackend

SHAPES = {f"nv_profile_{end}_shapes": f"x:{size}x4" for end, size in (("min", 1), ("opt", 4), ("max", 8))}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    return linear(tmp_path / "m.onnx")


def request(model: Path, precision: str = "fp32", shapes: Profile | None = None, **extra: Any) -> LoadRequest:
    return OrtRtxBackend().request(model, SessionOptions(precision=precision, shapes=shapes, extra=extra))


def test_options_reach_the_provider_and_only_it_is_accepted(model: Path) -> None:
    values = {bool: True, int: 1, str: "words"}
    given = {name: values[option.kind] for name, option in PROVIDER_OPTIONS.items() if isinstance(option.kind, type)}
    made = request(model, **{**given, **SHAPES})
    assert [name for name, _ in made.providers] == [RTX_PROVIDER, "CPUExecutionProvider"]
    assert made.accepted == (RTX_PROVIDER,)
    assert made.providers[0][1].keys() == PROVIDER_OPTIONS.keys()
    assert made.providers[0][1]["enable_cuda_graph"] == "True"
    assert made.providers[0][1]["nv_profile_max_shapes"] == "x:8x4"


def test_what_is_not_asked_for_is_left_to_the_provider(model: Path) -> None:
    assert request(model).providers[0][1] == {}


def test_ranges_that_the_caller_will_use_are_built_for(model: Path) -> None:
    asked = Profile.model_validate("x:1x4/2x4/8x4,y:3/3/3")
    assert request(model, shapes=asked).providers[0][1] == {
        "nv_profile_min_shapes": "x:1x4;y:3",
        "nv_profile_opt_shapes": "x:2x4;y:3",
        "nv_profile_max_shapes": "x:8x4;y:3",
    }
    assert request(model, shapes=asked, **SHAPES).providers[0][1] == SHAPES


def test_fp16_is_another_graph(model: Path) -> None:
    made = request(model, "fp16")
    assert made.model.path != model
    assert made.source.path == model


@pytest.mark.parametrize(
    "extra",
    [
        {"nv_max_workspace": 1},
        {"nv_profile_min_shapes": "x:1x4"},
        {"device_id": -1},
        {"enable_cuda_graph": "perhaps"},
    ],
)
def test_options_that_cannot_be_are_refused(model: Path, extra: dict[str, Any]) -> None:
    with refused(UsageProblem):
        request(model, **extra)
    with refused(UsageProblem):
        OrtRtxBackend().check_options(SessionOptions(extra=extra))


def test_without_a_gpu_that_is_the_reason(gpus: Callable[..., None], model: Path) -> None:
    gpus()
    with refused(ComponentMissing):
        OrtRtxBackend().load(model)


@pytest.mark.parametrize("capability", ["7.5", "8.0", "9.0", "10.0"])
def test_a_card_that_it_does_not_serve_is_named(gpus: Callable[..., None], capability: str) -> None:
    gpus(capability)
    found = OrtRtxBackend().availability()
    assert not found.ok
    assert re.search(rf"not .*\({re.escape(capability)}\)", found.reason)
    assert "ort-cuda" in found.fix


@pytest.mark.parametrize("capability", ["8.6", "8.9", "12.0", "12.1"])
def test_without_the_package_the_command_that_installs_it_is_named(
    gpus: Callable[..., None], capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus("9.0", capability)  # one card of several will do
    monkeypatch.setattr(ort_rtx, "PACKAGE", "no_such_package")
    found = OrtRtxBackend().availability()
    assert not found.ok
    assert "onnxruntime-ep-nv-tensorrt-rtx is not installed" in found.reason
    assert "`pip install 'trt-workbench-rtx[ort]'`" in found.fix or " -e gpu-ort-rtx " in found.fix


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package like the provider's, whose library is no library."""
    module = tmp_path / "like_rtx.py"
    module.write_text(f"__version__ = '0.5.0'\ndef get_library_path(): return {str(tmp_path / 'no.so')!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ort_rtx, "PACKAGE", module.stem)
    monkeypatch.delitem(sys.modules, module.stem, raising=False)
    return module


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "libcuda.so.1: cannot open"}, "cannot open the provider (libcuda.so.1"),
        ({"devices": 0}, "sees no supported card"),
        ({"error": "Segmentation fault"}, "cannot open the provider (Segmentation fault)"),
        ({"devices": 1}, ""),
    ],
)
@pytest.mark.usefixtures("package")
def test_what_the_provider_answers_is_the_answer(
    gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], reason: str
) -> None:
    gpus("12.0")
    monkeypatch.setattr(plugin, "probe_plugin", lambda *_: answer)
    found = OrtRtxBackend().availability()
    assert found.ok == (not reason)
    assert reason in found.reason
    assert found.ok or "doctor" in found.fix
    assert found.versions["ort_rtx_plugin"] == "0.5.0"


@pytest.mark.usefixtures("package")
def test_a_library_that_is_not_there_is_the_answer_of_onnx_runtime(gpus: Callable[..., None]) -> None:
    gpus("12.0")
    found = OrtRtxBackend().availability()
    assert not found.ok
    assert "no.so" in found.reason


def test_a_package_that_cannot_be_imported_is_a_sentence(gpus: Callable[..., None], package: Path) -> None:
    gpus("12.0")
    package.write_text("import no_such_package\n")
    found = OrtRtxBackend().availability()
    assert "like_rtx cannot be imported" in found.reason
    assert "no_such_package" in found.reason
    assert "`pip install 'trt-workbench-rtx[ort]'`" in found.fix or " -e gpu-ort-rtx " in found.fix
