"""Verifying a target or a plan in a worker, so that nothing it does to a process or device is done to this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter

from trt_workbench.core.files import scratch_folder
from trt_workbench.core.verification import Verification
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.verdicts import keep_verdict
from trt_workbench.verify.engine import PlanRequest
from trt_workbench.verify.isolation import Crashed, Isolated, document_of
from trt_workbench.verify.keeping import crashed
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import Verified

# A verification at all shapes has no limit of its own.
_NO_LIMIT_S = 7 * 24 * 3600.0

Note = Callable[[str], None]


def verified_apart(request: VerifyRequest, folder: Path, note: Note = lambda _: None) -> Verified:
    """Verify a target as `verify` does, in a worker: the device is untouched in this process.

    Raises:
        As `verify`, and Crashed where the process ended.
    """
    with scratch_folder("trtw-verify-") as scratch, Isolated(Path(scratch) / "log") as worker:
        answer = worker.ask({"verb": "target", "request": document_of(request), "folder": folder}, _NO_LIMIT_S)
    for text in answer["notes"]:
        note(text)
    return TypeAdapter(Verified).validate_python(answer["found"])


def plan_verified_apart(request: PlanRequest, worker: Isolated, timeout_s: float = _NO_LIMIT_S) -> Verification:
    """Verify a plan as `verify_plan` does, in a worker; one that ends it is wrong, and its manifest says so.

    Raises:
        Crashed: no answer came in time.
        As `verify_plan`.
    """
    asked = {"verb": "verify", "plan": request.plan, "model": request.model, "needed": request.needed}
    try:
        answer = worker.ask({**asked, "device": request.device}, timeout_s)
    except Crashed as error:
        manifest = read_manifest(request.plan)
        if error.timed_out or manifest is None:
            raise
        found = crashed(manifest, request.mode, str(error), request.device)
        keep_verdict(request.plan, found)
        return found
    return Verification.model_validate(answer["verification"])
