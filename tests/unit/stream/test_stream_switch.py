"""What a change of the chunk size costs, on a clock of the test's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.streaming_models import attention, contract_of, write_contract

from trt_workbench.stream import paced as stream_paced
from trt_workbench.stream.clock import Clock
from trt_workbench.stream.opening import OpenedStream
from trt_workbench.stream.paced import STREAMS, switch
from trt_workbench.stream.paced_document import Switch
from trt_workbench.stream.pool import StreamPool
from trt_workbench.stream.run import StreamEvaluation
from trt_workbench.stream.settings import StreamSettings

MS = 1e-3


class Pool(Clock):
    """Takes 10 ms for a first chunk and 20 ms for a later one, and more after one of the other kind or an opening."""

    def __init__(self, first: float, later: float, opening: float = 0.0) -> None:
        self.time, self.more, self.opening = 0.0, {True: first, False: later}, opening
        self.last: bool | None = None
        self.owed, self.open_streams, self.most, self.pushes = 0.0, 0, 0, 0

    def now(self) -> float:
        return self.time

    def open(self) -> Any:
        pool = self

        class Stream:
            chunks = 0

            def close(self) -> None:
                pool.open_streams -= 1

        self.owed += self.opening
        self.open_streams += 1
        self.most = max(self.most, self.open_streams)
        return Stream()

    def push(self, streams: Sequence[Any], chunks: Sequence[Any]) -> None:
        (stream,) = streams
        assert chunks == [stream.chunks]
        first = stream.chunks == 0
        took = (10 if first else 20) + (self.more[first] if self.last not in (None, first) else 0.0)
        self.time += (took + self.owed) * MS
        self.owed, self.last, self.pushes = 0.0, first, self.pushes + 1
        stream.chunks += 1


def found(pool: Pool, seconds: float = 1.0) -> Switch:
    return switch(pool, lambda _, chunk: chunk, seconds, pool)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "later"), [(0.0, 0.0), (1.0, 5.0)])
def test_what_a_switch_adds_is_told_of_each_kind_of_chunk(first: float, later: float) -> None:
    pool = Pool(first, later, opening=3.0)  # that is no part of a switch
    told = found(pool)
    assert told.cost == pytest.approx({"first": first / 10, "later": later / 20})
    assert told.again_ms["first"]["max"] == pytest.approx(10)
    assert told.switched_ms["later"]["min"] == pytest.approx(20 + later)
    assert {one["count"] for one in (*told.again_ms.values(), *told.switched_ms.values())} == {told.rounds}
    assert (pool.open_streams, pool.most) == (0, STREAMS)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.01, 5), (1.0, 13), (1e3, 200)])
def test_it_ends(seconds: float, rounds: int) -> None:
    assert found(Pool(0.0, 0.0), seconds).rounds == rounds


@pytest.mark.parametrize(("chunk", "told"), [(None, True), (9, False)])
def test_it_is_asked_for_where_chunks_have_two_sizes(
    chunk: int | None, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[StreamPool] = []

    class Kept(StreamPool):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            pools.append(self)

    monkeypatch.setattr(stream_paced, "StreamPool", Kept)
    contract = write_contract(tmp_path / "contract.json", contract_of("attention"))
    asked = StreamSettings(
        target=attention(tmp_path), contract=contract, backend="ort-cpu", chunks=4, chunk=chunk,
        mode=("closed-loop",), streams=(1,), seconds=0.1, hop_ms=10.0,
    )  # fmt: skip
    with OpenedStream(asked, lambda _: None) as opened:
        (paced,) = StreamEvaluation(opened).run(tmp_path, lambda *_: None).streams
    assert (paced.switch is not None) == told
    # no more room than is needed: it is memory of the device, which is reported
    assert [pool.capacity for pool in pools] == [STREAMS if told else 1]
