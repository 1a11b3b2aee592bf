"""Calls on PyTorch's streams: ordered by the device alone, and within its graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trt_nets import WEIGHTS, WIDTH, Engines, integers, linear_answer

LONG = 200_000_000  # cycles; about a tenth of a second


def on(torch: Any, kind: str) -> Any:
    """A context in which PyTorch works on its default stream, or on another one."""
    return torch.cuda.stream(torch.cuda.default_stream() if kind == "default" else torch.cuda.Stream())


def call(torch: Any, runner: Any, x: Any) -> Any:
    """The output as a tensor, of a call on the current stream."""
    stream = torch.cuda.current_stream()
    return torch.from_dlpack(runner.run({"x": x}, device_outputs=["y"], outputs=[], stream=stream)["y"])


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found.cpu().numpy(), expected)


WAYS: dict[str, dict[str, bool]] = {
    "graph": {},
    "plain": {"cuda_graph": False},
    "split": {"graph_includes_transfers": False},
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def runner(request: pytest.FixtureRequest, native: Any, engines: Engines) -> Any:
    with native.Runner(engines("dynamic"), native.RunnerOptions(**request.param)) as made:
        yield made


@pytest.mark.parametrize("kind", ["default", "own"])
def test_a_call_comes_after_its_producer_and_before_its_consumer(torch: Any, runner: Any, kind: str) -> None:
    work = torch.randn(4096, 4096, device="cuda")
    x = torch.zeros(4, WIDTH, device="cuda")
    kept = []
    torch.cuda.synchronize()
    with on(torch, kind):
        for seed in range(8):
            host = integers(4, WIDTH, seed=seed)
            ready = torch.from_numpy(host).cuda()
            for _ in range(5):
                work @ work  # keeps the stream busy while x holds what the call before reads
            x.copy_(ready)
            kept.append((call(torch, runner, x) * 2, 2 * linear_answer(host)))
            x.zero_()
        for found, expected in kept:
            same(found, expected)


@pytest.mark.parametrize("kind", ["default", "own"])
def test_the_host_waits_for_nothing(native: Any, engines: Engines, torch: Any, kind: str) -> None:
    host = integers(4, WIDTH)
    with native.Runner(engines("fixed")) as runner, on(torch, kind):
        x = torch.from_numpy(host).cuda()
        # Contexts and memory are there after these; on a stream of its own, the call that is captured does not wait.
        for _ in range(8 if kind == "default" else 1):
            same(call(torch, runner, x), linear_answer(host))
        for _ in range(5):
            torch.cuda.synchronize()
            torch.cuda._sleep(LONG)
            busy = torch.cuda.Event()
            busy.record()
            y = call(torch, runner, x)
            after = torch.cuda.Event()
            after.record()
            assert not busy.query()
            assert not after.query()
            same(y, linear_answer(host))
            del y
        assert runner.graph_status().graphs >= 1


def test_the_current_stream_of_torch_need_not_be_the_calls(torch: Any, runner: Any) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    producer, own, consumer = (torch.cuda.Stream() for _ in range(3))
    torch.cuda.synchronize()
    for seed in range(6):
        host = integers(4, WIDTH, seed=seed)
        ready = torch.from_numpy(host).cuda()
        producer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(producer):
            torch.cuda._sleep(LONG // 10)
            x.copy_(ready)
            y = runner.run({"x": x}, device_outputs=True, stream=own)["y"]
        with torch.cuda.stream(consumer):
            found = torch.from_dlpack(y) + 1
        np.testing.assert_array_equal(y.numpy(), linear_answer(host))
        consumer.synchronize()
        same(found, linear_answer(host) + 1)
        same(torch.as_tensor(y, device="cuda"), linear_answer(host))
        torch.cuda.synchronize()


def test_streams_are_taken_as_objects_and_as_handles(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    x = torch.from_numpy(host).cuda()
    torch.cuda.synchronize()
    own = torch.cuda.Stream()
    with native.Runner(engines("fixed")) as runner:
        for stream in (own, own.cuda_stream, torch.cuda.default_stream(), 0, 1, 2):
            for _ in range(4):
                y = runner.run({"x": x}, device_outputs=True, stream=stream)["y"]
                np.testing.assert_array_equal(y.numpy(), linear_answer(host))
        with pytest.raises(native.UsageProblem, match="A stream is an object"):
            runner.run({"x": x}, device_outputs=True, stream="cuda")


def test_outputs_on_the_host_are_waited_for(torch: Any, runner: Any) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    with on(torch, "own"):
        stream = torch.cuda.current_stream()
        for seed in range(5):
            host = integers(4, WIDTH, seed=seed)
            torch.cuda._sleep(LONG // 10)
            x.copy_(torch.from_numpy(host))
            np.testing.assert_array_equal(runner.run({"x": x}, stream=stream)["y"], linear_answer(host))
            np.testing.assert_array_equal(runner.run({"x": host}, stream=stream)["y"], linear_answer(host))


def test_calls_on_a_stream_and_off_it_take_turns(torch: Any, runner: Any) -> None:
    with on(torch, "own"):
        for seed in range(10):
            one, two, three = (integers(4, WIDTH, seed=seed + 100 * i) for i in range(3))
            there = torch.from_numpy(three).cuda()
            torch.cuda._sleep(LONG // 20)
            y = call(torch, runner, torch.from_numpy(one).cuda())
            ticket = runner.submit({"x": two})
            np.testing.assert_array_equal(ticket.result()["y"], linear_answer(two))
            z = runner.run({"x": there}, device_outputs=True, stream=torch.cuda.default_stream())["y"]
            same(y, linear_answer(one))
            np.testing.assert_array_equal(z.numpy(), linear_answer(three))


def test_many_addresses_share_a_graph(native: Any, engines: Engines, torch: Any) -> None:
    hosts = [integers(4, WIDTH, seed=seed) for seed in range(24)]
    tensors = [torch.from_numpy(host).cuda() for host in hosts]
    order = np.random.default_rng(0).integers(0, len(hosts), 400)
    with native.Runner(engines("fixed")) as runner:
        for i in order:
            same(call(torch, runner, tensors[i]), linear_answer(hosts[i]))
        graphs = runner.graph_status().graphs
        assert graphs <= 10
        held = runner.memory_bytes()
        for i in order:
            same(call(torch, runner, tensors[i]), linear_answer(hosts[i]))
        assert runner.graph_status().graphs <= 10
        assert runner.memory_bytes() == held


def test_an_array_that_lies_badly_is_copied(torch: Any, runner: Any) -> None:
    for seed in range(5):
        host = integers(5, WIDTH, seed=seed)
        x = torch.from_numpy(host.reshape(-1)).cuda()[4 : 4 + 4 * WIDTH].view(4, WIDTH)
        same(call(torch, runner, x), linear_answer(host.reshape(-1)[4 : 4 + 4 * WIDTH].reshape(4, WIDTH)))
        np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x.cpu().numpy()))


@pytest.mark.parametrize("count", [3, 12])
def test_results_that_are_kept_keep_their_values(torch: Any, runner: Any, count: int) -> None:
    kept: list[tuple[Any, Any]] = []
    with on(torch, "own"):
        x = torch.zeros(4, WIDTH, device="cuda")
        for seed in range(60):
            host = integers(4, WIDTH, seed=seed)
            x.copy_(torch.from_numpy(host))
            kept.append((call(torch, runner, x), linear_answer(host)))
            if len(kept) > count:
                same(*kept.pop(0))
            if seed == 40:
                held = runner.memory_bytes()
        assert runner.memory_bytes() == held
        for found, expected in kept:
            same(found, expected)


def test_a_result_that_is_still_read_is_not_overwritten(torch: Any, runner: Any) -> None:
    first, second = integers(4, WIDTH, seed=1), integers(4, WIDTH, seed=2)
    one, two = torch.from_numpy(first).cuda(), torch.from_numpy(second).cuda()
    reader = torch.cuda.Stream()
    torch.cuda.synchronize()
    with on(torch, "own"):
        for _ in range(8):
            y = runner.run({"x": one}, device_outputs=True, stream=torch.cuda.current_stream())["y"]
            with torch.cuda.stream(reader):
                found = torch.from_dlpack(y)
                torch.cuda._sleep(LONG // 20)
                copy = found.clone()
                del found, y
            z = call(torch, runner, two)
            reader.synchronize()
            same(copy, linear_answer(first))
            same(z, linear_answer(second))


def test_state_goes_on_from_call_to_call(native: Any, engines: Engines, torch: Any) -> None:
    h = np.zeros((1, 8), np.float32)
    with native.Runner(engines("recurrent"), native.RunnerOptions(state={"h_next": "h"})) as runner, on(torch, "own"):
        x = torch.zeros(1, 8, device="cuda")
        kept = []
        for seed in range(9):
            host = integers(1, 8, seed=seed)
            torch.cuda._sleep(LONG // 50)
            x.copy_(torch.from_numpy(host))
            h = h / 2 + host
            kept.append((call(torch, runner, x), h + 1))
            h = h / 2 + host
            if seed % 3 == 0:
                np.testing.assert_array_equal(runner.run({"x": host})["y"], h + 1)
            else:
                kept.append((call(torch, runner, x), h + 1))
        for found, expected in kept:
            same(found, expected)


def test_a_runner_is_closed_while_calls_are_queued(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    x = torch.from_numpy(host).cuda()
    for calls in (1, 4):
        with on(torch, "own"):
            runner = native.Runner(engines("fixed"))
            for _ in range(3):
                call(torch, runner, x)
            torch.cuda._sleep(LONG)
            kept = [call(torch, runner, x) for _ in range(calls)]
            runner.close()
            del runner
            for y in kept:
                same(y, linear_answer(host))


def test_a_refit_waits_for_calls_on_streams(native: Any, plans: Callable[[str], bytes], torch: Any) -> None:
    engine = native.Engine(plans("refittable"))
    host = integers(4, WIDTH)
    x = torch.from_numpy(host).cuda()
    (name,) = native.refittable_weights(engine)
    with native.Runner(engine) as runner, on(torch, "own"):
        for factor in (1, 2, 4):
            for _ in range(4):
                same(call(torch, runner, x), factor * linear_answer(host))
            torch.cuda._sleep(LONG)
            y = call(torch, runner, x)
            native.refit(engine, weights={name: np.ascontiguousarray(WEIGHTS * np.float32(2 * factor))})
            same(y, factor * linear_answer(host))


def test_threads_with_streams_of_their_own(native: Any, engines: Engines, torch: Any) -> None:
    wrong: list[Any] = []
    with native.Runner(engines("dynamic"), native.RunnerOptions(slots=3)) as runner:

        def work(number: int) -> None:
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for i in range(60):
                        host = integers(1 + (number + i) % 4, WIDTH, seed=i)
                        same(call(torch, runner, torch.from_numpy(host).cuda()), linear_answer(host))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]


# ---- graphs of PyTorch's ------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [True, False])
def test_a_call_within_a_graph_is_replayed_with_new_inputs(
    native: Any, engines: Engines, torch: Any, warm: bool
) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    other = integers(33, WIDTH, seed=9)
    with native.Runner(engines("dynamic")) as runner:
        if warm:
            with on(torch, "own"):
                for _ in range(3):
                    call(torch, runner, x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = call(torch, runner, x * 2) + 1
        for seed in range(6):
            host = integers(4, WIDTH, seed=seed)
            x.copy_(torch.from_numpy(host))
            graph.replay()
            np.testing.assert_array_equal(runner.run({"x": other})["y"], linear_answer(other))  # shares nothing with it
            same(y, linear_answer(2 * host) + 1)
        del graph


def test_two_calls_within_one_graph(native: Any, engines: Engines, torch: Any) -> None:
    x, z = torch.zeros(4, WIDTH, device="cuda"), torch.zeros(2 * 4 * WIDTH + 4, device="cuda")[4 : 4 + 4 * WIDTH]
    with native.Runner(engines("fixed")) as runner:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total = call(torch, runner, x) - call(torch, runner, z.view(4, WIDTH))  # the latter lies badly
        for seed in range(4):
            one, two = integers(4, WIDTH, seed=seed), integers(4, WIDTH, seed=seed + 50)
            x.copy_(torch.from_numpy(one))
            z.copy_(torch.from_numpy(two).reshape(-1))
            graph.replay()
            same(total, linear_answer(one) - linear_answer(two))


def test_what_a_graph_cannot_hold_is_refused(native: Any, engines: Engines, torch: Any) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    h = torch.zeros(1, 8, device="cuda")
    torch.cuda.synchronize()
    cases = [
        ("fixed", {}, {"x": integers(4, WIDTH)}, {"device_outputs": True}, "not on the device"),
        ("fixed", {}, {"x": x}, {}, "captures a graph"),
        ("recurrent", {"state": {"h_next": "h"}}, {"x": h}, {"device_outputs": True}, "runner with state"),
    ]
    for name, options, inputs, given, words in cases:
        with native.Runner(engines(name), native.RunnerOptions(**options)) as runner:
            graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                graph.capture_begin()
                try:
                    with pytest.raises(native.UsageProblem, match=words):
                        runner.run(inputs, stream=stream, **given)
                    h.add_(0)  # no graph is empty
                finally:
                    graph.capture_end()
