from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trt_nets import Array, Engines, integers

PAIR = {"h_next": "h"}


def steps(x: list[Array], h: Array) -> list[Array]:
    results = []
    for step in x:
        h = h / 2 + step
        results.append(h + 1)
    return results


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("transfers", [True, False])
def test_state_feeds_back_on_the_device(native: Any, engines: Engines, graph: bool, transfers: bool) -> None:
    options = native.RunnerOptions(state=PAIR, cuda_graph=graph, graph_includes_transfers=transfers)
    inputs = [integers(1, 8, seed=seed) for seed in range(10)]
    with native.Runner(engines("recurrent"), options) as runner:
        for start in (None, {"h": integers(1, 8, seed=99)}, None):
            runner.reset_state(start)
            h = np.zeros((1, 8), np.float32) if start is None else start["h"]
            for x, expected in zip(inputs, steps(inputs, h), strict=True):
                result = runner.run({"x": x})
                assert list(result) == ["y"]  # the state stays where it is
                np.testing.assert_array_equal(result["y"], expected)
        assert (runner.graph_status().graphs == 2) == graph  # one for each of the two buffers
        assert runner.memory_bytes()["device_state"] == 2 * 8 * 4


def test_state_may_be_given_and_read(native: Any, engines: Engines) -> None:
    options = native.RunnerOptions(state=PAIR, outputs=["h_next", "y"])
    x, h = integers(1, 8), integers(1, 8, seed=5)
    with native.Runner(engines("recurrent"), options) as runner:
        for _ in range(4):
            first = runner.run({"x": x, "h": h})
            np.testing.assert_array_equal(first["h_next"], h / 2 + x)
            second = runner.run({"x": x})
            np.testing.assert_array_equal(second["h_next"], (h / 2 + x) / 2 + x)


def test_one_runner_takes_the_state_of_another(native: Any, engines: Engines) -> None:
    options = native.RunnerOptions(state=PAIR)
    x = [integers(1, 8, seed=seed) for seed in range(6)]
    expected = steps(x, np.zeros((1, 8), np.float32))
    with native.Runner(engines("recurrent"), options) as first, native.Runner(engines("recurrent"), options) as second:
        for step in x[:3]:
            first.run({"x": step})
        second.run({"x": x[5]})  # what it held is forgotten
        second.take_state(first)
        for step, answer in zip(x[3:], expected[3:], strict=True):
            np.testing.assert_array_equal(second.run({"x": step})["y"], answer)
        np.testing.assert_array_equal(first.run({"x": x[3]})["y"], expected[3])  # nothing was taken away
        first.take_state(first)
        np.testing.assert_array_equal(first.run({"x": x[4]})["y"], expected[4])
        first.reset_state()
        second.take_state(first)  # zeros, as there is no value
        np.testing.assert_array_equal(second.run({"x": x[0]})["y"], expected[0])
        ticket = first.submit({"x": x[0]})
        with pytest.raises(native.UsageProblem, match="in flight"):
            second.take_state(first)
        ticket.result()
        with native.Runner(engines("recurrent")) as without:
            with pytest.raises(native.UsageProblem, match="has no state"):
                first.take_state(without)
            with pytest.raises(native.UsageProblem, match="has no state"):
                without.take_state(first)


def test_a_refused_call_keeps_the_state(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state=PAIR)) as runner:
        x = [integers(1, 8, seed=seed) for seed in range(2)]
        expected = steps(x, np.zeros((1, 8), np.float32))
        np.testing.assert_array_equal(runner.run({"x": x[0]})["y"], expected[0])
        with pytest.raises(native.UsageProblem):
            runner.run({"x": integers(2, 8)})
        np.testing.assert_array_equal(runner.run({"x": x[1]})["y"], expected[1])


def test_a_refused_call_keeps_the_state_that_it_would_replace(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state=PAIR)) as runner:
        x, h = integers(1, 8), integers(1, 8, seed=7)
        first = steps([x, x], np.zeros((1, 8), np.float32))
        np.testing.assert_array_equal(runner.run({"x": x})["y"], first[0])
        for inputs, more in (
            ({"x": integers(2, 8), "h": h}, {}),
            ({"x": x, "h": integers(2, 8)}, {}),
            ({"x": x, "h": h}, {"at": {"y": 99}}),
        ):
            with pytest.raises(native.UsageProblem):
                runner.run(inputs, **more)
        with pytest.raises(native.UsageProblem):
            runner.reset_state({"h": integers(2, 8)})
        np.testing.assert_array_equal(runner.run({"x": x})["y"], first[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"state": PAIR, "slots": 2}, "runner with state has one slot"),
        ({"state": {"h_next": "g"}}, "which the engine does not have"),
        ({"state": {"h_next": "h", "y": "h"}}, "from two outputs"),
    ],
)
def test_pairs_that_do_not_fit(native: Any, engines: Engines, options: dict[str, Any], words: str) -> None:
    with pytest.raises(native.UsageProblem, match=words):
        native.Runner(engines("recurrent"), native.RunnerOptions(**options))


def test_pairs_of_other_dtypes_are_refused(native: Any, engines: Engines) -> None:
    with pytest.raises(native.UsageProblem, match="cannot feed input 'a'"):
        native.Runner(engines("pair"), native.RunnerOptions(state={"twice": "a"}))


def test_values_for_inputs_that_are_no_state(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state=PAIR)) as runner:
        with pytest.raises(native.UsageProblem, match="'x' is not a state"):
            runner.reset_state({"x": integers(1, 8)})
        with pytest.raises(native.UsageProblem, match="dtype float64"):
            runner.reset_state({"h": np.zeros((1, 8))})
    with native.Runner(engines("fixed")) as runner, pytest.raises(native.UsageProblem, match="has no state"):
        runner.reset_state()


def test_a_refused_target_and_no_memory_keep_the_state(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state=PAIR)) as runner:
        x, h = [integers(1, 8, seed=seed) for seed in range(6)], integers(1, 8, seed=7)
        expected = steps(x, np.zeros((1, 8), np.float32))
        shape = expected[0].shape
        for i, given in enumerate(x):
            for inputs in ({"x": given}, {"x": given, "h": h}):
                for wrong in (np.zeros((*shape, 2), np.float32), np.zeros(shape, ">f4"), np.zeros(shape)):
                    with pytest.raises(native.UsageProblem, match="array for output 'y'"):
                        runner.run(inputs, out={"y": wrong})
            np.testing.assert_array_equal(runner.run({"x": given})["y"], expected[i])


def test_as_many_shapes_are_replayed_with_state_as_without(native: Any, engines: Engines) -> None:
    with native.Runner(engines("recurrent"), native.RunnerOptions(state=PAIR, graph_cache=1)) as runner:
        for seed in range(8):
            runner.run({"x": integers(1, 8, seed=seed)})
        assert runner.graph_status().graphs == 2  # one for each buffer of the state
