"""Verifying a plan that was just built, or is about to be used: compared with its model on ort-cpu, within a budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from trt_workbench.core.directory import run_directory
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import DeviceLost, UsageProblem
from trt_workbench.core.kept import Note
from trt_workbench.core.verification import UNVERIFIED, WRONG, Shapes, Verification
from trt_workbench.engine.manifest import Manifest, read_manifest
from trt_workbench.engine.verdicts import keep_verdict, kept_verdict
from trt_workbench.verify.keeping import Mode, crashed, unverified, verdict_of
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify
from trt_workbench.verify.space import Budget
from trt_workbench.verify.verdict import loosest


@dataclass(frozen=True)
class PlanRequest:
    """A plan to verify.

    Attributes:
        plan: with its manifest.
        model: ONNX file that it was built from, or that this was converted from.
        mode: "quick" keeps to a budget; "full" tries everything.
        needed: input shapes that have to be tried.
        device: CUDA device.
    """

    plan: Path
    model: Path
    mode: Mode = "quick"
    needed: tuple[Shapes, ...] = ()
    device: int = 0


def verify_plan(request: PlanRequest, note: Note = lambda _: None, step: Note = lambda _: None) -> Verification:
    """Verify a plan, keep the figures in a run directory under tmp/verify/ and the verdict in the manifests.

    Whatever prevents verification is the reason of a verdict `unverified`, not an error: the engine may be correct.
    One that kills the device's context of this process is `wrong`. Bench verifies in a worker therefore; build-engine
    and eval-coco do it in their own process, where TensorRT is loaded already, as a wrong engine ends them anyway.

    Args:
        request: the plan.
        note: called with what the user should know.
        step: called with the label of every case before it runs.

    Raises:
        UsageProblem: the plan has no manifest, or a damaged one.
        OSError: the manifest cannot be written.
    """
    manifest = read_manifest(request.plan)
    if manifest is None:
        raise UsageProblem(f"The plan has no manifest to store a verdict in: {request.plan}")
    reason = _beyond(manifest)
    try:
        found = None if reason else _verified(request, manifest, note, step)
    except Exception as error:  # a defect of the verification is not one of the engine and must not end its build
        reason = str(error) if isinstance(error, UsageProblem) else f"{type(error).__name__}: {error}"
        found = crashed(manifest, request.mode, str(error), request.device) if isinstance(error, DeviceLost) else None
    if found is None:
        found = unverified(manifest, request.mode, reason, request.device)
    elif earlier := kept_verdict(manifest):
        found = _joined(found, earlier)
    keep_verdict(request.plan, found)
    return found


def verdict_of_build(request: PlanRequest, note: Note = lambda _: None, step: Note = lambda _: None) -> Verification:
    """Return the verdict on an engine that `build-engine` gives: the kept one, else that of `verify_plan`.

    A full or a wrong verdict is not replaced by a quick verification.

    Raises:
        As `verify_plan`.
    """
    kept = kept_verdict(read_manifest(request.plan))
    enough = kept and kept.verdict != UNVERIFIED and kept.mode in ("full", request.mode)
    return kept if kept and enough else verify_plan(request, note, step)


def _verified(request: PlanRequest, manifest: Manifest, note: Note, step: Note) -> Verification:
    started = time.monotonic()
    quick = request.mode == "quick"
    asked = VerifyRequest(
        target=request.plan,
        model=request.model,
        precision="+".join(manifest.precision),  # its layers do not show TF32
        # it was built here, or lies in the engine cache
        options={"allow_host_code": True} if manifest.options.get("version_compatible") else {},
        quick=quick,
        device=request.device,
        budget=Budget.of_build(manifest.build_s, request.needed) if quick else None,
    )
    with run_directory("verify") as run:
        found = verify(asked, run.path, note, step)
        write_json(run.path / "verify.json", found.document)
        directory = run.commit("complete", passed=not found.failures, verdict=found.document["verdict"])
    return verdict_of(found.document, wall_s=time.monotonic() - started, evidence=directory)


def _joined(found: Verification, earlier: Verification) -> Verification:
    """Return a verdict with the shapes of an earlier one of the same kind, which stay verified."""
    alike = all(getattr(found, name) == getattr(earlier, name) for name in ("mode", "model_sha256", "reference", "gpu"))
    if not alike or WRONG in (found.verdict, earlier.verdict):
        return found
    tried = [one.shapes for one in found.shapes]
    shapes = (*found.shapes, *(one for one in earlier.shapes if one.shapes not in tried))
    left = min(found.shapes_left, earlier.shapes_left)
    verdict = loosest(one.verdict for one in shapes if one.verdict != UNVERIFIED)
    return found.model_copy(update={"verdict": verdict, "shapes": shapes, "shapes_left": left})


# Row-major, and what the core packs row-major arrays into.
_FORMATS = {"linear", "hwc", "hwc8"}


def _differs(manifest: Manifest) -> bool:
    """Whether its tensors hold other numbers than the model's; inputs of another floating-point type hold the same."""
    options = manifest.options
    floats = {one.name for one in manifest.inputs if one.dtype.startswith(("float", "bfloat"))}
    formats = {word for words in options.get("io_formats", {}).values() for word in words}
    named = {*options.get("io_types", {}), *options.get("io_formats", {})}
    return bool(options.get("direct_io")) or not (named <= floats and formats <= _FORMATS)


def _beyond(manifest: Manifest) -> str:
    """Say why drawn inputs would prove nothing about an engine; empty where they do."""
    options = manifest.options
    if options.get("strip_weights"):
        return "it was built without weights; refit it first"
    if manifest.calibration_sha256:
        return "it was calibrated on data that random inputs do not resemble; verify it with --inputs DATA"
    if _differs(manifest):
        return "its inputs and outputs differ from those of the model (--io-type, --io-format, --direct-io)"
    if any("=" in profile for profile in manifest.profiles):
        return "its shapes depend on input values, which are not drawn at random; verify it with --inputs DATA"
    return ""
