"""New weights for an engine while runners of it live."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trt_nets import WEIGHTS, WIDTH, integers, linear_answer

Plans = Callable[[str], bytes]


def weights(native: Any, engine: Any, factor: float) -> dict[str, Any]:
    """The engine's weights times `factor`, in the layout that it has them in."""
    names = native.refittable_weights(engine)
    assert len(names) == 1, names
    return {names[0]: np.ascontiguousarray(WEIGHTS * np.float32(factor))}


def test_runners_go_on_with_the_new_weights(native: Any, plans: Plans) -> None:
    engine = native.Engine(plans("refittable"))
    x = integers(4, WIDTH)
    with native.Runner(engine) as runner:
        for _ in range(4):  # captured
            np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))
        plan = native.refit(engine, weights=weights(native, engine, 2))
        for _ in range(4):
            np.testing.assert_array_equal(runner.run({"x": x})["y"], 2 * linear_answer(x))
        assert runner.graph_status().graphs == 1
    with native.Runner(native.Engine(plan)) as fresh:
        np.testing.assert_array_equal(fresh.run({"x": x})["y"], 2 * linear_answer(x))


def test_a_refit_beside_a_call_in_flight_is_refused(native: Any, plans: Plans) -> None:
    engine = native.Engine(plans("refittable"))
    x = integers(4, WIDTH)
    with native.Runner(engine, native.RunnerOptions(slots=2)) as runner:
        ticket = runner.submit({"x": x})
        with pytest.raises(native.UsageProblem, match="1 call in flight"):
            native.refit(engine, weights=weights(native, engine, 2))
        np.testing.assert_array_equal(ticket.result()["y"], linear_answer(x))
        native.refit(engine, weights=weights(native, engine, 2))
        np.testing.assert_array_equal(runner.run({"x": x})["y"], 2 * linear_answer(x))


def test_threads_that_run_and_one_that_refits(native: Any, plans: Plans) -> None:
    engine = native.Engine(plans("refittable"))
    x = integers(4, WIDTH)
    allowed = [linear_answer(x), 2 * linear_answer(x)]
    stop = threading.Event()
    wrong = []

    def work(runner: Any) -> None:
        while not stop.is_set():
            found = runner.run({"x": x})["y"]
            if not any(np.array_equal(found, answer) for answer in allowed):
                wrong.append(found)

    with native.Runner(engine) as first, native.Runner(engine) as second:
        threads = [threading.Thread(target=work, args=(runner,)) for runner in (first, second)]
        for thread in threads:
            thread.start()
        done = 0
        for attempt in range(20_000):
            try:
                native.refit(engine, weights=weights(native, engine, 1 + attempt % 2))
                done += 1
            except native.UsageProblem as error:
                assert "in flight" in str(error)  # noqa: PT017 - of the attempts that are refused
            if done == 20:
                break
        stop.set()
        for thread in threads:
            thread.join(60)
    assert wrong == []


def test_weights_of_foreign_byte_order_are_refused(native: Any, plans: Plans) -> None:
    engine = native.Engine(plans("refittable"))
    foreign = {name: array.astype(">f4") for name, array in weights(native, engine, 2).items()}
    with pytest.raises(native.UsageProblem, match=r"Weight .* is in foreign byte order \(>f4\)"):
        native.refit(engine, weights=foreign)
    x = integers(4, WIDTH)
    with native.Runner(engine) as runner:
        np.testing.assert_array_equal(runner.run({"x": x})["y"], linear_answer(x))


def test_a_pipe_is_no_model_to_refit_from(native: Any, plans: Plans, tmp_path: Path) -> None:
    if native.build_info()["tensorrt_headers"].startswith("8."):
        pytest.skip("TensorRT 8 refits from values alone")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(native.UsageProblem, match="No such model file"):
        native.refit(native.Engine(plans("refittable")), model=tmp_path / "pipe")
