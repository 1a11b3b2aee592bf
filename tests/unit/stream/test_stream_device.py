"""State on the device, and engines that are built for streams."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.streaming_models import (
    attention,
    contract_of,
)
from tests.texts import refused
from tests.unit.stream.evaluation import evaluated, failing, settings

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.opening import OpenedStream, write_fixed


class KeepingSession(Session):
    """ort-cpu with its state kept between calls; `slip` is the call after which an update is lost."""

    slip = -1

    def __init__(self, inner: Session, state: Mapping[str, str]) -> None:
        self._inner, self._pairs, self._calls = inner, state, 0
        self.inputs = tuple(one for one in inner.inputs if one.name not in state.values())
        self.outputs = tuple(one for one in inner.outputs if one.name not in state)
        self.metadata, self.provenance = {}, {}
        self._held: dict[str, NDArray[Any]] = {}

    def reset_state(self) -> None:
        shapes = {one.name: one.shape for one in self._inner.inputs}  # a dynamic one would be refused on a device
        types = {one.name: one.dtype for one in self._inner.inputs}
        self._held = {name: np.zeros(shapes[name], types[name]) for name in self._pairs.values()}

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = self._inner.run({**inputs, **self._held})
        if self._calls != self.slip:
            self._held = {fed: found[output] for output, fed in self._pairs.items()}
        self._calls += 1
        return {one.name: found[one.name] for one in self.outputs}

    def _close(self) -> None:
        self._inner.close()


class KeepingBackend(Backend):
    """A backend with the option `state`."""

    name = "keeping"
    file_kinds = (".onnx",)
    state = True

    def availability(self) -> Availability:
        return Availability(ok=True)

    def _load(self, model: Path, options: SessionOptions) -> Session:
        inner = get_backend("ort-cpu").load(model, SessionOptions())
        return KeepingSession(inner, options.extra["state"]) if "state" in options.extra else inner


@pytest.mark.long(but=1)
@pytest.mark.parametrize("slip", [-1, 25])
def test_state_on_the_device_equals_the_closed_loop_bit_for_bit(
    slip: int, tmp_path: Path, outside_backend: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside_backend("keeping", "tests.unit.stream.test_stream_device:KeepingBackend")
    monkeypatch.setattr(KeepingSession, "slip", slip)
    asked = settings(tmp_path, backend="keeping", mode=("closed-loop", "device"))
    closed, device = evaluated(asked, tmp_path / "run").lanes
    assert closed.passed
    assert closed.bit_equal is None
    assert device.bit_equal is (slip < 0)
    assert device.tensors.keys() == {"encoded", "encoded_len"}
    if slip >= 0:
        assert failing(device)["device"].chunk == slip + 1


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_copy_for_the_device_has_every_size_but_that_of_chunks(tmp_path: Path) -> None:
    contract = Contract.model_validate(contract_of("attention"))
    with get_backend("ort-cpu").load(
        write_fixed(Model.open(attention(tmp_path)), contract, _folder(tmp_path / "copy"))
    ) as session:
        shapes = {one.name: one.shape for one in (*session.inputs, *session.outputs)}
    assert shapes["x"] == (1, 3, None)
    assert shapes["cache"] == shapes["cache_next"] == (1, 6, 4)
    assert shapes["length"] == (1,)
    assert shapes["encoded"] == (1, 4, None)


def test_an_engine_gets_ranges_of_what_is_dynamic_in_the_file_that_is_built(
    tmp_path: Path, outside_backend: Callable[..., None]
) -> None:
    outside_backend("keeping", "tests.unit.stream.test_stream_device:KeepingBackend")
    for mode, names in ((("closed-loop",), {"x", "length", "cache", "cache_len"}), (("device",), {"x"})):
        asked = settings(tmp_path, backend="keeping", mode=mode, chunk=9)
        with OpenedStream(asked, lambda _: None) as opened:
            (shapes,) = opened._profiles(opened._loaded())
        assert shapes.shapes.keys() == names
        assert shapes.shapes["x"].min[0] == 1


def test_an_engine_for_many_streams_is_built_for_the_largest_batches(tmp_path: Path) -> None:
    document = contract_of("attention")
    document["profiles"].insert(0, {"name": "one", "symbols": {"B": [1, 1, 1], "T": [3, 9, 15]}})
    asked = settings(tmp_path, document=document, hop_ms=10.0)
    for streams, most in (((), 1), ((4,), 3)):
        with OpenedStream(replace(asked, streams=streams), lambda _: None) as opened:
            (shapes,) = opened._profiles(opened.target)
            assert shapes.shapes["cache"].max == (most, 6, 4)
            assert opened.joined_session("fp32") is opened.session("fp32")


def rows_of(document: dict[str, Any], streams: tuple[int, ...], tmp_path: Path) -> list[tuple[int, int, int]]:
    asked = settings(tmp_path, document=document, hop_ms=10.0, streams=streams)
    with OpenedStream(asked, lambda _: None) as opened:
        ranges = [one.shapes["cache"] for one in opened._profiles(opened.target, by_rows=True)]
    return [(one.min[0], one.opt[0], one.max[0]) for one in ranges]


def test_an_engine_for_many_streams_has_a_profile_for_each_number_of_rows(tmp_path: Path) -> None:
    document = contract_of("attention")
    wide = document["profiles"][-1]
    wide["symbols"]["B"] = [1, 3, 12]
    assert rows_of(document, (1, 64), tmp_path) == [(rows, rows, rows) for rows in (1, 2, 4, 8, 12)]
    assert rows_of(document, (1, 3), tmp_path) == [(rows, rows, rows) for rows in (1, 2, 3)]
    each = [{"name": f"b{rows}", "symbols": {**wide["symbols"], "B": [rows] * 3}} for rows in (1, 4)]
    assert rows_of({**document, "profiles": each}, (1, 64), tmp_path) == [(1, 1, 1), (4, 4, 4)]


def test_a_model_beside_itself_is_said_to_be(tmp_path: Path) -> None:
    found = evaluated(settings(tmp_path), tmp_path / "run")
    assert any("only the loop is compared" in note for note in found.notes)
    other = evaluated(replace(settings(tmp_path), model=attention(tmp_path, name="copy")), tmp_path / "two")
    assert not any("only the loop is compared" in note for note in other.notes)


@pytest.mark.parametrize("zero", [0, 0.0, "1 - 1"])
def test_zeros_are_zeros_as_a_whole_number_too(
    zero: object, tmp_path: Path, outside_backend: Callable[..., None]
) -> None:
    """JSON's 0 is what `make-contract --init 0` and the embedded encoder's contract say."""
    outside_backend("keeping", "tests.unit.stream.test_stream_device:KeepingBackend")
    document = contract_of("attention")
    document["state"][0]["init"] = zero
    asked = settings(tmp_path, document=document, backend="keeping", mode=("closed-loop", "device"), chunks=12)
    assert evaluated(asked, tmp_path / "run").lanes[1].bit_equal


@pytest.mark.parametrize("other", [1.0, 1, "C"])
def test_device_state_begins_with_zeros_or_not_at_all(
    other: object, tmp_path: Path, outside_backend: Callable[..., None]
) -> None:
    outside_backend("keeping", "tests.unit.stream.test_stream_device:KeepingBackend")
    document = contract_of("attention")
    document["state"][0]["init"] = other
    with refused(UsageProblem):
        evaluated(settings(tmp_path, document=document, backend="keeping", mode=("device",)), tmp_path / "run")
