"""A pool's streams equal the same streams alone, whatever happens to the streams beside them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streaming_models import (
    GROWING_CONTRACT,
    MODELS,
    SHARED,
    counted,
    counted_contract,
    growing,
    write_contract,
)
from tests.texts import refused
from tests.unit.stream.contract.streams import Arrays, Opened, alone, opened, pieces, same, signal

from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import ENCODER, embedded_contract, embedded_model
from trt_workbench.stream.contract.contract import Contract
from trt_workbench.stream.contract.reading import read_contract
from trt_workbench.stream.pool import StreamPool


@pytest.fixture(scope="module")
def encoder() -> Iterator[Opened]:
    """The embedded encoder, trained, whose answers need its memory."""
    with get_backend("ort-cpu").load(embedded_model(ENCODER)) as session:
        yield session, read_contract(embedded_contract())


@pytest.mark.parametrize("name", MODELS)
def test_streams_of_mixed_age_equal_each_alone(name: str, tmp_path: Path) -> None:
    session, contract = one = opened(name, tmp_path)
    hop = contract.chunking.later.hop
    wholes = [signal(contract, contract.chunking.first.hop + 5 * hop + 1 + stream, stream) for stream in range(4)]
    parts = [pieces(contract, whole) for whole in wholes]
    expected = [alone(one, whole) for whole in wholes]
    if contract.length is None:  # nothing tells such a model that a chunk is short
        parts, expected = [part[:-1] for part in parts], [part[:-1] for part in expected]
    with session, StreamPool(session, contract) as pool:
        streams = {}
        for step in range(len(parts[0]) + 3):
            if step < 4:
                streams[step] = pool.open()
            ready = [number for number, stream in streams.items() if stream.chunks < len(parts[number])]
            ready = ready[::-1] if step % 2 else ready
            ages = {number: streams[number].chunks for number in ready}
            found = pool.push([streams[number] for number in ready], [parts[number][ages[number]] for number in ready])
            for number, outputs in zip(ready, found, strict=True):
                same(outputs, expected[number][ages[number]])
        assert [stream.chunks for stream in streams.values()] == [len(part) for part in parts]
        last = [part[-1].shape[contract.signal[1].time_axis] for part in parts]
        assert [stream.ended for stream in streams.values()] == [frames < hop for frames in last]


def test_the_embedded_encoders_states_go_through_batches_of_every_size(encoder: Opened) -> None:
    session, contract = encoder
    wholes = [signal(contract, 56 * 14, stream) for stream in range(8)]
    parts, expected = [pieces(contract, whole) for whole in wholes], [alone(encoder, whole) for whole in wholes]
    with StreamPool(session, contract) as pool:
        assert pool.buckets == tuple(range(1, 9))
        streams = []
        for _ in range(8):  # the oldest has filled its cache of ten chunks at the end
            streams.append(pool.open())
            ages = [stream.chunks for stream in streams]
            found = pool.push(streams, [part[age] for part, age in zip(parts, ages, strict=False)])
            for outputs, want, age in zip(found, expected, ages, strict=False):
                same(outputs, want[age])
        for step in range(4):
            found = pool.push(streams[:2], [parts[row][8 - row + step] for row in range(2)])
            for row, outputs in enumerate(found):
                same(outputs, expected[row][8 - row + step])


def test_more_streams_than_a_call_takes_are_split(encoder: Opened) -> None:
    session, contract = encoder
    wholes = [signal(contract, 56 * 2, stream) for stream in range(11)]
    with StreamPool(session, contract) as pool:
        streams = [pool.open() for _ in wholes]
        for step in range(2):
            pool.warm_up()  # which no stream notices
            found = pool.push(streams, [pieces(contract, whole)[step] for whole in wholes])
        for whole, outputs in zip(wholes[7:], found[7:], strict=True):
            same(outputs, alone(encoder, whole)[1])
        assert pool.timing().keys() == {"inference", "state", "host"}
        assert all(value >= 0 for value in pool.timing().values())
        assert pool.memory_bytes()["per_stream"] == 4 * (3 * 70 * 64 + 3 * 64 * 8) + 8


@pytest.mark.parametrize("shared", [False, True])
def test_counters_and_masks_are_each_streams_own(shared: bool, tmp_path: Path) -> None:
    """Where the rows of a call share them, streams of different age are not in one call."""
    session = get_backend("ort-cpu").load(counted(tmp_path, *(SHARED if shared else ())))
    contract = read_contract(write_contract(tmp_path / "c.json", counted_contract(shared=shared)))
    one, calls = (session, contract), list[int]()
    wholes = [signal(contract, 3 + 2 * 6, stream) for stream in range(4)]
    parts, expected = [pieces(contract, whole) for whole in wholes], [alone(one, whole) for whole in wholes]
    plain = session._infer

    def infer(inputs: Arrays) -> Arrays:
        calls.append(len(inputs["x"]))
        return plain(inputs)

    session._infer = infer  # type: ignore[method-assign]
    with session, StreamPool(session, contract) as pool:
        pool.warm_up()
        calls.clear()
        old, young = [pool.open(), pool.open()], [pool.open(), pool.open()]
        for step in range(2):
            pool.push(old, [part[step] for part in parts[:2]])
        streams, steps = [*old, *young], [2, 2, 0, 0]
        for _ in range(3):
            chunks = [part[step] for part, step in zip(parts, steps, strict=True)]
            for outputs, want, step in zip(pool.push(streams, chunks), expected, steps, strict=True):
                same(outputs, want[step])
            steps = [step + 1 for step in steps]
        # first chunks have another size; later ones are of any age
        assert calls == [2, 2, *([2, 2] * 3 if shared else [2, 2, 4, 4])]
        assert [stream.frames for stream in streams] == [3 + 2 * 4, 3 + 2 * 4, 3 + 2 * 2, 3 + 2 * 2]
        saved = streams[0].save()
        streams[3].restore(saved)
        same(streams[3].push(parts[0][5]), expected[0][5])


def test_a_counter_that_has_run_out_changes_no_stream(tmp_path: Path) -> None:
    document = counted_contract()
    document["inputs"]["mask"]["valid"] = "start + T"
    session = get_backend("ort-cpu").load(counted(tmp_path))
    contract = read_contract(write_contract(tmp_path / "c.json", document))
    with session, StreamPool(session, contract) as pool:
        old, young = pool.open(), pool.open()
        for frames in (3, 2, 2):
            old.push(np.zeros((frames, 3), np.float32))
        with refused(UsageProblem):
            pool.push([young, old], [np.zeros((3, 3), np.float32), np.zeros((2, 3), np.float32)])
        assert (young.chunks, old.chunks) == (0, 3)


WRONG = {
    "shape": lambda frames: frames[:, :-1],
    "too long": lambda frames: np.concatenate((frames, frames), 2),
    "empty": lambda frames: frames[:, :, :0],
    "dtype": lambda frames: frames.astype(np.float64),
    "scalar": lambda _: np.float32(0),
    "two streams": lambda frames: np.concatenate((frames, frames)),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_chunk_that_does_not_fit_changes_no_stream(kind: str, tmp_path: Path) -> None:
    session, contract = one = opened("attention", tmp_path)
    wholes = [signal(contract, 4 + 8 * 3, stream) for stream in range(2)]
    parts = [pieces(contract, whole) for whole in wholes]
    with session, StreamPool(session, contract) as pool:
        streams = [pool.open(), pool.open()]
        pool.push(streams, [part[0] for part in parts])
        with refused(UsageProblem):
            pool.push(streams, [parts[0][1], WRONG[kind](parts[1][1])])
        assert [stream.chunks for stream in streams] == [1, 1]
        for step in (1, 2, 3):
            for stream, whole, outputs in zip(
                streams, wholes, pool.push(streams, [part[step] for part in parts]), strict=True
            ):
                assert stream.chunks == step + 1
                same(outputs, alone(one, whole)[step])


def test_not_a_number_stays_in_its_stream(encoder: Opened) -> None:
    session, contract = encoder
    wholes = [signal(contract, 56 * 4, stream) for stream in range(3)]
    parts = [pieces(contract, whole) for whole in wholes]
    parts[1][1] = np.full_like(parts[1][1], np.nan)
    with StreamPool(session, contract) as pool:
        streams = [pool.open() for _ in range(3)]
        for step in range(4):
            found = pool.push(streams, [part[step] for part in parts])
            assert np.isfinite(found[1]["encoded"]).all() == (step < 1)
            for row in (0, 2):
                same(found[row], alone(encoder, wholes[row])[step])
        streams[1].close()
        fresh = pool.open()  # in its place, and it begins anew
        same(fresh.push(parts[0][0]), alone(encoder, wholes[0])[0])


def test_a_state_that_does_not_keep_its_shape_is_refused(tmp_path: Path) -> None:
    contract = Contract.model_validate(GROWING_CONTRACT)
    encoder = get_backend("ort-cpu").load(growing(tmp_path))
    with encoder as session, StreamPool(session, contract) as pool, refused(UsageProblem):
        pool.open().push(np.zeros((1, 4, 3), np.float32))


def test_a_model_that_refuses_a_call_changes_no_stream(tmp_path: Path) -> None:
    session, contract = one = opened("attention", tmp_path)
    whole = signal(contract, 4 + 8 * 2, 0)
    parts = pieces(contract, whole)
    refusing = {"now": False}
    plain = session._infer

    def infer(inputs: Arrays) -> Arrays:
        if refusing["now"]:
            raise UsageProblem("no")
        return plain(inputs)

    session._infer = infer  # type: ignore[method-assign]
    with session, StreamPool(session, contract) as pool:
        stream = pool.open()
        stream.push(parts[0])
        refusing["now"] = True
        with refused(UsageProblem):
            stream.push(parts[1])
        refusing["now"] = False
        same(stream.push(parts[1]), alone(one, whole)[1])


def test_a_stream_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    session, contract = one = opened("attention", tmp_path)
    whole = signal(contract, 4 + 8 * 3 + 3, 0)
    parts, expected = pieces(contract, whole), alone(one, whole)
    with session, StreamPool(session, contract) as pool, StreamPool(session, contract) as another:
        stream = pool.open()
        stream.push(parts[0])
        stream.push(parts[1])
        saved = stream.save()
        for step in (2, 3, 4):
            same(stream.push(parts[step]), expected[step])
        assert stream.ended
        elsewhere = another.open()
        for again in (stream, elsewhere):
            again.restore(saved)
            for step in (2, 3, 4):
                same(again.push(parts[step]), expected[step])
        with StreamPool(session, contract, size=11) as other:
            wider = other.open()
            wider.restore(saved)  # the state and the left context are the same
            assert wider.chunks == 2
        session2, narrower = opened("convolution", tmp_path)
        with session2, StreamPool(session2, narrower) as third, refused(UsageProblem):
            third.open().restore(saved)


def test_an_ended_a_closed_and_a_foreign_stream_are_refused(tmp_path: Path) -> None:
    session, contract = opened("attention", tmp_path)
    frames = signal(contract, 4, 0)
    with session, StreamPool(session, contract, capacity=2) as pool, StreamPool(session, contract) as another:
        ended, closed = pool.open(), pool.open()
        with refused(UsageProblem):
            pool.open()
        ended.push(frames[:, :, :3])
        with refused(UsageProblem):
            ended.push(frames)
        closed.close()
        closed.close()
        for one in (closed, another.open()):
            with refused(UsageProblem):
                pool.push([one], [frames])
        with refused(UsageProblem):
            pool.push([ended, ended], [frames, frames])
        with refused(UsageProblem):
            pool.push([ended], [frames, frames])
        pool.open()
        assert pool.streams == 2
    with refused(UsageProblem):
        ended.save()


def test_a_second_thread_is_refused(tmp_path: Path) -> None:
    session, contract = opened("attention", tmp_path)
    entered, leave = threading.Event(), threading.Event()
    plain = session._infer

    def infer(inputs: Arrays) -> Arrays:
        entered.set()
        assert leave.wait(10)
        return plain(inputs)

    session._infer = infer  # type: ignore[method-assign]
    with session, StreamPool(session, contract) as pool:
        stream, frames = pool.open(), signal(contract, 4, 0)
        thread = threading.Thread(target=stream.push, args=[frames])
        thread.start()
        assert entered.wait(10)
        with refused(UsageProblem):
            pool.open()
        leave.set()
        thread.join()
        assert stream.chunks == 1


@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_any_order_of_opening_pushing_and_closing_leaves_each_stream_its_own(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    session, contract = one = opened("attention", tmp_path_factory.mktemp("model"))
    wholes = [signal(contract, 4 + 8 * 4, stream) for stream in range(5)]
    with session, StreamPool(session, contract, capacity=5) as pool:
        live: dict[int, Any] = {}
        for _ in range(data.draw(st.integers(1, 8))):
            for number in data.draw(st.sets(st.integers(0, 4))):
                if number in live:
                    live.pop(number).close()
                else:
                    live[number] = pool.open()
            mixed = data.draw(st.permutations(sorted(live)))
            chosen = [number for number in mixed if live[number].chunks < 5][: data.draw(st.integers(0, 5))]
            ages = {number: live[number].chunks for number in chosen}
            found = pool.push([live[n] for n in chosen], [pieces(contract, wholes[n])[age] for n, age in ages.items()])
            for number, outputs in zip(chosen, found, strict=True):
                same(outputs, alone(one, wholes[number])[ages[number]])
        assert pool.streams == len(live)
