"""Many streams over one engine: each as if it were alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from leaks import check_nothing_is_kept
from trt_nets import LARGE, STEPS, Array, Engines, integers

SCALE = np.array([2], np.float32)
AXES = [(0, 0), (1, 1), (1, 0), (0, 1)]


def make_pool(native: Any, engine: Any, axes: tuple[int, int] = (1, 1), **options: Any) -> Any:
    first = options.pop("initial", {})
    state = [
        native.StreamState("h", "h_next", input_axis=axes[0], output_axis=axes[1], initial=first.get("h")),
        native.StreamState(input="k", output="k_next", initial=first.get("k")),
    ]
    return native.StreamPool(engine, state=state, batch_axes={"x": 0, "y": 0}, **{"capacity": 12, **options})


class Alone:
    """What one stream answers, by NumPy."""

    def __init__(self, h: Array | None = None, k: int = 0) -> None:
        self.h = np.zeros((2, 3), np.float32) if h is None else h
        self.k = k

    def push(self, x: Array) -> Array:
        y = SCALE * x + self.h[0, 0]
        self.h = self.h * np.float32(0.5) + x.sum() * STEPS
        self.k += 1
        return y

    def check(self, state: dict[str, Array], axis: int = 1) -> None:
        np.testing.assert_array_equal(np.squeeze(state["h"], axis), self.h)
        np.testing.assert_array_equal(state["k"], [self.k])


def push(pool: Any, streams: Sequence[int], x: Array) -> Array:
    found = pool.push(streams, {"x": x, "scale": SCALE})
    assert list(found) == ["y"]  # the state stays where it is
    y: Array = found["y"]
    assert (y.shape, y.dtype) == (x.shape, np.float32)
    return y


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("axes", AXES)
def test_streams_of_any_age_are_as_each_alone(
    native: Any, engines: Engines, axes: tuple[int, int], graphs: bool
) -> None:
    engine = engines("streaming {} {}".format(*axes))
    rng = np.random.default_rng(sum(axes) + 4 * graphs)
    alone: dict[int, Alone] = {}
    with make_pool(native, engine, axes, cuda_graphs=graphs, timing=graphs) as pool:
        assert pool.buckets == (1, 2, 4, 8)
        for number in range(120):
            while len(alone) < 11:
                alone[pool.open()] = Alone()
            streams = [int(s) for s in rng.permutation(list(alone))[: rng.integers(1, 12)]]
            x = integers(len(streams), 7 if number % 5 == 0 else 4, seed=number)  # now one profile, now the other
            y = push(pool, streams, x)
            for row, stream in enumerate(streams):
                np.testing.assert_array_equal(y[row], alone[stream].push(x[row]), err_msg=f"push {number}, row {row}")
            if number % 3 == 0:
                pool.close(streams[0])
                del alone[streams[0]]
        for stream, reference in alone.items():
            reference.check(pool.save(stream), axes[0])
        assert pool.open_streams() == len(alone)
        if graphs:
            assert pool.graph_status() == "on: 7 graphs captured"  # buckets 1, 2, 4 and 1, 2, 4, 8
            times = pool.timing()
            assert min(times.values()) >= 0
            assert 0 < times["compute"] < times["total"]
        else:
            assert pool.graph_status().startswith("off")


def test_a_batch_is_bit_for_bit_what_single_runs_and_a_runner_give(native: Any, engines: Engines) -> None:
    engine = engines("streaming 1 1")
    x = np.random.default_rng(0).standard_normal((9, 5, 4)).astype(np.float32)  # no exact numbers
    with make_pool(native, engine) as batched, make_pool(native, engine, buckets=[1]) as single:
        assert single.buckets == (1,)
        together = [batched.open() for _ in range(5)]
        apart = [single.open() for _ in range(5)]
        options = native.RunnerOptions(state={"h_next": "h", "k_next": "k"})
        with native.Runner(engine, options) as runner:
            runner.reset_state(single.save(apart[2]))
            for chunk in x:
                found = push(batched, together, chunk)
                np.testing.assert_array_equal(found, push(single, apart, chunk))
                kept = runner.run({"x": chunk[2:3], "scale": SCALE})
                np.testing.assert_array_equal(found[2:3], kept["y"])
        for one, other in zip(together, apart, strict=True):
            assert {name: value.tobytes() for name, value in batched.save(one).items()} == {
                name: value.tobytes() for name, value in single.save(other).items()
            }


def test_nan_stays_in_its_stream(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming 0 0"), (0, 0)) as pool:
        streams = [pool.open() for _ in range(3)]
        alone = [Alone() for _ in streams]
        for seed in range(5):
            x = integers(3, 4, seed=seed)
            if seed == 1:
                x[1, 2] = np.nan
            y = push(pool, streams, x)
            for row in (0, 2):
                np.testing.assert_array_equal(y[row], alone[row].push(x[row]))
        assert np.isnan(pool.save(streams[1])["h"]).all()
        pool.close(streams[1])
        Alone().check(pool.save(pool.open()), 0)  # the next one in its row
        for row in (0, 2):
            alone[row].check(pool.save(streams[row]), 0)


def test_a_refused_push_changes_nothing(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming 1 1")) as pool:
        streams = [pool.open() for _ in range(9)]
        closed = pool.open()
        pool.close(closed)
        push(pool, streams, integers(9, 4))
        before = [pool.save(stream) for stream in streams]
        x = integers(2, 4)
        two, good = streams[:2], {"x": x, "scale": SCALE}
        for named, inputs, words in (
            ([streams[0], closed], good, "is closed"),
            ([streams[0], 10**6], good, "never opened"),
            ([streams[0], streams[0]], good, "named twice"),
            ([], good, "at least one"),
            (two, {"scale": SCALE}, "'x' is missing"),
            (two, {**good, "z": x}, "no input 'z'"),
            (two, {**good, "h": integers(2, 2, 3)}, "'h' is a state"),
            (two, {**good, "x": x.astype(np.float64)}, "dtype float64"),
            (two, {**good, "x": integers(3, 4)}, "for 2 streams axis 0"),
            (two, {**good, "x": integers(2, 4, 1)}, "for 2 streams axis 0"),
            (two, {**good, "x": integers(2, 5)}, "no profile of the engine"),
            (two, {**good, "scale": integers(2)}, "no profile of the engine"),
            (streams, {**good, "x": integers(9, 5)}, "no profile of the engine"),
        ):
            with pytest.raises(native.UsageProblem, match=words):
                pool.push(named, inputs)
        for stream, state in zip(streams, before, strict=True):
            for name, value in pool.save(stream).items():
                np.testing.assert_array_equal(value, state[name])
        alone = Alone(np.squeeze(before[0]["h"], 1), 1)
        np.testing.assert_array_equal(push(pool, streams[:1], x[:1])[0], alone.push(x[0]))


def test_state_is_saved_and_restored_between_pools(native: Any, engines: Engines) -> None:
    x = integers(4, 2, 4)
    with (
        make_pool(native, engines("streaming 1 1")) as pool,
        make_pool(native, engines("streaming 1 0"), (1, 0)) as other,
    ):
        streams = [pool.open(), pool.open()]
        push(pool, streams, x[0])
        saved = pool.save(streams[1])
        assert saved["h"].shape == (2, 1, 3)
        later = [push(pool, streams, chunk)[1] for chunk in x[1:]]
        strided = {"h": np.repeat(saved["h"], 2, axis=2)[:, :, ::2], "k": saved["k"].astype(np.int64)}
        for target, state in ((pool, saved), (other, saved), (pool, strided)):
            stream = target.open()
            target.restore(stream, state)
            np.testing.assert_array_equal([push(target, [stream], chunk[1:])[0] for chunk in x[1:]], later)
        before = pool.save(streams[0])
        for wrong, words in (
            ({"h": saved["h"]}, "'k' is missing"),
            ({**saved, "x": x[0]}, "no state 'x'"),
            ({**saved, "h": saved["h"][:1]}, "got \\[1, 1, 3\\]"),
            ({**saved, "h": saved["h"].astype(np.float16)}, "dtype float16"),
        ):
            with pytest.raises(native.UsageProblem, match=words):
                pool.restore(streams[0], wrong)
        for name, value in pool.save(streams[0]).items():
            np.testing.assert_array_equal(value, before[name])


def test_state_of_int64_and_initial_values(native: Any, engines: Engines) -> None:
    engine = engines("streaming 1 1")
    dtype = next(tensor.dtype for tensor in engine.inputs if tensor.name == "k")
    first = {"h": integers(2, 1, 3, seed=8), "k": np.array([2**31 - 9], np.int64)}
    with make_pool(native, engine, initial=first) as pool:
        streams = [pool.open() for _ in range(3)]
        alone = [Alone(first["h"][:, 0], int(first["k"][0])) for _ in streams]
        for seed in range(4):
            x = integers(3, 4, seed=seed)
            expected = [one.push(row) for one, row in zip(alone, x, strict=True)]
            np.testing.assert_array_equal(push(pool, streams, x), expected)
        for stream, reference in zip(streams, alone, strict=True):
            state = pool.save(stream)
            assert state["k"].dtype == np.dtype(dtype)
            reference.check(state)
        fresh = pool.save(pool.open())  # the rows that no stream needed have changed nothing
        np.testing.assert_array_equal(fresh["h"], first["h"])
    beyond = {"k": np.array([2**40], np.int64)}
    if dtype == "int32":
        with pytest.raises(native.UsageProblem, match="int32"):
            make_pool(native, engine, initial=beyond)
    else:
        with make_pool(native, engine, initial=beyond) as pool:
            stream = pool.open()
            push(pool, [stream], integers(1, 4))
            np.testing.assert_array_equal(pool.save(stream)["k"], [2**40 + 1])


def test_an_engine_of_one_row_runs_streams_one_by_one(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming fixed"), timing=True) as pool:
        assert pool.buckets == (1,)
        streams = [pool.open() for _ in range(3)]
        alone = [Alone() for _ in streams]
        for seed in range(4):
            x = integers(3, 4, seed=seed)
            expected = [one.push(row) for one, row in zip(alone, x, strict=True)]
            np.testing.assert_array_equal(push(pool, streams, x), expected)
        assert pool.graph_status() == "on: 1 graph captured"
        times = pool.timing()
        assert list(times) == ["h2d", "compute", "d2h", "total"]
        assert times["total"] >= times["h2d"] + times["compute"] + times["d2h"] > 0


def test_an_engine_without_profile_sharing_is_right_all_the_same(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming exclusive")) as pool:
        streams = [pool.open() for _ in range(8)]
        alone = [Alone() for _ in streams]
        for number in range(24):
            count = (1, 1, 3, 8, 2, 2)[number % 6]
            x = integers(count, 4 if number % 4 else 7, seed=number)
            expected = [one.push(row) for one, row in zip(alone[:count], x, strict=True)]
            np.testing.assert_array_equal(push(pool, streams[:count], x), expected)


def test_a_warm_pool_captures_nothing_more(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming 1 1")) as pool:
        for steps in (4, 7):  # the larger batch first: buffers that grow void graphs
            pool.warm_up({"x": integers(1, steps), "scale": SCALE})
        status, memory = pool.graph_status(), pool.memory_bytes()
        assert status == "on: 7 graphs captured"
        assert memory["per_stream"] == 32 + 16  # 24 bytes, and 4 or 8, each in a row of its own
        assert memory["arena"] == 13 * memory["per_stream"]
        assert min(memory.values()) > 0
        stream = pool.open()
        alone = Alone()
        for seed in range(6):
            x = integers(1, 4 + 3 * (seed % 2), seed=seed)
            np.testing.assert_array_equal(push(pool, [stream], x)[0], alone.push(x[0]))
        assert (pool.graph_status(), pool.memory_bytes()) == (status, memory)
        with pytest.raises(native.UsageProblem, match="no profile of the engine"):
            pool.warm_up({"x": integers(1, 5), "scale": SCALE})


@pytest.mark.parametrize("graphs", [True, False])
def test_large_state(native: Any, engines: Engines, graphs: bool) -> None:
    """Rows of more words than a launch has threads; the batch axis is the second."""
    state = [native.StreamState("h", "h_next", input_axis=1, output_axis=1)]
    axes = {"x": 0, "y": 0}
    with native.StreamPool(
        engines("large state"), state=state, batch_axes=axes, capacity=4, cuda_graphs=graphs
    ) as pool:
        assert pool.buckets == (1, 2, 3)
        streams = [pool.open() for _ in range(4)]
        first = np.random.default_rng(0).integers(-99, 99, (2, 1, LARGE)).astype(np.float32)
        pool.restore(streams[2], {"h": first})
        for named in ([0, 2, 1], [2], [3, 2], [2, 0, 1, 3]) * 3:
            x = np.array(named, np.float32)[:, np.newaxis] + 1
            np.testing.assert_array_equal(pool.push([streams[n] for n in named], {"x": x})["y"], x)
        for number, runs in enumerate((6, 6, 12, 6)):
            h = pool.save(streams[number])["h"]
            np.testing.assert_array_equal(h, (first if number == 2 else 0 * first) + runs * (number + 1))


@pytest.mark.long
def test_ten_thousand_streams_leave_nothing_behind(native: Any, engines: Engines) -> None:
    rng = np.random.default_rng(0)
    with make_pool(native, engines("streaming 1 1"), capacity=64) as pool:
        for steps in (4, 7):
            pool.warm_up({"x": integers(1, steps), "scale": SCALE})
        streams: dict[int, Alone] = {}

        def come_and_go() -> None:
            for number in range(10_000):
                if len(streams) == 64 or (streams and rng.random() < 0.5):
                    stream = int(rng.choice(list(streams)))
                    pool.close(stream)
                    del streams[stream]
                else:
                    streams[pool.open()] = Alone()
                if streams and number % 4 == 0:
                    some = [int(s) for s in rng.permutation(list(streams))[: rng.integers(1, 12)]]
                    x = integers(len(some), 4 + 3 * (number % 8 == 0), seed=number)
                    expected = [streams[stream].push(row) for stream, row in zip(some, x, strict=True)]
                    np.testing.assert_array_equal(push(pool, some, x), expected)

        come_and_go()
        memory = pool.memory_bytes()
        check_nothing_is_kept(native, come_and_go)
        assert pool.memory_bytes() == memory
        for stream, reference in streams.items():
            reference.check(pool.save(stream))


def test_pools_come_and_go(native: Any, engines: Engines) -> None:
    def once() -> None:
        with make_pool(native, engines("streaming 1 1"), capacity=4096) as pool:
            streams = [pool.open() for _ in range(3)]
            for _ in range(3):
                push(pool, streams, integers(3, 4))

    def many() -> None:
        for _ in range(20):
            once()

    many()
    check_nothing_is_kept(native, many)


def test_a_pool_ends(native: Any, engines: Engines) -> None:
    pool = make_pool(native, engines("streaming 1 1"), capacity=2)
    streams = [pool.open(), pool.open()]
    with pytest.raises(native.UsageProblem, match="holds 2 streams"):
        pool.open()
    pool.close_all()
    assert (pool.open_streams(), pool.capacity) == (0, 2)
    with pytest.raises(native.UsageProblem, match="is closed"):
        push(pool, streams, integers(2, 4))
    pool.open()
    pool.release()
    pool.release()
    for use in (pool.open, pool.open_streams, pool.memory_bytes, pool.timing, lambda: pool.save(3)):
        with pytest.raises(native.UsageProblem, match="was released"):
            use()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capacity": 0}, "got 0"),
        ({"buckets": []}, "at least one bucket"),
        ({"buckets": [0]}, "got 0"),
        ({"device": 99}, "not on GPU 99"),
        ({"batch_axes": {"z": 0}}, "no input or output 'z'"),
        ({"batch_axes": {"x": 2}}, "has no axis 2"),
        ({"state": [("h", "k_next", 1, 0)]}, "cannot feed input 'h'"),
        ({"state": [("g", "h_next", 1, 1)]}, "which the engine does not have"),
        ({"state": [("h", "h_next", 1, 3)]}, "has no axis 3"),
        ({"state": [("h", "h_next", 1, 1, np.zeros((2, 2, 3), np.float32))]}, "got \\[2, 2, 3\\]"),
        ({"state": [("h", "h_next", 1, 1, np.zeros((2, 1, 3)))]}, "dtype float64"),
    ],
)
def test_options_that_do_not_fit(native: Any, engines: Engines, options: dict[str, Any], words: str) -> None:
    state = [
        native.StreamState(one, other, input_axis=a, output_axis=b, initial=first[0] if first else None)
        for one, other, a, b, *first in options.pop("state", [("h", "h_next", 1, 1)])
    ]
    with pytest.raises(native.UsageProblem, match=words):
        native.StreamPool(engines("streaming 1 1"), **{"state": state, "batch_axes": {"x": 0, "y": 0}, **options})


def test_batch_axes_that_are_wrong_show_at_the_first_push(native: Any, engines: Engines) -> None:
    with make_pool(native, engines("streaming 1 1"), (1, 0)) as pool:  # the output's axis is 1
        stream = pool.open()
        with pytest.raises(native.UsageProblem, match="batch axes may be wrong"):
            push(pool, [stream], integers(1, 4))
        Alone().check(pool.save(stream))
