"""Whether the backends of a matrix can serve here, each asked in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trt_workbench.backends.registry import check_name
from trt_workbench.bench.matrix import Point
from trt_workbench.bench.worker import TARGET
from trt_workbench.core.errors import ComponentMissing, UsageProblem, WorkbenchError
from trt_workbench.core.workers import WorkerFailure, WorkerProcess


def require_known(points: Iterable[Point]) -> None:
    """Raise UsageProblem if there is no backend of the name that a point asks for."""
    for backend in dict.fromkeys(point.backend for point in points):
        check_name(backend)


def unavailable_backends(backends: Iterable[str], log: Path, timeout_s: float) -> dict[str, WorkbenchError]:
    """Return why each backend that cannot serve here cannot, by name.

    Raises:
        UsageProblem: a backend is unknown.
    """
    reasons: dict[str, WorkbenchError] = {}
    for backend in dict.fromkeys(backends):
        with WorkerProcess(log, TARGET) as worker:
            try:
                answer = worker.ask({"verb": "availability", "backend": backend}, timeout_s)
            except WorkerFailure as failure:
                if isinstance(failure.error, UsageProblem):
                    raise failure.error from failure
                reasons[backend] = failure.error or ComponentMissing(str(failure))
                continue
        if not answer["available"]:
            reasons[backend] = ComponentMissing(f"{answer['reason']} {answer['fix']}".strip())
    return reasons


def require_available(reasons: Mapping[str, WorkbenchError]) -> None:
    """Raise ComponentMissing, or what asking it raised, if a backend of the matrix cannot serve here."""
    if reasons:
        name, reason = next(iter(reasons.items()))
        others = f" Also not available: {', '.join(list(reasons)[1:])}." if len(reasons) > 1 else ""
        raise type(reason)(
            f"Backend {name} is not available here: {reason}{others} --skip-unavailable skips them and lists them."
        )
