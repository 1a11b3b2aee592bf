"""`trtw verify --fix`: workarounds for a wrong engine are tried, written and shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trt_workbench.console.common import note
from trt_workbench.console.progress import waiting
from trt_workbench.report.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trt_workbench.console.common import Parts
    from trt_workbench.core.verification import Verification
    from trt_workbench.verify.opening import VerifyRequest
    from trt_workbench.verify.outcome import Verified
    from trt_workbench.verify.workarounds import Fixed

FIX = "fix"


def run_fix(
    request: VerifyRequest,
    found: Verified | None,
    directory: Path,
    nodes: Sequence[str] = (),
    destination: Path | None = None,
) -> Fixed:
    """Try the ways, and write what became of them and what is right into the run directory, and to a destination."""
    from trt_workbench.core.documents import write_json
    from trt_workbench.verify.workarounds import fixed, result_name, write_fixed

    folder = directory / FIX
    folder.mkdir(exist_ok=True)
    with waiting("Trying workarounds") as update:
        tried = fixed(
            request,
            folder,
            nodes=nodes,
            found=found,
            note=note,
            step=lambda name: update(f"Workaround: {name}"),
        )
    if tried.chosen:
        for path in (folder / result_name(request), *([destination] if destination else [])):
            write_fixed(tried, request, path)
    write_json(folder / "fix.json", {"schema_version": 1, **tried.document()})
    return tried


def fix_build(wrong: Verification, plan: Path, model: Path, destination: Path | None, *, device: int) -> Path:
    """Build the first engine that is right in place of a wrong one, and verify it in turn.

    Args:
        wrong: the verdict on the plan, with its evidence.
        plan: that was built.
        model: it was built from.
        destination: where the right plan is to be written; None for the run directory of the verification.
        device: CUDA device.

    Returns:
        The plan that is right.

    Raises:
        CheckFailed: no workaround fixes it.
    """
    from trt_workbench.core.files import scratch_folder
    from trt_workbench.verify.engine import PlanRequest, verify_plan
    from trt_workbench.verify.isolation import Isolated, plan_verified_apart
    from trt_workbench.verify.opening import VerifyRequest
    from trt_workbench.verify.workarounds import require_chosen, result_name

    if not (wrong.evidence and Path(wrong.evidence).is_dir()):
        wrong = verify_plan(PlanRequest(plan, model, device=device))
    directory = Path(str(wrong.evidence))
    request = VerifyRequest(target=plan, model=model, quick=True, device=device)
    require_chosen(run_fix(request, None, directory, destination=destination), plan)
    right = destination or directory / FIX / result_name(request)
    with scratch_folder("trtw-verify-") as scratch, Isolated(Path(scratch) / "log") as worker:
        plan_verified_apart(PlanRequest(right, model, device=device), worker)  # the wrong one may have crashed this one
    return right


def shown_fixed(tried: Fixed, directory: Path) -> Parts:
    """Return what was tried and what was taken."""
    from trt_workbench.verify.report import WORKAROUNDS

    left, plain = ", ".join(tried.left), tried.plain_milliseconds
    not_tried = f"Not tried, time limit reached: {left or 'none'}" if tried.time_over else ""
    return [
        f"Workarounds (latency of the wrong engine: {'-' if plain is None else f'{plain:.3f} ms'}):",
        Table(WORKAROUNDS, tried.document()["tried"]),
        not_tried or (left and f"Not tried, as one is correct: {left}"),
        f"Fixed by {tried.chosen.name}: {directory / FIX}" if tried.chosen else "",
    ]
