"""Trying one workaround: built, verified at all shapes and timed. A worker does it, as the engine may crash."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.measure.inputs import random_inputs
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.verification import WRONG
from trt_workbench.verify.data import Data, at
from trt_workbench.verify.opening import Opened, VerifyRequest
from trt_workbench.verify.outcome import Verified, failed_shapes
from trt_workbench.verify.run import verify

_WARM_UP, _CALLS, _MOST_S = 5, 50, 2.0

Note = Callable[[str], None]


def judged(request: VerifyRequest, note: Note = lambda _: None) -> dict[str, Any]:
    """Return `verdict`, `reason` (why it is not correct), `milliseconds` and `plan` of a `WorkaroundResult`.

    Raises:
        As `verify` and `milliseconds`.
    """
    result = _verified(replace(request, quick=True), note)
    if not request.quick and not _why_wrong(result):
        result = _verified(request, note)
    reason = _why_wrong(result)
    plan = result.document["provenance"].get("plan") if request.runs_plans else None
    took = None if reason else milliseconds(request, note)
    return {"verdict": str(result.document["verdict"]), "reason": reason, "milliseconds": took, "plan": plan}


def milliseconds(request: VerifyRequest, note: Note = lambda _: None) -> float:
    """Return the median of a call at the best shape, from host arrays to host arrays.

    Raises:
        UsageProblem: a file or option cannot be used, or the shape does not run.
        ComponentMissing: the backend cannot serve here.
        DeviceFailure: the device failed.
    """
    with Opened(replace(request, reference="none"), note) as opened:
        inputs = best_inputs(request, opened)
        times: list[float] = []
        end = time.perf_counter() + _MOST_S
        while len(times) < _WARM_UP + 1 or (len(times) < _CALLS and time.perf_counter() < end):
            start = time.perf_counter()
            opened.session.run(inputs)
            times.append(time.perf_counter() - start)
    return statistics.median(times[_WARM_UP:]) * 1e3


def best_inputs(request: VerifyRequest, opened: Opened) -> dict[str, NDArray[Any]]:
    """Return inputs at the best shape: drawn, or the first of the request's own."""
    specs, space = opened.inputs, opened.spaces[0]
    if not request.inputs:
        return random_inputs(specs, space.case({}).shapes, request.seed)
    fitting, samples = Data(request.inputs, specs, opened.graph, request.preparation, request.split).spaces(space)[0]
    return at(samples, fitting, fitting.case({}), 0)


def _verified(request: VerifyRequest, note: Note) -> Verified:
    with scratch_folder("trtw-fix-") as scratch:  # the arrays of failures are not needed
        return verify(request, Path(scratch), note)


def _why_wrong(result: Verified) -> str:
    if result.failures:
        return result.failures[0]
    return "; ".join(failed_shapes(result.document)) or ("" if result.document["verdict"] != WRONG else WRONG)
