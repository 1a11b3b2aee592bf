"""Builds of different engines in processes of their own: none waits for another."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOUBLES = Path(__file__).parents[2] / "doubles"
PROCESSES = 3
WAIT_S = 60


def _build(out: str, model: str, barrier: Any) -> None:
    os.environ["TRTW_TMP"] = out
    sys.path.insert(0, str(DOUBLES))
    import trt_workbench_native as double
    from trt_workbench.engine.builder import build, prepare_build
    from trt_workbench.engine.options import BuildSettings
    from trt_workbench.model.opened import Model

    real = double.build_engine

    def meet(*arguments: Any) -> Any:
        barrier.wait(WAIT_S)  # broken, unless every process is inside TensorRT's builder
        result = real(*arguments)
        result.timing_cache = Path(model).stem[-1:].encode()
        barrier.wait(WAIT_S)
        return result

    double.build_engine = meet
    assert build(prepare_build(Model.open(Path(model)), BuildSettings())).built


def test_different_engines_are_built_at_the_same_time(make_model: Callable[..., Path], processes: Any) -> None:
    models = [make_model(f"model-{number}.onnx", scale=1.0 + number) for number in range(PROCESSES)]
    barrier = processes.Barrier(PROCESSES)
    out = os.environ["TRTW_TMP"]
    workers = [processes.Process(target=_build, args=(out, str(model), barrier)) for model in models]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * WAIT_S)
        assert worker.exitcode == 0
    assert len(list(Path(out, "engines").glob("*/engine.plan"))) == PROCESSES
    # each began without timings and added one; none is lost
    (timings,) = Path(out, "timing-caches").glob("*.timing")
    assert sorted(timings.read_bytes()) == sorted(b"012")
