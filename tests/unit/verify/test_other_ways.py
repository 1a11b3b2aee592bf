"""Other ways to run an engine: each is tried, and a fault of one way alone is found; on the double of the core."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.core.errors import DeviceFailure
from trt_workbench.verify import other_ways
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range

WAYS = {
    "a second session",
    "4 calls at once",
    "without a CUDA graph",
    "transfers outside of the graph",
    "outputs on the device",
    "state on the device",
}
FAULTS = {
    "no graph": "without a CUDA graph",
    "transfers": "transfers outside of the graph",
    "slots": "4 calls at once",
    "device arrays": "outputs on the device",
    "state": "state on the device",
}

pytestmark = pytest.mark.usefixtures("doubled_core")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x and h [2,4] to y = x + h and h_next = tanh(y)."""
    graph = "loop (float[2,4] x, float[2,4] h) => (float[2,4] y, float[2,4] h_next) { y = Add(x, h) h_next = Tanh(y) }"
    return write_onnx(tmp_path / "loop.onnx", graph)


def found(model: Path, **more: Any) -> Verified:
    folder = model.parent / "run"
    folder.mkdir()
    more = {"options": {"state": {"h_next": "h"}}, **more}
    return verify(VerifyRequest(target=model, backend="trt", **more), folder)


def results(result: Verified) -> dict[str, str]:
    return {way["way"]: way["reason"] for way in result.document["ways"]}


def test_an_engine_that_is_right_is_so_in_every_way(model: Path) -> None:
    result = found(model)
    assert result.document["verdict"] == "right"
    assert result.failures == ()
    assert results(result) == dict.fromkeys(WAYS, "")
    by_way = {way["way"]: {one["output"] for one in way["findings"]} for way in result.document["ways"]}
    assert by_way["a second session"] == {"y", "h_next"}
    assert by_way["state on the device"] == {"y"}  # the other one stays there
    # state is verified as an input and an output, too
    assert {row["output"] for row in result.document["cases"][0]["outputs"]} == {"y", "h_next"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_way_is_found_and_named(fault: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", fault)
    result = found(model)
    assert result.document["verdict"] == "wrong"
    assert {text.split("output ")[1].split(", ")[1].split(":")[0] for text in result.failures} == {FAULTS[fault]}


def test_inputs_go_to_the_device_where_pytorch_can_take_them(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trt_workbench_native as double

    taken: list[Any] = []

    def upload(array: NDArray[Any]) -> Any:
        taken.append(array)
        return double.DeviceArray(array=array)

    monkeypatch.setattr(other_ways, "uploader", lambda _: upload)
    result = found(model)
    assert results(result)["arrays on the device"] == ""
    assert len(taken) % 2 == 0
    assert {array.dtype for array in taken} == {np.dtype(np.float32)}
    assert taken


def test_a_way_for_which_memory_is_short_does_not_end_the_others(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Opened.open

    def scarce(self: Opened, concurrency: int = 1, **extra: Any) -> Any:
        if concurrency > 1:
            raise DeviceFailure("Out of memory on the device.")
        return opening(self, concurrency, **extra)

    monkeypatch.setattr(Opened, "open", scarce)
    result = found(model)
    assert result.failures == ()
    held(results(result)["4 calls at once"])
    assert results(result)["state on the device"] == ""
    assert result.document["verdict"] == "undecided"
    assert [text.partition(":")[0] for text in result.unproven] == ["4 calls at once"]


def test_state_that_the_engine_does_not_have_is_said(model: Path) -> None:
    result = found(model, options={"state": {"h_next": "hidden"}})
    assert "could not run" in results(result)["state on the device"]
    assert [text.partition(":")[0] for text in result.unproven] == ["state on the device"]


def test_a_profile_that_no_input_fits_is_named_and_the_others_are_verified(tmp_path: Path) -> None:
    graph = "two (float[N,4] x, float[M,4] z) => (float[K,4] y) { y = Add(x, z) }"
    path = write_onnx(tmp_path / "two.onnx", graph)
    ranges = {"N": Range(2, 2, 3), "M": Range(3, 3, 3)}
    result = found(path, options={}, ranges=ranges, quick=True)
    verdicts = {case["label"]: case["verdict"] for case in result.document["cases"]}
    assert verdicts["N=3"] == "right"
    assert verdicts["N=2"] == "unverified"


def test_a_fault_of_one_profile_is_found_at_the_shapes_that_another_offers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_onnx(tmp_path / "relu.onnx", "relu (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    profiles = ["x:1x4/1x4/2x4", "x:2x4/3x4/3x4"]
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "profile 1")
    result = found(path, options={"profiles": profiles}, quick=True)
    verdicts = {(case["batch"], case["profile"]): case["verdict"] for case in result.document["cases"]}
    assert verdicts == {(1, 0): "right", (2, 0): "right", (2, 1): "wrong", (3, 1): "wrong"}
