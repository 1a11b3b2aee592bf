"""What a user's call of an engine costs, by where the arrays lie: the same inputs in turn, in five rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.device_arrays import TorchWork, torch_work
from trt_workbench.backends.measure.loop import measure_calls
from trt_workbench.backends.measuring import SamplingLimits
from trt_workbench.backends.trt.session import TrtSession
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.statistics.comparison import median_interval
from trt_workbench.core.tolerance import deviation
from trt_workbench.engine import native
from trt_workbench.infer.settings import ROUNDS, InferRequest, MeasureSettings

Arrays = dict[str, NDArray[Any]]

# A call is captured at its second use, and replayed from the third on.
_USES = 4
_IMAGE_RANK = 4
_STAGES = {"h2d": "host to device (device time)", "compute": "compute (device time)", "d2h": "device to host"}


@dataclass(frozen=True)
class CallWay:
    """One way to call an engine.

    Attributes:
        name: in records and `metrics.json`.
        label: for people.
        fill: puts values into the arrays that `call` passes.
        call: makes one call.
        outputs: makes arrays of ordinary memory of what `call` returned; None of work without the engine.
    """

    name: str
    label: str
    fill: Callable[[Mapping[str, NDArray[Any]]], None]
    call: Callable[[], Any]
    outputs: Callable[[Any], Arrays] | None = None


@dataclass(frozen=True)
class CallCosts:
    """What was found.

    Attributes:
        metrics: `user_calls` of `metrics.json`.
        records: one document a call.
    """

    metrics: dict[str, Any]
    records: list[dict[str, Any]]


class Caller:
    """Measures the ways that are asked for."""

    def __init__(self, session: TrtSession, inputs: Mapping[str, NDArray[Any]], request: InferRequest) -> None:
        """Have the session compute what every way must return.

        Args:
            session: of the engine; may be closed afterwards.
            inputs: by name.
            request: says which tolerances outputs are compared with, and on which device.

        Raises:
            UsageProblem: the inputs do not fit the engine.
        """
        self._session, self._request = session, request
        on_host = {tensor.name for tensor in session.loaded.engine.inputs if tensor.location == "host"}
        self._on_device = [name for name in inputs if name not in on_host]
        others = {name: _other(array) if name in self._on_device else array for name, array in inputs.items()}
        self._trials = [(values, session.run(values)) for values in (others, dict(inputs))]

    def measure(self, settings: MeasureSettings) -> CallCosts:
        """Measure in rounds, with no other session of the engine open.

        Raises:
            CheckFailed: a way gave other outputs than the session.
            DeviceFailure: the device failed or is out of memory.
        """
        limits = SamplingLimits(settings.warmup_ms / ROUNDS, settings.duration_s / ROUNDS, settings.iterations)
        stages: dict[str, list[float]] = {name: [] for name in _STAGES}
        medians: dict[str, list[float]] = {}
        called: dict[str, CallWay] = {}
        records: list[dict[str, Any]] = []
        left_out: dict[str, str] = {}
        for number in range(ROUNDS):
            record = {"schema_version": 1, "kind": "call", "round": number}
            for via, own in self._stages(limits):
                records.append({**record, "via": via, **own})
            for name in _STAGES:
                stages[name].append(float(np.median([one[f"{name}_ms"] for one in records if one["round"] == number])))
            with self._runner(timing=False) as runner:
                ways = list(self._ways(runner, settings.calls, left_out))
                for way in ways:
                    self._check(way)  # all of them first: some time work on what others gave
                first = number % max(len(ways), 1)  # no way always follows the same one
                for way in ways[first:] + ways[:first]:
                    times = measure_calls(way.call, limits).latency_ms
                    called[way.name] = way
                    medians.setdefault(way.name, []).append(float(np.median(times)))
                    records += [{**record, "via": way.name, "end_to_end_ms": value} for value in times.tolist()]
        found = [_figures(name, label, stages[name]) for name, label in _STAGES.items()]
        for name, way in called.items():
            found.append(_figures(name, way.label, medians[name]))
            if way.outputs is not None:
                above = [one - other for one, other in zip(medians[name], stages["compute"], strict=True)]
                found[-1]["above_compute_us"] = _interval(above)
        return CallCosts({"rounds": ROUNDS, "rows": found, "left_out": left_out}, records)

    @contextmanager
    def _runner(self, *, timing: bool) -> Iterator[Any]:
        runner = self._session.new_runner(timing=timing)
        try:
            yield runner
        finally:
            runner.close()

    def _stages(self, limits: SamplingLimits) -> Iterator[tuple[str, dict[str, float]]]:
        """Yield the device's times of single calls from the slot's own buffers."""
        with self._runner(timing=True) as runner:
            way = self._buffer(runner)[0]
            self._check(way)
            timings = []

            def call() -> None:
                way.call()
                timings.append(runner.timing())

            count = len(measure_calls(call, limits).latency_ms)
        for one in timings[-count:]:
            yield "events", {f"{name}_ms": getattr(one, f"{name}_ms") for name in _STAGES}

    def _check(self, way: CallWay) -> None:
        """Raise CheckFailed where a way does not give what the session gave."""
        if way.outputs is None:
            return
        for values, expected in self._trials:
            way.fill(values)
            for _ in range(_USES):
                found = way.outputs(way.call())
            for name, array in expected.items():
                result = deviation(found[name].view(array.dtype), array, self._request.rtol, self._request.atol)
                if not result.passed:
                    raise CheckFailed(
                        f"Calls in one way ({way.label}) give a wrong output {name}: {result.mismatches} of "
                        f"{result.elements} elements differ from those of an ordinary call. {result.note}".rstrip()
                    )

    def _ways(self, runner: Any, asked: tuple[str, ...], left_out: dict[str, str]) -> Iterator[CallWay]:
        for name in asked:
            found: list[CallWay] | str = getattr(self, f"_{name}")(runner)
            if isinstance(found, str):
                left_out[name] = found
            else:
                yield from found

    def _buffer(self, runner: Any) -> list[CallWay]:
        values = self._trials[0][0]
        arrays = {name: runner.input_buffer(name, values[name].shape) for name in self._on_device}
        return [self._of(runner, "buffer", "from the slot's own buffer", arrays)]

    def _numpy(self, runner: Any) -> list[CallWay]:
        return [self._host(runner, "numpy", "from ordinary numpy arrays", np.empty)]

    def _host(self, runner: Any, name: str, label: str, empty: Callable[..., NDArray[Any]]) -> CallWay:
        return self._of(runner, name, label, {k: empty(v.shape, v.dtype) for k, v in self._trials[0][0].items()})

    def _of(self, runner: Any, name: str, label: str, arrays: Arrays, **how: Any) -> CallWay:
        """Return a way to call with these arrays; inputs that they lack are passed as they are."""
        given: Arrays = {}

        def fill(values: Mapping[str, NDArray[Any]]) -> None:
            given.update(values)
            for key, array in arrays.items():
                array.view(values[key].dtype)[...] = values[key]
                given[key] = array

        return CallWay(name, label, fill, lambda: runner.run(given, **how), _copied)

    def _pinned(self, runner: Any) -> list[CallWay]:
        empty = native.require("pinned_empty")
        into = {name: empty(array.shape, array.dtype) for name, array in self._trials[0][1].items()}
        arrays = {name: empty(array.shape, array.dtype) for name, array in self._trials[0][0].items()}
        bits = {name: array.view(_bits(array.dtype)) for name, array in into.items()}
        return [
            self._host(runner, "pinned", "from page-locked arrays", empty),
            self._of(runner, "pinned_out", "from page-locked arrays into such", arrays, out=bits),
        ]

    def _view(self, runner: Any) -> list[CallWay] | str:
        shapes = {name: array.shape for name, array in self._trials[0][0].items()}
        arrays = {
            name: np.empty((n, h, w, c), self._trials[0][0][name].dtype).transpose(0, 3, 1, 2)
            for name, (n, c, h, w) in (
                (name, shapes[name]) for name in self._on_device if len(shapes[name]) == _IMAGE_RANK
            )
        }
        if not arrays:
            return "no input has four dimensions"
        way = self._of(runner, "view", "from views that have the channels last", arrays)
        copy = CallWay(
            "view_copy", "numpy's own copy of those", way.fill, lambda: [*map(np.ascontiguousarray, arrays.values())]
        )
        return [way, copy]

    def _torch(self, runner: Any) -> list[CallWay] | str:
        work = torch_work(self._request.device)
        return work if isinstance(work, str) else list(torch_ways(runner, work, self._on_device))


def torch_ways(runner: Any, work: TorchWork, on_device: list[str]) -> Iterator[CallWay]:
    """Yield calls on tensors, the same between work of PyTorch's, and that work alone."""
    given: dict[str, Any] = {}
    last: dict[str, Any] = {}

    def fill(values: Mapping[str, NDArray[Any]]) -> None:
        for name, array in values.items():
            if name not in on_device:
                given[name] = array
            elif name in given:
                given[name].copy_(work.tensor(array))
            else:
                given[name] = work.tensor(array)

    def call(inputs: dict[str, Any]) -> dict[str, Any]:
        found = runner.run(inputs, outputs=[], device_outputs=True, stream=work.stream())
        return {name: work.taken(array) for name, array in found.items()}

    def waited() -> dict[str, Any]:
        found = call(given)
        work.wait()
        return found

    def prepared() -> dict[str, Any]:
        return {name: work.before(value) if name in on_device else value for name, value in given.items()}

    def between() -> dict[str, Any]:
        last.clear()
        last.update(call(prepared()))
        work.after(last)
        return last

    def alone() -> None:
        prepared()
        work.after(last)

    yield CallWay("torch", "torch on the device, in and out", fill, waited, work.arrays)
    yield CallWay("torch_between", "torch before and after, a number read", fill, between, work.arrays)
    yield CallWay("torch_alone", "the work of torch alone", fill, alone)


def _other(array: NDArray[Any]) -> NDArray[Any]:
    """Return other values for an input; a call that returns what an earlier one left behind is then noticed.

    Floats and tables of integers are reversed. Other integers keep their order, which the model may need.
    """
    turned = array.ndim and (array.dtype.kind not in "iub" or array.ndim == 2)
    return np.ascontiguousarray(array[..., ::-1]) if turned else array


def _copied(found: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name: array.copy() for name, array in found.items()}


def _bits(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that the core has for a dtype: that of the bits of those that numpy lacks."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


def _figures(name: str, label: str, medians_ms: list[float]) -> dict[str, Any]:
    return {"name": name, "label": label, "time_us": _interval(medians_ms)}


def _interval(values_ms: list[float]) -> dict[str, float]:
    return asdict(median_interval([value * 1e3 for value in values_ms]))
