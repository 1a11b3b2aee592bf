from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np
import pytest
from trt_nets import WIDTH, Engines, integers, linear_answer


def test_tickets_in_any_order(native: Any, engines: Engines) -> None:
    with native.Runner(engines("dynamic"), native.RunnerOptions(slots=4)) as runner:
        for round_number in range(6):
            inputs = [integers(rows, WIDTH, seed=round_number + rows) for rows in (3, 3, 40, 7)]
            tickets = [runner.submit({"x": x}) for x in inputs]
            for x, ticket in reversed(list(zip(inputs, tickets, strict=True))):
                np.testing.assert_array_equal(ticket.result()["y"], linear_answer(x))
        assert runner.graph_status().graphs > 0


def test_inputs_may_change_after_submit(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(slots=2)) as runner:
        for seed in range(20):
            x = integers(4, WIDTH, seed=seed)
            expected = linear_answer(x)
            ticket = runner.submit({"x": x})
            x[...] = -1
            np.testing.assert_array_equal(ticket.result()["y"], expected)


def test_a_ticket_has_one_result(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(slots=2)) as runner:
        ticket = runner.submit({"x": integers(4, WIDTH)})
        assert ticket.result()
        assert ticket.done()
        assert ticket.wait(0)
        with pytest.raises(native.UsageProblem, match="already taken"):
            ticket.result()


def test_a_dropped_ticket_gives_its_slot_back(native: Any, engines: Engines) -> None:
    x = integers(4, WIDTH)
    with native.Runner(engines("fixed")) as runner:
        start = time.monotonic()
        for _ in range(20):
            runner.submit({"x": x})
        np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))
        assert time.monotonic() - start < 5  # a slot that is lost makes the next submit wait for 10 s
        kept = runner.submit({"x": x})
        del kept
        np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))


def test_a_result_is_waited_for_as_long_as_asked(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    there = torch.from_numpy(host).cuda()  # a copy from ordinary host memory would make this thread wait for the work
    work = torch.randn(8192, 8192, device="cuda")
    for spin in (True, False):
        with native.Runner(engines("fixed"), native.RunnerOptions(spin=spin)) as runner:
            runner.run({"x": there})
            x = torch.zeros(4, WIDTH, device="cuda")
            torch.cuda.synchronize()
            for _ in range(200):  # more than a tenth of a second of work that the call has to wait for
                work @ work
            x.copy_(there)
            ticket = runner.submit({"x": x})
            assert not ticket.done()
            with pytest.raises(TimeoutError, match="in flight"):
                ticket.result(timeout=0.001)
            assert not ticket.wait(0.001)
            assert ticket.wait(60)
            assert ticket.done()
            np.testing.assert_array_equal(ticket.result(timeout=0)["y"], linear_answer(host))
            with pytest.raises(native.UsageProblem, match="0 or more"):
                runner.submit({"x": x}).result(timeout=-1)


def test_tickets_in_asyncio(native: Any, engines: Engines) -> None:
    async def call(runner: Any, seed: int) -> None:
        x = integers(4, WIDTH, seed=seed)
        np.testing.assert_array_equal((await runner.submit({"x": x}))["y"], linear_answer(x))

    async def all_calls(runner: Any) -> None:
        await asyncio.gather(*(call(runner, seed) for seed in range(3)))
        x = integers(4, WIDTH)
        ticket = runner.submit({"x": x})
        np.testing.assert_array_equal((await asyncio.wait_for(ticket, 60))["y"], linear_answer(x))
        with pytest.raises(native.UsageProblem, match="already taken"):
            await ticket

    with native.Runner(engines("fixed"), native.RunnerOptions(slots=4)) as runner:
        for _ in range(5):
            asyncio.run(all_calls(runner))


def test_tickets_as_futures(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(slots=4)) as runner:
        for seed in range(10):
            inputs = [integers(4, WIDTH, seed=seed + part) for part in range(4)]
            futures = {runner.submit({"x": x}).future(): x for x in inputs}
            for future in as_completed(futures, timeout=60):
                np.testing.assert_array_equal(future.result()["y"], linear_answer(futures[future]))


def test_a_closed_runner_voids_its_tickets(native: Any, engines: Engines) -> None:
    runner = native.Runner(engines("fixed"), native.RunnerOptions(slots=2))
    tickets = [runner.submit({"x": integers(4, WIDTH)}) for _ in range(2)]
    runner.close()
    for ticket in tickets:
        assert ticket.done()
        with pytest.raises(native.UsageProblem, match="closed before"):
            ticket.result()


def test_a_refused_call_frees_its_slot(native: Any, engines: Engines) -> None:
    with native.Runner(engines("fixed")) as runner:
        for _ in range(3):
            with pytest.raises(native.UsageProblem):
                runner.submit({"x": integers(5, WIDTH)})
        assert runner.run({"x": integers(4, WIDTH)})


def test_calls_left_in_flight_do_no_harm(native: Any, engines: Engines) -> None:
    runner = native.Runner(engines("dynamic"), native.RunnerOptions(slots=3))
    kept = [runner.submit({"x": integers(64, WIDTH)}) for _ in range(3)]
    runner.close()
    del kept
    native.Runner(engines("dynamic")).submit({"x": integers(64, WIDTH)})  # dropped at once


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("engine", ["dynamic", "fixed"])
def test_eight_threads_share_a_runner(native: Any, engines: Engines, engine: str, slots: int) -> None:
    runner = native.Runner(engines(engine), native.RunnerOptions(slots=slots))

    def work(thread: int) -> int:
        rng = np.random.default_rng(thread)
        for _ in range(150):
            rows = int(rng.choice([1, 4, 8, 12, 40])) if engine == "dynamic" else 4
            x = rng.integers(-4, 5, (rows, WIDTH)).astype(np.float32)
            result = runner.submit({"x": x}).result() if rng.random() < 0.5 else runner.run({"x": x})
            np.testing.assert_array_equal(result["y"], linear_answer(x))
            assert runner.timing().end_to_end_ms > 0
        return thread

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
    runner.close()


@pytest.mark.parametrize("transfers", [True, False])
@pytest.mark.parametrize("slots", [1, 4])
def test_large_inputs_from_several_threads(native: Any, engines: Engines, slots: int, transfers: bool) -> None:
    shared = 9 << 17  # elements from which on several threads copy an array
    sizes = [1000, 600_000, shared - 1, shared, 3_000_001, 9_633_792]
    options = native.RunnerOptions(slots=slots, graph_includes_transfers=transfers)
    runner = native.Runner(engines("elementwise"), options)

    def work(thread: int) -> int:
        rng = np.random.default_rng(thread)
        for size in [*rng.permutation(sizes), *rng.permutation(sizes)]:
            x = rng.standard_normal(size, np.float32)
            expected = np.maximum(x, 0)
            np.testing.assert_array_equal(runner.run({"x": x})["y"], expected, strict=True)
            ticket = runner.submit({"x": x})
            x[...] = -1  # nobody reads it any more
            np.testing.assert_array_equal(ticket.result()["y"], expected, strict=True)
        return thread

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == list(range(4))
    runner.close()


def test_one_thread_submits_and_another_waits(native: Any, engines: Engines) -> None:
    from queue import SimpleQueue

    tickets: SimpleQueue[tuple[Any, Any] | None] = SimpleQueue()
    runner = native.Runner(engines("fixed"), native.RunnerOptions(slots=2))

    def consume() -> int:
        count = 0
        while (item := tickets.get()) is not None:
            np.testing.assert_array_equal(item[0].result()["y"], linear_answer(item[1]))
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        consumer = pool.submit(consume)
        for seed in range(200):
            x = integers(4, WIDTH, seed=seed)
            tickets.put((runner.submit({"x": x}), x))
        tickets.put(None)
        assert consumer.result(timeout=60) == 200


def test_several_runners_share_an_engine(native: Any, engines: Engines) -> None:
    runners = [native.Runner(engines("dynamic")) for _ in range(3)]
    for seed in range(4):
        for rows, runner in zip((2, 9, 64), runners, strict=True):
            x = integers(rows, WIDTH, seed=seed)
            np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))


def test_a_refused_target_keeps_the_tickets_result(native: Any, engines: Engines) -> None:
    x, target = integers(4, WIDTH), np.empty((4, 5), np.float32)
    with native.Runner(engines("fixed")) as runner:
        ticket = runner.submit({"x": x})
        for wrong in (np.empty((4, 6), np.float32), np.empty((4, 5), ">f4"), np.empty((4, 5))):
            with pytest.raises(native.UsageProblem, match="array for output 'y'"):
                ticket.result(out={"y": wrong})
        assert ticket.result(out={"y": target})["y"] is target
        np.testing.assert_array_equal(target, linear_answer(x))


def test_close_waits_for_the_calls_of_other_threads(native: Any, engines: Engines) -> None:
    x = integers(64, WIDTH)
    for _ in range(20):
        runner = native.Runner(engines("dynamic"), native.RunnerOptions(slots=2))

        def work(runner: Any = runner) -> int:
            done = 0
            try:
                while True:
                    np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))
                    done += 1
            except native.UsageProblem as closed:
                assert "closed" in str(closed)  # noqa: PT017 - it ends the thread
            return done

        with ThreadPoolExecutor(3) as threads:
            futures = [threads.submit(work) for _ in range(3)]
            time.sleep(0.02)
            runner.close()
            assert all(future.result(60) >= 0 for future in futures)


def test_threads_that_wait_for_one_another_are_told_so(native: Any, engines: Engines) -> None:
    x, both = integers(4, WIDTH), threading.Barrier(2)
    with native.Runner(engines("fixed"), native.RunnerOptions(slots=2)) as runner:

        def work() -> str:
            ticket = runner.submit({"x": x})
            both.wait(30)
            try:
                runner.run({"x": x})
            except native.UsageProblem as refused:
                return str(refused)
            finally:
                ticket.result()
            return ""

        with ThreadPoolExecutor(2) as threads:
            told = [threads.submit(work) for _ in range(2)]
            assert any("nobody waits for" in future.result(60) for future in told)
