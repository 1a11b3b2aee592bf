from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from trt_nets import WIDTH, Engines, integers, linear_answer


def run_and_check(runner: Any, rows: int, seed: int = 0, **choices: Any) -> None:
    x = integers(rows, WIDTH, seed=seed)
    np.testing.assert_array_equal(runner.run({"x": x}, **choices)["y"], linear_answer(x), strict=True)


@pytest.mark.parametrize("transfers", [None, True, False])
@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("spin", [True, False])
@pytest.mark.parametrize("graph", [True, False])
def test_answers_are_right(
    native: Any, engines: Engines, transfers: bool | None, timing: bool, spin: bool, graph: bool
) -> None:
    options = native.RunnerOptions(
        graph_includes_transfers=transfers, timing=timing, spin=spin, cuda_graph=graph, slots=2
    )
    with native.Runner(engines("dynamic"), options) as runner:
        for seed, rows in enumerate([4, 4, 4, 4, 4, 4, 1, 8, 9, 64, 32, 32, 32, 32, 4, 4, 1]):
            run_and_check(runner, rows, seed)


def test_a_fixed_shape(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed")) as runner:
        for seed in range(5):
            run_and_check(runner, 4, seed)


def test_graphs_are_captured_by_shape_and_survive_growing_buffers(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic")) as runner:
        assert str(runner.graph_status()).startswith("not yet")
        run_and_check(runner, 2)
        assert runner.graph_status().graphs == 0
        run_and_check(runner, 2, 1)
        assert runner.graph_status().graphs == 1
        assert runner.graph_status().fallback is None
        for seed, rows in enumerate([2, 2, 60, 60, 60, 2, 2, 2, 60]):  # 60 rows move the buffers
            run_and_check(runner, rows, seed)
        assert runner.graph_status().graphs == 2
        assert str(runner.graph_status()) == "on: 2 graphs captured"


def test_more_shapes_than_remembered_graphs(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic"), native.RunnerOptions(graph_cache=3)) as runner:
        for seed, rows in enumerate([rows for rows in range(1, 20) for _ in range(3)] * 2):
            run_and_check(runner, rows, seed)
        assert runner.graph_status().graphs <= 3


def test_one_shape_more_than_remembered_graphs_costs_one(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic"), native.RunnerOptions(graph_cache=3)) as runner:
        for seed, rows in enumerate([1, 2, 3, 4] * 12):
            run_and_check(runner, rows, seed)
        assert runner.graph_status().graphs == 3
        for seed in range(12):
            run_and_check(runner, 5 + seed % 2, seed)
        assert runner.graph_status().graphs == 3


def test_without_graphs_the_reason_is_told(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(cuda_graph=False)) as runner:
        run_and_check(runner, 4)
        assert runner.graph_status().fallback == "switched off"
        assert runner.graph_status().graphs == 0


def test_an_engine_with_exclusive_profiles_alternates_right(native: Any, engines: Engines) -> None:
    with native.Runner(engines("exclusive")) as runner:
        for seed, rows in enumerate([4, 4, 4, 5, 5, 5, 4, 5, 4, 5, 30, 30, 30, 40, 40, 4, 4, 4]):
            run_and_check(runner, rows, seed)


def test_a_fixed_profile_is_kept(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic"), native.RunnerOptions(profile=1)) as runner:
        run_and_check(runner, 9)
        with pytest.raises(native.UsageProblem, match=r"\[4, 16\], which no profile.*profile 1: min \[9, 16\]"):
            run_and_check(runner, 4)
        run_and_check(runner, 9)


def test_a_shape_outside_every_profile_is_told_with_the_ranges(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic")) as runner:
        for wrong in (integers(65, WIDTH), integers(4, WIDTH + 1), integers(4, 4, 4), integers(0, WIDTH)):
            with pytest.raises(native.UsageProblem, match=r"Input 'x'.*profile 0: min \[1, 16\].*max \[64, 16\]"):
                runner.run({"x": wrong})
            run_and_check(runner, 4)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "Input 'x' is missing; the engine takes x float32"),
        ({"X": np.zeros((4, WIDTH), np.float32)}, "no input 'X'; it takes x float32"),
        ({"x": np.zeros((4, WIDTH), np.float32), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((4, WIDTH), np.float64)}, "dtype float64; the engine takes x float32"),
        ({"x": np.zeros((4, WIDTH), np.int32)}, "dtype int32"),
        ({"x": np.zeros((4, WIDTH), np.float16)}, "dtype float16"),
        ({"x": np.zeros((4, WIDTH), ">f4")}, r"foreign byte order \(>f4\)"),
        ({"x": "words"}, "Input 'x'"),
    ],
)
def test_wrong_inputs_are_refused(native: Any, engines: Engines, inputs: dict[str, Any], words: str) -> None:
    with native.Runner(engines("fixed")) as runner:
        run_and_check(runner, 4)
        with pytest.raises(native.UsageProblem, match=words):
            runner.run(inputs)
        run_and_check(runner, 4)


def test_arrays_of_any_layout(native: Any, engines: Engines) -> None:
    whole = integers(16, 2 * WIDTH)
    views = [
        whole[:4, ::2],
        whole[3::-1, :WIDTH],
        whole[:4, WIDTH - 1 :: -1],
        np.asfortranarray(whole[:4, :WIDTH]),
        whole.T[:4, :],
        np.broadcast_to(whole[0, :WIDTH], (4, WIDTH)),
    ]
    for transfers in (True, False):
        with native.Runner(engines("fixed"), native.RunnerOptions(graph_includes_transfers=transfers)) as runner:
            for view in itertools.chain(views, views):
                np.testing.assert_array_equal(runner.run({"x": view})["y"], linear_answer(view))
            assert runner.counters()["strided_copies"] == 2 * len(views)


def test_results_are_the_callers_own_unless_views_are_asked_for(native: Any, engines: Engines) -> None:
    runner = native.Runner(engines("fixed"))
    x, other = integers(4, WIDTH, seed=1), integers(4, WIDTH, seed=2)
    mine = runner.run({"x": x})["y"]
    view = runner.run({"x": x}, copy=False)["y"]
    np.testing.assert_array_equal(view, linear_answer(x))
    again = runner.run({"x": other}, copy=False)["y"]
    assert np.shares_memory(view, again)
    np.testing.assert_array_equal(mine, linear_answer(x))
    runner.close()
    np.testing.assert_array_equal(again, linear_answer(other))  # the memory outlives the runner


def test_results_go_into_given_arrays(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed")) as runner:
        x, target = integers(4, WIDTH), np.empty((4, 5), np.float32)
        assert runner.run({"x": x}, out={"y": target})["y"] is target
        np.testing.assert_array_equal(target, linear_answer(x))
        for wrong in (np.empty((4, 6), np.float32), np.empty((4, 5), np.float64), np.empty((5, 4), np.float32).T):
            with pytest.raises(native.UsageProblem, match="array for output 'y'"):
                runner.run({"x": x}, out={"y": wrong})
        run_and_check(runner, 4)


def test_memory_of_large_results_is_used_again_once_nobody_holds_them(native: Any, engines: Engines) -> None:
    runner = native.Runner(engines("pictures"))
    pictures = [integers(8, 3, 32, 48, seed=seed).astype(np.float32) for seed in range(12)]  # 147 KB
    held = [runner.run({"images": x})["y"] for x in pictures]
    for array, x in zip(held, pictures, strict=True):
        np.testing.assert_array_equal(array, np.maximum(x, 0), strict=True)
        array += 1  # it is the caller's
    assert len({array.ctypes.data for array in held}) == len(held)
    part, address = held[0][3:], held[0].ctypes.data
    held.clear()
    addresses = set()
    for x in pictures:  # a part of an array keeps all of it
        array = runner.run({"images": x})["y"]
        np.testing.assert_array_equal(array, np.maximum(x, 0), strict=True)
        addresses.add(array.ctypes.data)
    assert address not in addresses
    assert len(addresses) == 2
    np.testing.assert_array_equal(part, np.maximum(pictures[0], 0)[3:] + 1)
    smaller = runner.run({"images": pictures[0][:6]})["y"]
    np.testing.assert_array_equal(smaller, np.maximum(pictures[0][:6], 0), strict=True)
    runner.close()
    np.testing.assert_array_equal(array, np.maximum(pictures[-1], 0))  # it outlives the runner
    del array, part, smaller, runner


def test_the_input_buffer_saves_the_copy(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic")) as runner:
        buffer = runner.input_buffer("x", (4, WIDTH))
        for seed in range(4):
            buffer[...] = integers(4, WIDTH, seed=seed)
            np.testing.assert_array_equal(runner.run({"x": buffer})["y"], linear_answer(buffer))
        assert runner.counters()["in_place_inputs"] == 4
        kept = buffer.copy()
        np.testing.assert_array_equal(runner.run({"x": buffer[::-1]})["y"], linear_answer(kept[::-1]))
        with pytest.raises(native.UsageProblem, match="pass the shape"):
            runner.input_buffer("x")
        with pytest.raises(native.UsageProblem, match="Slot 1 does not exist"):
            runner.input_buffer("x", (4, WIDTH), slot=1)


def test_several_inputs_and_chosen_outputs(native: Any, engines: Engines) -> None:
    a, b, c = integers(2, 3, seed=1), integers(2, 3, seed=2), np.arange(4, dtype=np.int32)
    with native.Runner(engines("pair")) as runner:
        for _ in range(4):
            both = runner.run({"c": c, "b": b, "a": a})
            np.testing.assert_array_equal(both["total"], a + b, strict=True)
            np.testing.assert_array_equal(both["twice"], 2 * c, strict=True)
            one = runner.run({"a": a, "b": b, "c": c}, outputs=["twice"])
            assert list(one) == ["twice"]
        with pytest.raises(native.UsageProblem, match="no output 'sum'"):
            runner.run({"a": a, "b": b, "c": c}, outputs=["sum"])


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("transfers", [True, False])
def test_one_index_of_an_output_is_copied_alone(native: Any, engines: Engines, graph: bool, transfers: bool) -> None:
    options = native.RunnerOptions(cuda_graph=graph, graph_includes_transfers=transfers)
    turns = [(2, -1)] * 4 + [(1, 0)] * 3 + [(8, 1)] * 3 + [(2, 2), (2, -3), (2, -1), (2, -1)]
    with native.Runner(engines("pictures"), options) as runner:
        for seed, (count, index) in enumerate(turns):
            images = integers(count, 3, 32, 48, seed=seed)
            found = runner.run({"images": images}, outputs=[], at={"y": index})
            assert list(found) == ["y"]
            np.testing.assert_array_equal(found["y"], np.maximum(images, 0)[:, index], strict=True)
        held = runner.memory_bytes()
        assert held["device_outputs"] == 8 * 3 * 32 * 48 * 4
        assert held["pinned_outputs"] == 8 * 32 * 48 * 4  # no room for more, so no more was copied
        graphs = runner.graph_status().graphs
        assert (graphs > 0) == graph
        for seed in range(5):
            images = integers(2, 3, 32, 48, seed=seed)
            found = runner.run({"images": images}, outputs=[], at={"y": -1})["y"]
            np.testing.assert_array_equal(found, np.maximum(images, 0)[:, -1])
        assert runner.graph_status().graphs == graphs  # replayed
        np.testing.assert_array_equal(runner.run({"images": images})["y"], np.maximum(images, 0))


def test_one_index_beside_whole_outputs_and_into_given_arrays(native: Any, engines: Engines) -> None:
    a, b, c = integers(2, 3), integers(2, 3, seed=1), np.arange(4, dtype=np.int32)
    with native.Runner(engines("pair")) as runner:
        for _ in range(4):
            target = np.empty(2, np.float32)
            found = runner.run({"a": a, "b": b, "c": c}, at={"total": -2}, out={"total": target})
            assert found["total"] is target
            np.testing.assert_array_equal(target, (a + b)[:, 1])
            np.testing.assert_array_equal(found["twice"], 2 * c)


def test_one_index_of_calls_in_flight_together(native: Any, engines: Engines) -> None:
    with native.Runner(engines("pictures"), native.RunnerOptions(slots=3)) as runner:
        for turn in range(6):
            batches = [integers(count, 3, 32, 48, seed=turn + count) for count in (2, 2, 5)]
            tickets = [runner.submit({"images": images}, outputs=[], at={"y": turn % 3}) for images in batches]
            for images, ticket in reversed(list(zip(batches, tickets, strict=True))):
                np.testing.assert_array_equal(ticket.result()["y"], np.maximum(images, 0)[:, turn % 3])


def test_an_index_that_does_not_exist(native: Any, engines: Engines) -> None:
    images = integers(2, 3, 32, 48)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"at": {"y": 3}}, r"'y' \[2, 3, 32, 48\] has no index 3 in its second dimension"),
        ({"at": {"y": -4}}, "no index -4"),
        ({"at": {"z": 0}}, "no output 'z'"),
        ({"at": {"y": 0}, "device_outputs": ["y"]}, "on the device and at one index"),
    ]
    with native.Runner(engines("pictures")) as runner:
        for arguments, words in wrong * 2:
            with pytest.raises(native.UsageProblem, match=words):
                runner.run({"images": images}, **arguments)
            found = runner.run({"images": images}, outputs=[], at={"y": 2})["y"]
            np.testing.assert_array_equal(found, np.maximum(images, 0)[:, 2])
    with native.Runner(engines("nonzero")) as runner:  # here the shape is known after the fact
        for seed in range(3):
            x = integers(4, 8, seed=seed)
            found = runner.run({"x": x}, outputs=[], at={"where": -1})["where"]
            np.testing.assert_array_equal(found, np.array(np.nonzero(x))[:, -1])
            with pytest.raises(native.UsageProblem, match=r"\[2, 0\] has no index -1"):
                runner.run({"x": 0 * x}, outputs=[], at={"where": -1})


def test_a_shape_that_depends_on_the_data(native: Any, engines: Engines) -> None:
    # fixed inputs all the same: min, opt and max of the profile that the builder adds are their shape
    assert engines("nonzero").inputs[0].profiles == (((4, 8), (4, 8), (4, 8)),)
    with native.Runner(engines("nonzero")) as runner:
        for seed in range(6):
            x = integers(4, 8, seed=seed) * (seed != 3)  # once all zeros: an empty result
            np.testing.assert_array_equal(runner.run({"x": x})["where"], np.array(np.nonzero(x)))
        assert "depends on the data" in str(runner.graph_status().fallback)
        assert runner.memory_bytes()["device_outputs"] > 0  # grown while it ran, and told


def test_no_graph_is_told_where_nothing_of_the_runner_moved(native: Any, engines: Engines, torch: Any) -> None:
    x = torch.ones(4, 8, device="cuda")
    with native.Runner(engines("nonzero"), native.RunnerOptions(outputs=[])) as runner:
        runner.run({"x": x})
        assert "depends on the data" in str(runner.graph_status().fallback)


def test_values_of_a_shape_tensor(native: Any, engines: Engines) -> None:
    engine = engines("expand")
    shape_input = next(tensor for tensor in engine.inputs if tensor.name == "shape")
    assert (shape_input.location, shape_input.is_shape_tensor) == ("host", True)
    x = integers(1, 4)
    with native.Runner(engine) as runner:
        for rows in (1, 2, 8, 2, 2, 2, 8, 8, 8):
            values = np.array([rows, 4], shape_input.dtype)
            np.testing.assert_array_equal(
                runner.run({"x": x, "shape": values})["y"], np.repeat(np.maximum(x, 0), rows, 0)
            )


def test_the_time_of_a_call_is_split(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(timing=True)) as runner:
        with pytest.raises(native.UsageProblem, match="not finished a call"):
            runner.timing()
        for _ in range(4):
            run_and_check(runner, 4)
            timing = runner.timing()
            parts = (timing.h2d_ms, timing.compute_ms, timing.d2h_ms)
            assert all(part >= 0 for part in parts)
            assert timing.compute_ms > 0
            assert 0 < timing.enqueue_ms < timing.end_to_end_ms
            assert sum(parts) < timing.end_to_end_ms + 0.1


def test_memory_is_told_and_released(native: Any, engines: Engines) -> None:
    runner = native.Runner(engines("dynamic"), native.RunnerOptions(slots=2))
    run_and_check(runner, 64)
    use = runner.memory_bytes()
    assert use["device_inputs"] == use["pinned_inputs"] == 64 * WIDTH * 4
    assert use["device_outputs"] == use["pinned_outputs"] == 64 * 5 * 4
    runner.close()
    runner.close()
    with pytest.raises(native.UsageProblem, match="runner is closed"):
        run_and_check(runner, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slots": 0}, "1 to 64 slots"),
        ({"profile": 2}, "Profile 2 does not exist"),
        ({"outputs": ["z"]}, "no output 'z'"),
        ({"state": {"z": "x"}}, "which the engine does not have"),
    ],
)
def test_options_that_do_not_fit(native: Any, engines: Engines, options: dict[str, Any], words: str) -> None:
    with pytest.raises(native.UsageProblem, match=words):
        native.Runner(engines("dynamic"), native.RunnerOptions(**options))


# ---- page-locked arrays of the caller's -----------------------------------------------------------------


def locked(native: Any, values: Any) -> Any:
    array = native.pinned_empty(values.shape, values.dtype)
    array[...] = values
    return array


@pytest.mark.parametrize("transfers", [None, False])
def test_page_locked_arrays_are_used_where_they_lie(native: Any, engines: Engines, transfers: bool | None) -> None:
    options = native.RunnerOptions(graph_includes_transfers=transfers)
    with native.Runner(engines("elementwise"), options) as runner:
        size, graphs = 150_000, 0
        pairs = [(locked(native, integers(size, seed=seed)), locked(native, integers(size))) for seed in range(4)]
        name, into = runner.engine.inputs[0].name, runner.engine.outputs[0].name
        for number in range(12):
            x, y = pairs[number % 4]
            x += 1
            ordinary = runner.run({name: np.array(x)})[into]
            y[...] = 0
            assert runner.run({name: x}, out={into: y})[into] is y
            np.testing.assert_array_equal(y, ordinary, strict=True)
            if number == 2:
                graphs = runner.graph_status().graphs
        assert runner.graph_status().graphs == graphs  # none is captured again for another address
        assert runner.counters()["in_place_inputs"] == 12


def test_memory_that_others_locked_is_used_where_it_lies(native: Any, engines: Engines, torch: Any) -> None:
    with native.Runner(engines("elementwise")) as runner:
        name, into = runner.engine.inputs[0].name, runner.engine.outputs[0].name
        tensor = torch.arange(100_000, dtype=torch.float32).pin_memory()
        expected = runner.run({name: tensor.numpy().copy()})[into]
        for _ in range(4):
            np.testing.assert_array_equal(runner.run({name: tensor.numpy()})[into], expected)
        assert runner.counters()["in_place_inputs"] == 4


def test_a_submitted_page_locked_array_may_change(native: Any, engines: Engines) -> None:
    with native.Runner(engines("elementwise"), native.RunnerOptions(slots=2)) as runner:
        name, into = runner.engine.inputs[0].name, runner.engine.outputs[0].name
        x = locked(native, integers(1 << 20))
        for seed in range(6):
            x[...] = integers(1 << 20, seed=seed)
            expected = runner.run({name: np.array(x)})[into]
            ticket = runner.submit({name: x})
            x[...] = -1
            np.testing.assert_array_equal(ticket.result()[into], expected)


def test_views_of_every_order_are_copied_in_pieces(native: Any, engines: Engines) -> None:
    with native.Runner(engines("elementwise")) as runner:
        name, into = runner.engine.inputs[0].name, runner.engine.outputs[0].name
        for size in (1_000, 40_000, 300_000, 3_000_000):
            whole = integers(3 * size)
            for view in (whole[::3], whole[::-1][:size], whole[5 : 5 + size], np.broadcast_to(whole[:1], size)):
                for _ in range(3):
                    found = runner.run({name: view})[into]
                np.testing.assert_array_equal(found, runner.run({name: np.array(view)})[into], strict=True)


def test_pictures_as_views_with_the_channels_last(native: Any, engines: Engines) -> None:
    with native.Runner(engines("pictures")) as runner:
        name = runner.engine.inputs[0].name
        for rows in (1, 2, 8, 2):
            shape = runner.engine.inputs[0].shape
            view = integers(rows, shape[2], shape[3], shape[1], seed=rows).transpose(0, 3, 1, 2)
            for _ in range(3):
                found = runner.run({name: view})
            for output, array in runner.run({name: np.ascontiguousarray(view)}).items():
                np.testing.assert_array_equal(found[output], array, strict=True)
