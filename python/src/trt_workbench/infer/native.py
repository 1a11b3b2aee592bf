"""infer-engine on TensorRT itself: a plan, or a model whose engine is built or comes from the cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import ENGINES, require_backend
from trt_workbench.backends.trt.choice import RunnerChoice
from trt_workbench.backends.trt.inputs import engine_inputs
from trt_workbench.backends.trt.opening import whole_batches
from trt_workbench.backends.trt.session import TrtSession
from trt_workbench.core.counts import counted
from trt_workbench.core.settings import with_flags
from trt_workbench.engine import native
from trt_workbench.engine.loading import CheckedPlan, load_engine, read_plan
from trt_workbench.infer.settings import InferRequest, MeasureSettings, Note

if TYPE_CHECKING:
    from trt_workbench.infer.measured import Measurement


class NativeEngine:
    """An engine with its session, measured by the core's own bench.

    Attributes:
        backend: name of the backend.
        session: one slot, for calls from Python.
    """

    backend = ENGINES

    def __init__(self, request: InferRequest, session: TrtSession, free_before: int | None, waited_s: float) -> None:
        """Take the session over.

        Args:
            request: what is asked for.
            session: of the engine.
            free_before: the device's free memory before anything was loaded, bytes; None if unknown.
            waited_s: until that was known, which takes CUDA's context.
        """
        self.session, self._waited_s = session, waited_s
        self._request, self._loaded, self._free_before = request, session.loaded, free_before
        self._memory: dict[str, Any] | None = None

    def load_parts(self) -> dict[str, float]:
        """Return the seconds of what loading is made of."""
        loaded = self._loaded
        opened_s = self._waited_s + loaded.open_s
        return {"read": loaded.plan.read_s, "open": opened_s, "deserialise": loaded.deserialise_s}

    def random(self) -> dict[str, NDArray[Any]]:
        """Return inputs of the shapes asked for, else of those that the profile is tuned for."""
        asked = self._request
        return engine_inputs(
            self._loaded, self.session.inputs, asked.model, asked.seed, asked=asked.shapes, profile=asked.profile
        )

    def seconds(self, settings: MeasureSettings) -> float:
        """Return about how long measuring takes: queries, single calls from C++ and from Python, calls in rounds."""
        ways = 1 + 2 * len(settings.calls) if settings.calls else 0
        return settings.duration_s * (1 + 2 * settings.single_calls + ways)

    def measure(self, inputs: Mapping[str, NDArray[Any]], settings: MeasureSettings) -> Measurement:
        """Measure single calls, then queries, for which the session is closed: its memory is read before."""
        from trt_workbench.infer.queries import measure

        self._memory = self.memory()
        return measure(self._loaded, self.session, inputs, settings, self._request)

    def memory(self) -> dict[str, Any]:
        """Return the size of the plan, and what the engine takes on the device with one slot open."""
        if self._memory is not None:
            return self._memory
        found: dict[str, Any] = {
            "plan_bytes": self._loaded.plan.size_bytes,
            "context_scratch_bytes": self._loaded.engine.device_memory_bytes,
            "runner_bytes": self.session.memory_bytes(),
        }
        free_after = _free_bytes(self._request.device)
        if self._free_before is not None and free_after is not None:
            found["device_used_bytes"] = self._free_before - free_after
        return found


def open_native(request: InferRequest, say: Note) -> NativeEngine:
    """Load a plan, or build a model's engine and load that.

    Args:
        request: what is asked for.
        say: called with notes for the user.

    Raises:
        UsageProblem: the plan, the model or an option cannot be used.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device failed or is out of memory.
    """
    plan = None if request.is_model else read_plan(request.model, trust=request.trust)
    began = time.perf_counter()
    free_before = _free_bytes(request.device)
    waited_s = time.perf_counter() - began
    session = _from_plan(plan, request, say) if plan else _from_model(request, say)
    return NativeEngine(request, session, free_before, waited_s)


def _from_plan(plan: CheckedPlan, request: InferRequest, say: Note) -> TrtSession:
    loaded = load_engine(
        plan,
        allow_host_code=request.allow_host_code,
        device=request.device,
        plugins=request.plugins,
        weight_streaming_budget=request.weight_streaming_budget,
    )
    for text in loaded.notes:
        say(text)
    around = loaded.plan.manifest.way_around if loaded.plan.manifest else None
    if around and around.rows:
        say(
            f"This engine is correct only in calls of at most {counted(around.rows, 'row')}; "
            "infer-engine does not split larger ones."
        )
    return TrtSession(loaded, RunnerChoice(**_running(request)), 1)


def _from_model(request: InferRequest, say: Note) -> TrtSession:
    from trt_workbench.engine.profiles import fixed_profile

    own = {**_running(request), "trust": request.trust, "allow_host_code": request.allow_host_code}
    own["device"] = request.device
    if request.plugins:
        own["plugins"] = request.plugins
    if request.weight_streaming_budget is not None:
        own["weight_streaming_budget"] = request.weight_streaming_budget
    options = SessionOptions(
        precision=request.precision,
        extra=with_flags(request.options, own),
        shapes=fixed_profile(request.shapes),
        note=say,
    )
    return whole_batches(require_backend(request.backend, request.model.suffix).load(request.model, options))


def _running(request: InferRequest) -> dict[str, Any]:
    return {"cuda_graph": request.cuda_graph, "spin": request.spin, "profile": request.profile}


def _free_bytes(device: int) -> int | None:
    """Return the free memory of a device; None where there is none, which loading the engine will report in full."""
    try:
        return int(native.require("devices")(device)[0]["memory_free_bytes"])
    except Exception:  # whatever is missing here is missing for the engine too, and reported there
        return None
