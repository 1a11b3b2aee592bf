"""The gate of a bench: engines are verified in a process of its own, before anything is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import WorkbenchError
from trt_workbench.core.verification import Mark, Shapes, Verification
from trt_workbench.verify.apart import plan_verified_apart
from trt_workbench.verify.engine import Note, PlanRequest
from trt_workbench.verify.gate import keep_agreement, refuse_wrong, require_verified
from trt_workbench.verify.isolation import Isolated
from trt_workbench.verify.unverified import Unverified

Check = Callable[[Mapping[str, Any], Path, Shapes | None, int], Mark | None]
"""From provenance, model, input shapes (None for a language model) and device to a mark; raises CheckFailed."""


@dataclass(frozen=True)
class BenchGate:
    """Lets engines pass that are verified at the shapes of their point.

    Language models have been compared with PyTorch, batch by batch, when their point is loaded; only what is known to
    be wrong is refused.

    Attributes:
        allows_unverified: let all engines pass, with a mark.
    """

    allows_unverified: bool = False

    @contextlib.contextmanager
    def opened(self, log: Path, timeout_s: float) -> Iterator[Check]:
        """Yield what checks engines; its process is started at the first engine that has no verdict."""
        with Isolated(log) as worker:

            def verify(request: PlanRequest, _: Note) -> Verification:
                try:
                    return plan_verified_apart(request, worker, timeout_s)
                except (WorkbenchError, RuntimeError) as error:
                    raise Unverified(f"The engine could not be verified: {error}; {request.plan}") from error

            def check(provenance: Mapping[str, Any], model: Path, shapes: Shapes | None, device: int) -> Mark | None:
                allow = self.allows_unverified
                if shapes is None:
                    refuse_wrong(provenance, allow_unverified=allow)
                    if provenance.get("agreement"):
                        keep_agreement(provenance)
                    marks = refuse_wrong(provenance, allow_unverified=allow)
                    return marks[0] if marks else None
                return require_verified(
                    provenance, model, [shapes], allow_unverified=allow, device=device, verify=verify
                )

            yield check
