"""Device inputs that another stream is still writing, whichever slot reads them; input buffers that are crossed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from trt_nets import Engines, integers

LONG = 100_000_000  # cycles; about 50 ms
SIZE = 4096
KINDS = ["torch", "dlpack", "interface", "own", "cupy"]


class OnlyDlpack:
    """A tensor that offers __dlpack__ alone, as CuPy, JAX and older releases of PyTorch do."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        return self.tensor.__dlpack__(stream=stream)


class OnlyInterface:
    """A tensor that offers __cuda_array_interface__ alone, with the stream that writes it, as Numba's arrays do."""

    def __init__(self, tensor: Any, stream: Any) -> None:
        description = tensor.__cuda_array_interface__
        self.tensor = tensor
        self.__cuda_array_interface__ = {**description, "version": 3, "stream": stream.cuda_stream}


class Late:
    """Makes arrays whose stream is busy for long before it writes them."""

    def __init__(self, native: Any, engines: Engines, torch: Any, kind: str) -> None:
        self.torch, self.kind, self.side = torch, kind, torch.cuda.Stream()
        self.maker = native.Runner(engines("elementwise"))  # y = relu(x)
        self.cupy = pytest.importorskip("cupy", reason="CuPy is not installed") if kind == "cupy" else None

    @contextmanager
    def array(self, value: int) -> Iterator[Any]:
        """An array of this value; its library's current stream is the busy one."""
        torch = self.torch
        torch.cuda.synchronize()
        if self.cupy is not None:
            stream = self.cupy.cuda.Stream(non_blocking=True)
            array = self.cupy.zeros(SIZE, np.float32)
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
                torch.cuda._sleep(LONG)
            with stream:
                array.fill(value)
                yield array
            return
        x = torch.zeros(SIZE, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(LONG)
            x.fill_(float(value))
            if self.kind == "own":
                yield self.maker.run({"x": x}, outputs=[], device_outputs=["y"], stream=self.side)["y"]
            elif self.kind == "dlpack":
                yield OnlyDlpack(x)
            else:
                yield OnlyInterface(x, self.side) if self.kind == "interface" else x


@pytest.mark.parametrize("how", ["run", "submit", "stream"])
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_an_input_is_read_once_it_is_written(
    native: Any, engines: Engines, torch: Any, kind: str, slots: int, how: str
) -> None:
    late, other = Late(native, engines, torch, kind), torch.cuda.Stream()
    with native.Runner(engines("elementwise"), native.RunnerOptions(slots=slots)) as runner:
        runner.run({"x": np.zeros(SIZE, np.float32)})
        wrong = []
        for value in range(1, 11):
            with late.array(value) as x:
                if how == "stream":
                    found = runner.run({"x": x}, outputs=[], device_outputs=["y"], stream=other)["y"].numpy()
                elif how == "submit":
                    found = runner.submit({"x": x}).result()["y"]
                else:
                    found = runner.run({"x": x})["y"]
            if not (found == value).all():
                wrong.append((value, float(found[0])))
        assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_tickets_of_several_late_inputs(native: Any, engines: Engines, torch: Any, kind: str) -> None:
    late = Late(native, engines, torch, kind)
    with native.Runner(engines("elementwise"), native.RunnerOptions(slots=4)) as runner:
        for first in (1, 5, 9):
            tickets = []
            for value in range(first, first + 4):
                with late.array(value) as x:
                    tickets.append((value, runner.submit({"x": x})))
            for value, ticket in reversed(tickets):
                np.testing.assert_array_equal(ticket.result()["y"], np.full(SIZE, value, np.float32))


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("fused", [True, False])
def test_input_buffers_may_be_crossed(native: Any, engines: Engines, fused: bool, size: int) -> None:
    options = native.RunnerOptions(graph_includes_transfers=fused)
    with native.Runner(engines("sum"), options) as runner:  # y = 2 x + h
        for seed in range(6):
            x, h = (runner.input_buffer(name, (size,)) for name in ("x", "h"))
            first, second = integers(size, seed=seed), integers(size, seed=seed + 100)
            x[...], h[...] = first, second
            np.testing.assert_array_equal(runner.run({"x": h, "h": x})["y"], 2 * second + first)
            x[...], h[...] = first, second
            np.testing.assert_array_equal(runner.run({"x": x[::-1], "h": x})["y"], 2 * first[::-1] + first)
            x[...], h[...] = first, second
            np.testing.assert_array_equal(runner.run({"x": x, "h": h})["y"], 2 * first + second)
