"""The gate of a bench: engines are verified in a process of its own, before anything is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.bench.gate import Check, Shapes, Unverified
from trt_workbench.bench.worker_process import WorkerFailure, WorkerProcess
from trt_workbench.engine.verification import Verification
from trt_workbench.system.interpreter import python_command
from trt_workbench.verify.engine import Note, PlanRequest
from trt_workbench.verify.gate import keep_agreement, refuse_wrong, require_verified

COMMAND = tuple(python_command("-m", "trt_workbench.verify.worker"))


@dataclass(frozen=True)
class BenchGate:
    """Lets engines pass that are verified at the shapes of their point; it is what `bench.gate.Gate` asks for.

    Language models have been compared with PyTorch, batch by batch, when their point is loaded; only what is known to
    be wrong is refused.

    Attributes:
        allows_unverified: let all engines pass, with a mark.
    """

    allows_unverified: bool = False

    @contextlib.contextmanager
    def opened(self, log: Path, timeout_s: float) -> Iterator[Check]:
        """Yield what checks engines; its process is started at the first engine that has no verdict."""
        with contextlib.ExitStack() as stack:
            workers: list[WorkerProcess] = []

            def verify(request: PlanRequest, _: Note) -> Verification:
                if not workers:
                    workers.append(stack.enter_context(WorkerProcess(log, COMMAND)))
                asked = {"verb": "verify", "plan": str(request.plan), "model": str(request.model)}
                try:
                    answer = workers[0].ask({**asked, "needed": request.needed, "device": request.device}, timeout_s)
                except WorkerFailure as failure:
                    if not failure.alive:
                        workers.clear()
                    msg = f"The engine could not be verified: {failure}; {request.plan}"
                    raise Unverified(msg) from failure
                return Verification.model_validate(answer["verification"])

            def check(
                provenance: Mapping[str, Any], model: Path, shapes: Shapes | None, device: int
            ) -> dict[str, Any] | None:
                allow = self.allows_unverified
                if shapes is None:
                    refuse_wrong(provenance, allow_unverified=allow)
                    if provenance.get("agreement"):
                        keep_agreement(provenance)
                    marks = refuse_wrong(provenance, allow_unverified=allow)
                    return marks[0].document() if marks else None
                mark = require_verified(
                    provenance, model, [shapes], allow_unverified=allow, device=device, verify=verify
                )
                return mark.document() if mark else None

            yield check
