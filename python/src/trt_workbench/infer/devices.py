"""How many queries several GPUs answer in one process, compared with one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from threading import Barrier
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.core.statistics.comparison import median_interval
from trt_workbench.core.tolerance import deviation
from trt_workbench.engine import native
from trt_workbench.engine.loading import LoadedEngine, load_engine, read_plan
from trt_workbench.engine.several_devices import EnginesOnDevices
from trt_workbench.infer.settings import ROUNDS, InferRequest, MeasureSettings

_SHARE = 0.5  # of --duration, for each measurement of a round


def measure_devices(
    loaded: LoadedEngine, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings, request: InferRequest
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure the first GPU alone and all GPUs at once, in turn.

    Args:
        loaded: the engine on the first GPU, on which nothing else runs.
        inputs: of the engine, state included.
        settings: how to measure, and on which GPUs.
        request: says how outputs are compared and the engine is loaded.

    Returns:
        `devices` of `metrics.json`, and one record a measurement.

    Raises:
        CheckFailed: a GPU gave other outputs than the first.
        UsageProblem: the GPUs are of several types, or the plan has changed.
        DeviceFailure: a device failed or is out of memory.
    """
    options = {**settings.bench_options(request.profile), "duration_s": settings.duration_s * _SHARE}
    begin = Barrier(len(settings.devices))

    def queries_per_s(engine: LoadedEngine) -> float:
        with native.translated():
            result = native.require("bench")(engine.engine, dict(inputs), native.require("BenchOptions")(**options))
        return float(result.throughput_qps)

    def together(engine: LoadedEngine) -> float:
        begin.wait()
        return queries_per_s(engine)

    with EnginesOnDevices(settings.devices, _loader(loaded, request)) as engines:
        _check(engines, inputs, settings, request)
        alone, at_once = [], []
        for _ in range(ROUNDS):
            alone.append(engines.first(queries_per_s))
            at_once.append(engines.each(together))
        processors = [len(found) for found in engines.processors]
    totals = [sum(rates) for rates in at_once]
    metrics = {
        "devices": list(settings.devices),
        "processors": processors,
        "rounds": ROUNDS,
        "first_qps": asdict(median_interval(alone)),
        "throughput_qps": asdict(median_interval(totals)),
        "times_first": asdict(median_interval([total / one for total, one in zip(totals, alone, strict=True)])),
    }
    records = [
        {"schema_version": 1, "kind": "devices", "round": number, "devices": list(devices), "throughput_qps": rates}
        for number, (one, rates_at_once) in enumerate(zip(alone, at_once, strict=True))
        for devices, rates in ((settings.devices[:1], [one]), (settings.devices, rates_at_once))
    ]
    return metrics, records


def _loader(loaded: LoadedEngine, request: InferRequest) -> Callable[[int], LoadedEngine]:
    plan = read_plan(loaded.plan.path, trust=request.trust)
    if plan.sha256 != loaded.plan.sha256:
        raise UsageProblem(f"The plan changed on disk since it was loaded; start again: {plan.path}")

    def load(device: int) -> LoadedEngine:
        if device == request.device:
            return loaded
        return load_engine(
            plan,
            allow_host_code=request.allow_host_code,
            device=device,
            plugins=request.plugins,
            weight_streaming_budget=request.weight_streaming_budget,
        )

    return load


def _check(
    engines: EnginesOnDevices, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings, request: InferRequest
) -> None:
    """Raise CheckFailed where a GPU does not give what the first gives."""

    def outputs(engine: LoadedEngine) -> dict[str, NDArray[Any]]:
        with native.translated():
            options = native.require("RunnerOptions")(cuda_graph=settings.cuda_graph, profile=request.profile)
            runner = native.require("Runner")(engine.engine, options)
            try:
                return {name: np.array(array) for name, array in runner.run(dict(inputs)).items()}
            finally:
                runner.close()

    expected, *others = engines.each(outputs)
    for device, found in zip(engines.devices[1:], others, strict=True):
        for name, array in expected.items():
            result = deviation(found[name], array, request.rtol, request.atol)
            if not result.passed:
                raise CheckFailed(
                    f"GPU {device} gives another output {name} than GPU {engines.devices[0]}: {result.mismatches} of "
                    f"{result.elements} elements differ. {result.note}".rstrip()
                )
