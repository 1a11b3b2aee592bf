"""The process in which a bench has an engine verified: `python -m trt_workbench.verify.worker`.

The reference, its copies and their threads are not in the processes that are measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trt_workbench.bench.worker import run_worker
from trt_workbench.verify.engine import PlanRequest, verify_plan


class Verifier:
    """Answers `verify` with the verdict on a plan."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict that the manifest keeps from now on. Raises as `verify_plan`."""
        asked = PlanRequest(
            Path(request["plan"]), Path(request["model"]), needed=tuple(request["needed"]), device=request["device"]
        )
        found = verify_plan(asked, lambda text: print(text, file=sys.stderr))  # noqa: T201 - into the worker's log
        return {"verification": found.model_dump(mode="json")}

    def close(self) -> None:
        """There is nothing to release."""


if __name__ == "__main__":
    run_worker(Verifier())
