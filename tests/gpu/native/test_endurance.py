from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leaks import MIB, check_nothing_is_kept, host_bytes
from trt_nets import WIDTH, Engines, build, linear, linear_answer

RUNS = 10_000


@pytest.mark.long
def test_ten_thousand_runs_leak_nothing(native: Any, engines: Engines) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, (rows, WIDTH)).astype(np.float32) for rows in range(1, 65)]
    answers = [linear_answer(x) for x in inputs]
    with native.Runner(engines("dynamic"), native.RunnerOptions(slots=2, graph_cache=8)) as runner:

        def run(count: int) -> None:
            for number in range(count):
                # half of the calls repeat a few shapes, so that graphs are captured, replayed and forgotten
                pick = int(rng.integers(0, 64)) if number % 2 else (number // 500 + number % 6) % 64
                np.testing.assert_array_equal(runner.run({"x": inputs[pick]})["y"], answers[pick])

        for _ in range(4):  # the largest shape once on every slot: from here on no buffer grows
            runner.run({"x": inputs[-1]})
        run(2000)
        memory = runner.memory_bytes()
        check_nothing_is_kept(native, lambda: run(RUNS))
        assert runner.memory_bytes() == memory
        assert runner.graph_status().graphs > 0


def test_runners_come_and_go(native: Any, engines: Engines) -> None:
    x = np.ones((4, WIDTH), np.float32)

    def once() -> None:
        with native.Runner(engines("dynamic"), native.RunnerOptions(slots=2)) as runner:
            for _ in range(6):
                runner.run({"x": x})

    for _ in range(20):
        once()

    def many() -> None:
        for _ in range(100):
            once()

    check_nothing_is_kept(native, many)


def test_builds_with_a_builder_that_is_kept_take_no_more_memory(native: Any, tmp_path: Path) -> None:
    hold = native.BuilderHold()
    try:
        build(native, tmp_path, "first", linear(4))
        before = host_bytes()
        for number in range(3):
            build(native, tmp_path, f"later{number}", linear(4))
        # without it TensorRT 8.6 keeps the memory of each builder's kernels, 0.7 to 1.4 GB
        assert host_bytes() - before < 256 * MIB
    finally:
        hold.close()
        hold.close()
