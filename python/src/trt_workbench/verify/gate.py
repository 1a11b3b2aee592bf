"""The gate before a TensorRT engine is measured or scored: it has to be verified at the shapes that are used.

Other runtimes pass: bench and the evaluations compare their outputs or scores with those of a reference.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.core.errors import CheckFailed, WorkbenchError
from trt_workbench.core.launcher import task
from trt_workbench.core.verification import UNVERIFIED, WRONG, Mark, Shapes, Verification
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.verdicts import keep_verdict, kept_verdict
from trt_workbench.model.opened import sha256_of
from trt_workbench.verify.settings import MODEL_SUFFIX

if TYPE_CHECKING:
    from trt_workbench.core.kept import Note
    from trt_workbench.verify.engine import PlanRequest

ALLOW = "--allow-unverified"


class Unverified(CheckFailed):
    """An engine was not verified; it may be correct."""


def let_through(marks: Iterable[Mark | None]) -> list[str]:
    """Return the warning above all figures: engines that passed only because of --allow-unverified.

    Args:
        marks: `verification` of records and metrics.
    """
    allowed = {(one["engine"], one["text"]) for one in marks if one and one["allowed"]}
    return [f"Not verified, accepted by {ALLOW}: {engine} is {text}." for engine, text in sorted(allowed)]


Verify = Callable[["PlanRequest", "Note"], Verification]


@dataclass(frozen=True)
class Engine:
    """An engine that a session has loaded.

    Attributes:
        plan: its file.
        sha256: of the bytes that were loaded.
        gpu: that it runs on.
        has_manifest: whether the plan was loaded by a manifest of its own.
    """

    plan: Path
    sha256: str
    gpu: str
    has_manifest: bool


def engines(provenance: Mapping[str, Any]) -> list[Engine]:
    """Return the engines in the provenance of a session, or of several in one; empty where none is TensorRT's."""
    found = [engine for value in provenance.values() if isinstance(value, Mapping) for engine in engines(value)]
    if "plan_sha256" not in provenance:
        return found
    own = provenance
    known = own.get("manifest") is not None
    return [Engine(Path(own["plan"]), own["plan_sha256"], str(own["gpu"]), known), *found]


def require_verified(
    provenance: Mapping[str, Any],
    model: Path,
    needed: Sequence[Shapes],
    *,
    allow_unverified: bool = False,
    device: int = 0,
    note: Note = lambda _: None,
    verify: Verify | None = None,
) -> Mark | None:
    """Accept an engine verified at the shapes in use; one built from a model is verified now if it is not yet.

    Args:
        provenance: of the session.
        model: that the session was asked for: a plan, or the ONNX model that its engine was built from.
        needed: input shapes that are used.
        allow_unverified: accept every engine, with a mark.
        device: CUDA device.
        note: called with what the user should know.
        verify: verifies a plan; by default `verify_plan`.

    Returns:
        What to record; None for a session that is none of TensorRT.

    Raises:
        CheckFailed: the engine is wrong.
        Unverified: it is not verified at these shapes.
    """
    found = engines(provenance)
    if not found:
        return None
    engine, is_model = found[0], model.suffix == MODEL_SUFFIX
    kept = _kept(engine)
    problem = _problem(kept, engine, needed, sha256_of(model) if is_model else None)
    if problem and not allow_unverified and is_model and engine.has_manifest and not _is_wrong(kept):
        from trt_workbench.verify.engine import PlanRequest, verify_plan

        note(f"Verifying the engine against {model.name} on ort-cpu.")
        kept = (verify or verify_plan)(PlanRequest(engine.plan, model, needed=tuple(needed), device=device), note)
        problem = _problem(kept, engine, needed, None)
    if problem and not allow_unverified:
        is_wrong = _is_wrong(kept)
        raise (CheckFailed if is_wrong else Unverified)(_refusal(problem, engine, model, is_wrong=is_wrong))
    return _mark(kept, engine, problem)


def refuse_wrong(provenance: Mapping[str, Any], *, allow_unverified: bool = False) -> list[Mark]:
    """Reject engines known to be wrong: for commands that compare every result with PyTorch themselves.

    Args:
        provenance: of the model, with one session or several.
        allow_unverified: accept every engine, with a mark.

    Returns:
        A mark for each engine.

    Raises:
        CheckFailed: an engine is wrong.
    """
    marks = []
    for engine in engines(provenance):
        kept = _kept(engine)
        problem = _problem(kept, engine, (), None) if _is_wrong(kept) else ""
        if problem and not allow_unverified:
            raise CheckFailed(_refusal(problem, engine, engine.plan, is_wrong=True))
        marks.append(_mark(kept, engine, problem))
    return marks


def keep_agreement(provenance: Mapping[str, Any], evidence: Path | None = None) -> None:
    """Record that a language model agreed with PyTorch in the manifests of engines that have no verdict yet.

    Args:
        provenance: of the model, with one session or several.
        evidence: the run directory that holds the agreement.

    Raises:
        OSError: a manifest cannot be written.
    """
    from trt_workbench.verify.keeping import agreed

    for engine in engines(provenance):
        manifest, kept = read_manifest(engine.plan) if engine.has_manifest else None, _kept(engine)
        if manifest is not None and (kept is None or kept.verdict == UNVERIFIED):
            keep_verdict(engine.plan, agreed(manifest, evidence))


def _kept(engine: Engine) -> Verification | None:
    """Return the verdict on the very bytes that were loaded, as the manifest has it now."""
    kept = kept_verdict(read_manifest(engine.plan)) if engine.has_manifest else None
    return kept if kept and kept.engine_sha256 == engine.sha256 else None


def _is_wrong(kept: Verification | None) -> bool:
    return kept is not None and kept.verdict == WRONG


def _problem(kept: Verification | None, engine: Engine, needed: Sequence[Shapes], model_sha256: str | None) -> str:
    """Return what a verdict lacks; empty where the engine passes."""
    if kept is None:
        return f"{UNVERIFIED}: {'its manifest has no verdict' if engine.has_manifest else 'it has no manifest'}"
    if kept.verdict in (WRONG, UNVERIFIED):
        return f"{kept.verdict}: {kept.reason}"
    if kept.gpu != engine.gpu:
        return f"{UNVERIFIED} here: it was verified on {kept.gpu}, this GPU is {engine.gpu}"
    if model_sha256 and kept.model_sha256 and kept.model_sha256 != model_sha256:
        return f"{UNVERIFIED}: it was verified against another model"
    if missing := [shapes for shapes in needed if not kept.covers(shapes)]:
        shown = ", ".join(f"{name} {list(shape)}" for name, shape in missing[0].items())
        return f"{UNVERIFIED} at the shapes in use ({shown})"
    return ""


def _refusal(problem: str, engine: Engine, model: Path, *, is_wrong: bool) -> str:
    plan = shlex.quote(str(engine.plan))
    if is_wrong:
        fix = f"Locate the fault with {task('verify', plan, '--bisect')}, find a workaround with `--fix`"
    else:
        source = shlex.quote(str(model)) if model.suffix == MODEL_SUFFIX else "MODEL.onnx"
        fix = f"Verify it with {task('verify', plan, '--model', source)}"
    return f"The engine is {problem.removesuffix('.')}. {fix}, or pass {ALLOW}: {engine.plan}"


def _mark(kept: Verification | None, engine: Engine, problem: str) -> Mark:
    # what is wrong stays so; what lacks a shape is unverified, whatever it is elsewhere
    verdict = WRONG if _is_wrong(kept) else UNVERIFIED if problem else kept.verdict if kept else UNVERIFIED
    text = problem or (kept.text if kept else f"{UNVERIFIED}: its manifest has no verdict")
    evidence = kept.evidence if kept else None
    return Mark(
        engine=engine.plan.name,
        engine_sha256=engine.sha256,
        verdict=verdict,
        text=text,
        evidence=evidence,
        allowed=bool(problem),
    )


Check = Callable[[Mapping[str, Any], Path, Shapes | None, int], Mark | None]
"""From provenance, model, input shapes (None for a language model) and device to a mark; raises CheckFailed."""


@dataclass(frozen=True)
class BenchGate:
    """Accepts engines verified at the shapes of their point.

    Language models have been compared with PyTorch, batch by batch, when their point is loaded; only what is known to
    be wrong is refused.

    Attributes:
        allows_unverified: accept all engines, with a mark.
    """

    allows_unverified: bool = False

    @contextlib.contextmanager
    def opened(self, log: Path, timeout_s: float) -> Iterator[Check]:
        """Yield what checks engines; its process is started at the first engine that has no verdict."""
        from trt_workbench.verify.isolation import Isolated, plan_verified_apart

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
