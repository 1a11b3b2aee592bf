"""What runs in the process in which one point is loaded and measured."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

TARGET = "trt_workbench.bench.worker:Worker"


class Worker:
    """Answers requests; holds the loaded session and its scenario between them.

    `load` comes once, before any `measure` and `check`; or there is any number of `reference` and `rounding`.
    """

    def __init__(self) -> None:
        self._session: Any = None
        self._scenario: Any = None
        self._model: Path | None = None

    def close(self) -> None:
        """Release the session."""
        if self._session is not None:
            self._session.close()

    @staticmethod
    def availability(request: dict[str, Any]) -> dict[str, Any]:
        """Return whether a backend can serve here. Raises UsageProblem."""
        from trt_workbench.backends.registry import get_backend

        found = get_backend(request["backend"]).availability()
        return {"available": found.ok, "reason": found.reason, "fix": found.fix, "versions": dict(found.versions)}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load a point and run it once. Raises WorkbenchError."""
        from trt_workbench.backends.base import Session
        from trt_workbench.bench.matrix import point_from_dict
        from trt_workbench.bench.scenarios import load_model

        point, model = point_from_dict(request["point"]), Path(request["model"])
        graphs, contract = (Path(request[name]) if request[name] else None for name in ("graphs", "contract"))
        started = time.perf_counter()
        self._session = load_model(point, model, request["ranges"], graphs, contract)
        loaded = time.perf_counter()
        self._scenario = _scenario(self._session, point, request)
        ready = time.perf_counter()
        self._scenario.once()
        first = time.perf_counter()
        if isinstance(self._session, Session):
            self._session.require_native()
        return {
            "load_s": loaded - started,
            "first_run_ms": (first - ready) * 1000,
            "items": self._scenario.items,
            "shapes": self._scenario.shapes,
            "provenance": self._record(),
        }

    def _record(self) -> dict[str, Any]:
        """What executes the model; what it computes in is read once, outside of what is timed."""
        from trt_workbench.backends.base import Session

        session = self._session
        return session.record() if isinstance(session, Session) else dict(session.provenance)

    def measure(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure the point that is loaded. Raises WorkbenchError."""
        from trt_workbench.backends.measuring import SamplingLimits
        from trt_workbench.core.array_files import save_arrays

        samples = self._scenario.measure(SamplingLimits(**request["limits"]))
        columns = {"latency_ms": samples.latency_ms, **{f"{part}_ms": v for part, v in samples.split_ms.items()}}
        save_arrays(Path(request["samples"]), columns)
        # again, as it is after measuring: a CUDA graph is captured only once calls repeat
        return {"wall_s": samples.wall_s, "provenance": self._record()}

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the outputs of the point that is loaded with those of a file. Raises WorkbenchError."""
        from trt_workbench.bench import output_check
        from trt_workbench.bench.matrix import point_from_dict
        from trt_workbench.core.array_files import load_arrays

        point, model = point_from_dict(request["point"]), Path(request["model"])
        images = point.work.kind == "image-to-boxes"
        limit = output_check.tolerance(point.precision, model, tf32=point.tf32, images=images)
        expected = load_arrays(Path(request["reference"]))
        any_order = output_check.chooses(model)
        found = self._scenario.outputs()
        rounding = request.get("rounding")
        return {
            "outputs": output_check.compare_outputs(
                found, expected, limit, point.work.batch, any_order=any_order, rounding=rounding
            )
        }

    def reference(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the model of a work once and write its outputs; the session is kept for the next work of the model."""
        from trt_workbench.backends.registry import load_reference
        from trt_workbench.bench.matrix import point_from_dict
        from trt_workbench.bench.options import session_options
        from trt_workbench.core.array_files import save_arrays

        point, model = point_from_dict(request["point"]), Path(request["model"])
        if self._session is None or self._model != model:
            self.close()
            self._session, self._model = load_reference(model, session_options(point, model, {})), model
        scenario: Any = _scenario(self._session, point, request)
        save_arrays(Path(request["outputs"]), scenario.outputs())
        return {}

    @staticmethod
    def rounding(request: dict[str, Any]) -> dict[str, Any]:
        """Return the rounding error of each output of a point. Raises WorkbenchError."""
        return _rounding(request)


def _scenario(session: Any, point: Any, request: dict[str, Any]) -> Any:
    """Return the work of a point on a session. Raises UsageProblem."""
    from trt_workbench.backends.preparation import Preparation
    from trt_workbench.bench.scenarios import make_scenario

    contract = Path(request["contract"]) if request["contract"] else None
    preparation = Preparation(**request["preparation"])
    return make_scenario(session, Path(request["model"]), preparation, point.work, request["seed"], contract)


def _rounding(request: dict[str, Any]) -> dict[str, Any]:
    """Return the rounding error of each output in a point's precisions, on the point's own inputs."""
    import contextlib

    from trt_workbench.bench import output_check
    from trt_workbench.bench.matrix import point_from_dict
    from trt_workbench.core.array_files import load_arrays
    from trt_workbench.core.files import scratch_folder
    from trt_workbench.model.opened import Model
    from trt_workbench.verify import Yardstick

    point, model = point_from_dict(request["point"]), Path(request["model"])
    precision = output_check.rounds_in(point.precision, model, tf32=point.tf32)
    if precision is None:
        return {"rounding": {}}
    expected = load_arrays(Path(request["reference"]))
    limit = output_check.of_format(precision)
    any_order = output_check.chooses(model)
    with (
        scratch_folder() as folder,
        contextlib.closing(Yardstick(Model.open(model), folder, request["seed"])) as yardstick,
    ):
        made = []
        for session in yardstick.copies(precision):
            scenario: Any = _scenario(session, point, request)
            made.append(scenario.outputs())
    found = output_check.rounding_of(made, expected, limit, point.work.batch, any_order=any_order)
    return {"rounding": found}
