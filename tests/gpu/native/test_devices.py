"""Two GPUs: what the core does on one leaves the other selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trt_nets import WIDTH, build, integers, linear, linear_answer

Plans = Callable[[str], bytes]


@pytest.fixture
def other(native: Any, torch: Any) -> Iterator[int]:
    """The device that is not selected."""
    if len(native.devices()) < 2:
        pytest.skip("needs two GPUs")
    before = torch.cuda.current_device()
    torch.cuda.set_device(0)
    yield 1
    torch.cuda.set_device(before)


def selected() -> int:
    """What the CUDA runtime says, which torch may put off to set."""
    import torch

    return int(torch._C._cuda_getDevice())


def test_calls_leave_the_selected_device(native: Any, plans: Plans, other: int, torch: Any) -> None:
    x = integers(4, WIDTH)
    engine = native.Engine(plans("fixed"), device=other)
    assert (engine.device, selected()) == (other, 0)
    with native.Runner(engine, native.RunnerOptions(slots=2)) as runner:
        assert selected() == 0
        for _ in range(4):
            np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))
            assert selected() == 0
        ticket = runner.submit({"x": x})
        assert selected() == 0
        np.testing.assert_array_equal(ticket.result()["y"], linear_answer(x))
        with pytest.raises(native.UsageProblem):
            runner.run({"x": integers(5, WIDTH)})
        y = runner.run({"x": x}, device_outputs=True)["y"]
        assert y.__dlpack_device__() == (2, other)
        np.testing.assert_array_equal(y.numpy(), linear_answer(x))
        tensor = torch.from_dlpack(y)
        assert tensor.device.index == other
        np.testing.assert_array_equal(tensor.cpu().numpy(), linear_answer(x))
        del tensor, y
        runner.submit({"x": x})  # dropped at once
        assert selected() == 0
    assert selected() == 0
    native.bench(engine, {"x": x}, native.BenchOptions(duration_s=0.01, warmup_ms=0, threads=True))
    native.profile_layers(engine, {"x": x}, iterations=2)
    assert selected() == 0
    del runner, engine
    assert selected() == 0


def test_builds_and_refits_leave_the_selected_device(native: Any, other: int, tmp_path: Path) -> None:
    plan = build(native, tmp_path, "net", linear(4), refit="full")
    assert selected() == 0
    options = native.BuildOptions()
    options.device = other
    options.optimization_level = 0
    built = native.build_engine(str(tmp_path / "net.onnx"), options)
    assert selected() == 0
    built.merge_timing_caches([built.timing_cache])
    assert selected() == 0
    engine = native.Engine(plan, device=other)
    name, *_ = native.refittable_weights(engine)
    assert selected() == 0
    with pytest.raises(native.UsageProblem):
        native.refit(engine, weights={name + "?": np.zeros(1, np.float32)})
    assert selected() == 0


def test_a_letterbox_leaves_the_selected_device(native: Any, other: int) -> None:
    if not hasattr(native, "Letterbox"):
        pytest.skip("the core was built without CUDA kernels")
    spec = native.LetterboxSpec(32, 48)
    image = np.full((40, 30, 3), 7, np.uint8)
    letterbox = native.Letterbox(spec, device=other)
    assert selected() == 0
    found = letterbox([image])
    assert (found.device, selected()) == (other, 0)
    np.testing.assert_array_equal(found.numpy()[0], native.letterbox_cpu(image, spec))
