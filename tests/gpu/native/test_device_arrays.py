from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trt_nets import WIDTH, Engines, integers, linear_answer


def test_inputs_and_outputs_stay_on_the_device(native: Any, engines: Engines, torch: Any) -> None:
    with native.Runner(engines("dynamic")) as runner:
        for seed, rows in enumerate([4, 4, 4, 33, 4]):
            host = integers(rows, WIDTH, seed=seed)
            x = torch.from_numpy(host).cuda()
            y = runner.run({"x": x}, device_outputs=True)["y"]
            assert (y.shape, y.dtype, y.nbytes) == ((rows, 5), "float32", rows * 5 * 4)
            assert y.__dlpack_device__() == (2, 0)
            np.testing.assert_array_equal(torch.from_dlpack(y).cpu().numpy(), linear_answer(host))
            np.testing.assert_array_equal(torch.as_tensor(y, device="cuda").cpu().numpy(), linear_answer(host))
            np.testing.assert_array_equal(y.numpy(), linear_answer(host))


def test_one_address_is_captured(native: Any, engines: Engines, torch: Any) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    with native.Runner(engines("fixed")) as runner:
        for seed in range(5):
            host = integers(4, WIDTH, seed=seed)
            x.copy_(torch.from_numpy(host))
            np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(host))
        assert runner.graph_status().graphs == 1


def test_the_producers_stream_is_waited_for(native: Any, engines: Engines, torch: Any) -> None:
    work = torch.randn(4096, 4096, device="cuda")
    host = integers(4, WIDTH)
    ready = torch.from_numpy(host).cuda()
    with native.Runner(engines("fixed")) as runner:
        for _ in range(5):
            x = torch.zeros(4, WIDTH, device="cuda")
            for _ in range(10):
                work @ work  # keeps the stream busy while x is still zero
            x.copy_(ready)
            np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(host))


def test_the_producers_own_stream_is_waited_for(native: Any, engines: Engines, torch: Any) -> None:
    work = torch.randn(4096, 4096, device="cuda")
    host = integers(4, WIDTH)
    ready = torch.from_numpy(host).cuda()
    stream = torch.cuda.Stream()  # does not order itself with the default stream
    with native.Runner(engines("fixed")) as runner:
        for _ in range(5):
            x = torch.zeros(4, WIDTH, device="cuda")
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(10):
                    work @ work
                x.copy_(ready)
                np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(host))


def test_outputs_outlive_the_runner(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    runner = native.Runner(engines("fixed"))
    y = torch.from_dlpack(runner.run({"x": host}, device_outputs=["y"])["y"])
    runner.close()
    del runner
    np.testing.assert_array_equal(y.cpu().numpy(), linear_answer(host))


def test_tickets_keep_device_inputs_alive(native: Any, engines: Engines, torch: Any) -> None:
    with native.Runner(engines("fixed"), native.RunnerOptions(slots=2)) as runner:
        for seed in range(10):
            host = integers(4, WIDTH, seed=seed)
            ticket = runner.submit({"x": torch.from_numpy(host).cuda()})  # no other reference is left
            torch.zeros(4, WIDTH, device="cuda")  # would take over freed memory
            np.testing.assert_array_equal(ticket.result()["y"], linear_answer(host))


def test_state_from_the_device(native: Any, engines: Engines, torch: Any) -> None:
    x, h = integers(1, 8), integers(1, 8, seed=3)
    with native.Runner(engines("recurrent"), native.RunnerOptions(state={"h_next": "h"})) as runner:
        runner.reset_state({"h": torch.from_numpy(h).cuda()})
        np.testing.assert_array_equal(runner.run({"x": x})["y"], h / 2 + x + 1)


def test_device_arrays_that_do_not_fit(native: Any, engines: Engines, torch: Any) -> None:
    x = torch.zeros(4, WIDTH, device="cuda")
    wrong = [
        (x.double(), "dtype float64"),
        (torch.zeros(WIDTH, 4, device="cuda").t(), "contiguous"),
        (torch.zeros(5, WIDTH, device="cuda"), "no profile"),
    ]
    with native.Runner(engines("fixed")) as runner:
        for array, words in wrong:
            with pytest.raises(native.UsageProblem, match=words):
                runner.run({"x": array})
        assert runner.run({"x": x})


def test_tensors_in_host_memory_count_as_arrays(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    with native.Runner(engines("fixed")) as runner:
        np.testing.assert_array_equal(runner.run({"x": torch.from_numpy(host)})["y"], linear_answer(host))


def test_a_full_device_leaves_the_runner_usable(native: Any, engines: Engines, torch: Any) -> None:
    small, large = integers(1000), np.zeros(1 << 26, np.float32)  # 256 MiB
    with native.Runner(engines("elementwise")) as runner:
        np.testing.assert_array_equal(runner.run({"x": small})["y"], np.maximum(small, 0))
        free = native.devices()[0]["memory_free_bytes"]
        hog = torch.empty(free - (128 << 20), dtype=torch.uint8, device="cuda")
        try:
            for _ in range(2):
                with pytest.raises(native.DeviceFailure, match="out of memory"):
                    runner.run({"x": large})
                np.testing.assert_array_equal(runner.run({"x": small})["y"], np.maximum(small, 0))
        finally:
            del hog
            torch.cuda.empty_cache()
        assert runner.run({"x": large})["y"].shape == large.shape
        np.testing.assert_array_equal(runner.run({"x": small})["y"], np.maximum(small, 0))


@pytest.mark.parametrize("graph", [True, False])
def test_arrays_that_are_kept_keep_their_values(native: Any, engines: Engines, torch: Any, graph: bool) -> None:
    kept = []
    with native.Runner(engines("fixed"), native.RunnerOptions(cuda_graph=graph)) as runner:
        for seed in range(8):
            host = integers(4, WIDTH, seed=seed)
            y = runner.run({"x": host}, device_outputs=True)["y"]
            array = (y, torch.from_dlpack(y), torch.as_tensor(y, device="cuda"))[seed % 3]
            kept.append((array, linear_answer(host)))
            del y
        for array, expected in kept:
            found = array.numpy() if hasattr(array, "nbytes") and not torch.is_tensor(array) else array.cpu().numpy()
            np.testing.assert_array_equal(found, expected)


def test_a_loop_that_keeps_the_last_array_replays_its_graphs(native: Any, engines: Engines, torch: Any) -> None:
    y = None
    with native.Runner(engines("fixed")) as runner:
        for seed in range(12):
            host = integers(4, WIDTH, seed=seed)
            y = torch.from_dlpack(runner.run({"x": host}, device_outputs=True)["y"])
            np.testing.assert_array_equal(y.cpu().numpy(), linear_answer(host))
            if seed == 7:
                held = runner.memory_bytes()
        assert runner.graph_status().graphs == 2
        assert runner.memory_bytes() == held
        assert held["device_outputs"] == 2 * 4 * 5 * 4


@pytest.mark.parametrize("own_stream", [True, False])
def test_what_a_consumers_stream_still_reads_is_not_overwritten(
    native: Any, engines: Engines, torch: Any, own_stream: bool
) -> None:
    work = torch.randn(4096, 4096, device="cuda")
    first, second = integers(4, WIDTH, seed=1), integers(4, WIDTH, seed=2)
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    with native.Runner(engines("fixed")) as runner:
        for _ in range(3):
            runner.run({"x": first}, device_outputs=True)
        for _ in range(5):
            with torch.cuda.stream(stream):
                y = torch.from_dlpack(runner.run({"x": first}, device_outputs=True)["y"])
                for _ in range(20):
                    work @ work  # keeps the stream busy before it reads
                copy = y.clone()
                del y  # nothing but work that is under way needs the memory from here on
            np.testing.assert_array_equal(runner.run({"x": second})["y"], linear_answer(second))
            stream.synchronize()
            np.testing.assert_array_equal(copy.cpu().numpy(), linear_answer(first))


def test_state_that_is_kept_keeps_its_values(native: Any, engines: Engines, torch: Any) -> None:
    x, h = integers(1, 8), np.zeros((1, 8), np.float32)
    kept = []
    with native.Runner(engines("recurrent"), native.RunnerOptions(state={"h_next": "h"})) as runner:
        for _ in range(6):
            found = runner.run({"x": x}, device_outputs=["h_next"])
            h = h / 2 + x
            kept.append((torch.from_dlpack(found["h_next"]), h))
            np.testing.assert_array_equal(runner.run({"x": x})["y"], h / 2 + x + 1)
            h = h / 2 + x
    for array, expected in kept:
        np.testing.assert_array_equal(array.cpu().numpy(), expected)


def test_dlpack_takes_streams_as_the_standard_has_them(native: Any, engines: Engines, torch: Any) -> None:
    host = integers(4, WIDTH)
    with native.Runner(engines("fixed")) as runner:
        y = runner.run({"x": host}, device_outputs=True)["y"]
        for stream in (None, -1, 1, 2, torch.cuda.Stream().cuda_stream):
            found = torch.utils.dlpack.from_dlpack(y.__dlpack__(stream=stream))
            np.testing.assert_array_equal(found.cpu().numpy(), linear_answer(host))
            del found
        np.testing.assert_array_equal(runner.run({"x": host})["y"], linear_answer(host))
