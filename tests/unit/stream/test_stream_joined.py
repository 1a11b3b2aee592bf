"""Streams in batches compared with each alone: healthy models pass, and one wrong row is found and named."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.streaming_models import MODELS, contract_of, write_contract
from tests.texts import refused

from trt_workbench.backends.base import Session
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.stream.clock import Clock
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.document import StreamMetrics
from trt_workbench.stream.joined import joined
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.paced_document import JoinedCheck
from trt_workbench.stream.pool import StreamPool
from trt_workbench.stream.rows import Pieces
from trt_workbench.stream.run import StreamEvaluation
from trt_workbench.stream.settings import StreamSettings, read_streams

Arrays = dict[str, NDArray[Any]]
Spoil = Callable[[Arrays], None]


def checked(name: str, folder: Path, spoil: Spoil | None = None, most: int = 3) -> JoinedCheck:
    """The check of a model, whose outputs in the pool's batches `spoil` changes."""
    contract = read_contract(write_contract(folder / "c.json", contract_of(name)))
    loads = get_backend("ort-cpu").load
    with loads(MODELS[name][0](folder)) as plain, loads(MODELS[name][0](folder)) as pooled:
        infer = pooled._infer

        def spoiled(inputs: Arrays) -> Arrays:
            found = {key: array.copy() for key, array in infer(inputs).items()}
            if spoil:
                spoil(found)
            return found

        pooled._infer = spoiled  # type: ignore[method-assign]
        shape = list(contract.shape(contract.signal[0], contract.chunk_values(next(contract.chunks(1)))))
        shape[contract.signal[1].time_axis] = 100 if name != "degenerate" else 5000
        signal = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        with StreamPool(pooled, contract) as pool:
            count = min(most, pool.buckets[-1])
            found = joined(pool, plain, Pieces(contract, signal, None), count, 1e-5, folder, lambda: None)
            assert pool.streams == 0
            return found


@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_passes_in_every_batch_size(name: str, tmp_path: Path) -> None:
    found = checked(name, tmp_path)
    assert found.passed, found.text
    most = {"degenerate": 1}.get(name, 3)
    assert (found.streams, found.rows) == (most, list(range(1, most + 1)))
    assert found.chunks >= 3 * most
    assert found.rel_l2_max is not None
    assert found.rel_l2_max < 1e-6
    assert found.text == "bit-identical" if found.bit_equal else found.tensor


def _second_row(outputs: Arrays) -> None:
    if len(outputs["encoded"]) > 1:
        outputs["encoded"][1] *= np.float32(1 + 1e-4)


def _rows_swapped(outputs: Arrays) -> None:
    outputs["cache_next"] = outputs["cache_next"][::-1].copy()


def _lengths(outputs: Arrays) -> None:
    outputs["cache_len_next"][1:] -= 1


def _state_lost(outputs: Arrays) -> None:
    outputs["cache_next"][2:] = 0


def _not_finite(outputs: Arrays) -> None:
    if len(outputs["encoded"]) == 3:
        outputs["encoded"][0, 0, 0] = np.nan


@pytest.mark.parametrize("spoil", [_second_row, _rows_swapped, _lengths, _state_lost, _not_finite])
def test_a_fault_of_one_row_is_found_and_named(spoil: Spoil, tmp_path: Path) -> None:
    found = checked("attention", tmp_path, spoil)
    assert not found.passed
    assert not found.bit_equal
    assert "in a batch of" in found.text
    assert "from the same stream alone" in found.text
    assert found.tensor is not None
    assert found.tensor in found.text


def test_a_stream_in_the_place_of_a_closed_one_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check opens streams where others were closed: a place whose state is not reset is found."""
    plain = StreamPool.open
    kept: list[Any] = []

    def again(self: StreamPool) -> Any:
        stream = plain(self)
        if kept:
            self._states.restore(stream._number, kept[0])
        return stream

    close = StreamPool._close

    def remember(self: StreamPool, stream: Any) -> None:
        if stream in self._open:
            kept.append(self._states.save(stream._number))
        close(self, stream)

    monkeypatch.setattr(StreamPool, "open", again)
    monkeypatch.setattr(StreamPool, "_close", remember)
    assert not checked("attention", tmp_path).passed


def evaluated(folder: Path, name: str = "attention", **more: Any) -> StreamMetrics:
    contract = write_contract(folder / "contract.json", contract_of(name))
    given = {"backend": "ort-cpu", "chunks": 8, "mode": ("closed-loop",), "seconds": 0.1, "hop_ms": 20.0, **more}
    asked = StreamSettings(target=MODELS[name][0](folder), contract=contract, **given)
    (folder / "run").mkdir(exist_ok=True)
    with OpenedStream(asked, lambda _: None) as opened:
        return StreamEvaluation(opened).run(folder / "run", lambda *_: None)


def test_levels_run_after_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = itertools.count()
    with monkeypatch.context() as patch:  # a clock that moves by 0.1 ms whenever it is read
        patch.setattr("time.perf_counter", lambda: next(reads) / 10_000)
        found = evaluated(tmp_path, streams=(1, 4))
    (paced,) = found.streams
    assert found.passed
    assert paced.check.passed
    assert paced.check.rows == [1, 2, 3]  # what the contract's profile takes
    assert [level.streams for level in paced.levels] == [1, 4]
    assert [level.chunks for level in paced.levels if level.complete] == [5, 20]
    assert paced.buckets == [1, 2, 3]
    assert paced.memory_bytes["per_stream"] == 4 * 6 * 4 + 8
    assert not paced.on_device
    for level in paced.levels:
        assert level.parts_ms.keys() == {"wait", "inference", "state", "host"}
        whole = sum(part["mean"] for part in level.parts_ms.values())
        assert whole == pytest.approx(level.latency_ms["mean"] - 0.2)  # but for a read at each end


def test_a_machine_that_stops_before_the_first_chunk_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping(Clock):
        """Real time, but 10 s, many hops, go by before the first chunk is taken."""

        lost = 0.0

        def now(self) -> float:
            return super().now() + self.lost

        def wait(self, until: float) -> None:
            super().wait(until)
            self.lost = 10.0

    monkeypatch.setattr("trt_workbench.stream.paced.Clock", Stopping)
    (level,) = evaluated(tmp_path, streams=(1,)).streams[0].levels
    assert level.chunks >= 1
    assert not level.within_hop
    assert level.latency_ms["max"] > 9000


def test_a_wrong_batch_is_a_failure_and_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = OpenedStream.joined_session

    def session(self: OpenedStream, precision: str) -> Session:
        found = plain(self, precision)
        infer = found._infer

        def wrong(inputs: Arrays) -> Arrays:
            outputs = {key: array.copy() for key, array in infer(inputs).items()}
            _second_row(outputs)
            return outputs

        found._infer = wrong  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(OpenedStream, "joined_session", session)
    found = evaluated(tmp_path, streams=(2,))
    assert not found.passed
    assert found.failures[0].startswith("fp32 streams in batches: encoded of chunk ")
    assert found.streams[0].levels == []
    assert found.streams[0].most_streams is None


def test_a_hop_of_unknown_length_is_asked_for(tmp_path: Path) -> None:
    with refused(UsageProblem):
        evaluated(tmp_path, streams=(1,), hop_ms=None)
    document = contract_of("attention")
    document["chunking"]["frame_seconds"] = 0.002
    contract = write_contract(tmp_path / "timed.json", document)
    asked = StreamSettings(
        target=MODELS["attention"][0](tmp_path), contract=contract, backend="ort-cpu", chunks=4, streams=(1,)
    )
    with OpenedStream(asked, lambda _: None) as opened:
        assert StreamEvaluation(opened)._hop_seconds == pytest.approx(0.016)
    with OpenedStream(replace(asked, chunk=11), lambda _: None) as opened:
        assert StreamEvaluation(opened)._hop_seconds == pytest.approx(0.02)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a", "", "5000", "٣"])
def test_numbers_of_streams_that_cannot_be(text: str) -> None:
    with refused(UsageProblem):
        read_streams("--streams", text)


def test_numbers_of_streams_are_ascending() -> None:
    assert read_streams("--streams", "64, 1,8,,1") == (1, 8, 64)
