"""Trying what may crash in a worker process.

An engine that reads memory out of bounds can end the process, or kill its CUDA context: every later call in it
fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import DeviceFailure, DeviceLost, UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.core.kept import Note
from trt_workbench.core.stack import HERE, Stack
from trt_workbench.core.verification import Verification
from trt_workbench.core.workers import NO_LIMIT_S, TIMEOUT, WorkerFailure, Workers
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.verdicts import keep_verdict
from trt_workbench.verify.engine import PlanRequest
from trt_workbench.verify.keeping import crashed
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.settings import VerifySettings

_SETTINGS, _PREPARATION = TypeAdapter(VerifySettings), TypeAdapter(Preparation)
TARGET = "trt_workbench.verify.worker:Verifier"


class Crashed(DeviceFailure):
    """What was tried ended its process, killed its device context, or did not answer in time.

    Attributes:
        timed_out: whether no answer came in time.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Isolated(Workers):
    """Workers that try what may crash; failures are raised as errors."""

    def __init__(self, log: Path, stack: str | None = None) -> None:
        """Let workers print into `log`, and run in a stack where one is named."""
        super().__init__(log, TARGET, Stack.open(stack) if stack else None)

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            Crashed: the worker crashed, lost its device, or did not answer in time.
            DeviceFailure: the device is out of memory, or had another transient failure.
            UsageProblem, ComponentMissing, CheckFailed: as what was tried raised it.
            RuntimeError: what was tried failed in another way; the text says how.
        """
        try:
            return super().ask(request, timeout_s)
        except WorkerFailure as failure:
            if failure.error is not None and not isinstance(failure.error, DeviceLost):
                raise failure.error from failure
            if failure.alive and failure.error is None:
                raise RuntimeError(str(failure)) from failure
            raise Crashed(str(failure), timed_out=failure.kind == TIMEOUT) from failure


def check_stack(request: VerifyRequest, *, fix: bool) -> None:
    """Raise UsageProblem where the target cannot be verified in another stack, or the stack does not exist.

    In it, its own `ort-cpu` would be the reference, and what an upgrade changes there would be on both sides.
    """
    Stack.open(request.stack or HERE)
    if fix:
        raise UsageProblem("--fix cannot be combined with --stack; run it in the stack itself.")
    if not Path(request.reference).is_dir():
        raise UsageProblem("--stack needs the run directory of a --record as --reference.")


def document_of(request: VerifyRequest) -> dict[str, Any]:
    """Return a request without a budget as JSON values, but for paths, which become texts on the way."""
    assert request.budget is None
    # absolute, as a container may begin in another folder; with a stack the reference is a folder, too
    record = {"reference": str(Path(request.reference).absolute())} if request.stack else {}
    return {**asdict(request), "target": request.target.absolute(), **record}


def request_of(document: dict[str, Any]) -> VerifyRequest:
    """Return the request that `document_of` was given."""
    settings = vars(_SETTINGS.validate_python({**document, "budget": None}))
    preparation = _PREPARATION.validate_python(document["preparation"])
    return VerifyRequest(**settings, preparation=preparation, sizes_seed=document["sizes_seed"])


def verified_apart(
    request: VerifyRequest, folder: Path, note: Note = lambda _: None, earlier: Sequence[Path] = ()
) -> Verified:
    """Verify a target as `verify` does, in a worker: the device is untouched in this process.

    Raises:
        As `verify`, and Crashed where the process ended.
    """
    with scratch_folder("trtw-verify-") as scratch, Isolated(Path(scratch) / "log", request.stack) as worker:
        asked = {"request": document_of(request), "folder": folder, "earlier": [*map(str, earlier)]}
        answer = worker.ask({"verb": "target", **asked}, NO_LIMIT_S)
    for text in answer["notes"]:
        note(text)
    return TypeAdapter(Verified).validate_python(answer["found"])


def plan_verified_apart(request: PlanRequest, worker: Isolated, timeout_s: float = NO_LIMIT_S) -> Verification:
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
