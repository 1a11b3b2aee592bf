"""From what a verification found to the verdict that an engine's manifest keeps."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from trt_workbench import __version__
from trt_workbench.backends.registry import backend_names, get_backend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_bytes
from trt_workbench.core.precision import coarsest
from trt_workbench.core.verification import UNVERIFIED, WRONG, Verification, VerifiedShapes
from trt_workbench.engine.manifest import Manifest
from trt_workbench.engine.target import examine_target
from trt_workbench.engine.verdicts import keep_verdict
from trt_workbench.model.opened import sha256_of
from trt_workbench.verify.verdict import FINEST, RIGHT

Mode = Literal["quick", "full"]


def verdict_of(document: Mapping[str, Any], *, wall_s: float = 0.0, evidence: Path | None = None) -> Verification:
    """Return the verdict on a plan that `verify` found.

    Args:
        document: of a plan on the backend `trt`, as verify.json holds it.
        wall_s: how long it took.
        evidence: the run directory that holds it.
    """
    ran, reference = document["provenance"], document["reference"]
    model = document["model"] if reference else None
    known = get_backend(reference).availability().versions if reference in backend_names() else {}
    return Verification(
        verdict=document["verdict"],
        reason=document["failures"][0] if document["failures"] else "",
        mode="quick" if document["quick"] else "full",
        engine_sha256=ran["plan_sha256"],
        model_sha256=sha256_of(Path(model)) if model else None,
        reference=reference,
        precision=document["precision"],
        inputs=None if document["inputs"] is None else tuple(document["inputs"]),
        seed=document["seed"],
        shapes=tuple(
            VerifiedShapes(
                shapes={name: tuple(dims) for name, dims in case["shapes"].items()},
                verdict=case["verdict"],
                inputs_sha256=_inputs(case),
            )
            for case in document["cases"]
        ),
        shapes_left=document["cases_left"],
        gpu=ran["gpu"],
        tensorrt_version=ran["tensorrt"],
        driver_version=ran["driver"],
        workbench_version=__version__,
        reference_version=", ".join(f"{name} {version}" for name, version in known.items()) or None,
        verified_at=_now(),
        wall_s=wall_s,
        evidence=str(evidence) if evidence else None,
    )


def keep_found(document: Mapping[str, Any], evidence: Path) -> None:
    """Store the result of `verify` in the manifest of the engine that it ran, if there is one that describes it.

    Raises:
        OSError: the manifest cannot be written.
    """
    if "plan_sha256" in document["provenance"]:  # no other runtime has it
        with suppress(UsageProblem):  # of a plan that was trusted beside a damaged manifest
            keep_verdict(Path(document["provenance"]["plan"]), verdict_of(document, evidence=evidence))


def unverified(manifest: Manifest, mode: Mode, reason: str, device: int = 0) -> Verification:
    """Return that an engine could not be verified, and why."""
    return Verification(verdict=UNVERIFIED, reason=reason, mode=mode, **_here(manifest, device))


def crashed(manifest: Manifest, mode: Mode, reason: str, device: int = 0) -> Verification:
    """Return that an engine is wrong, as it crashed before it could be verified."""
    return Verification(verdict=WRONG, reason=f"it crashed: {reason}", mode=mode, **_here(manifest, device))


def agreed(manifest: Manifest, evidence: Path | None) -> Verification:
    """Return that the engine of a language model gave the logits and tokens of PyTorch in fp32."""
    loosest = coarsest(manifest.precision).name
    return Verification(
        verdict=RIGHT if loosest == FINEST else f"{RIGHT} within {loosest}",
        mode="agreement",
        reference="torch",
        precision=loosest,
        evidence=str(evidence) if evidence else None,
        **_here(manifest, 0),
    )


def _here(manifest: Manifest, device: int) -> dict[str, Any]:
    target = examine_target(device)
    return {
        "engine_sha256": manifest.engine.sha256,
        "gpu": target.gpu_name or "",
        "tensorrt_version": target.tensorrt_version or "",
        "driver_version": target.driver_version,
        "workbench_version": __version__,
        "verified_at": _now(),
    }


def _inputs(case: Mapping[str, Any]) -> str | None:
    """Return a hash over the sets of inputs that a case was given."""
    digests = dict.fromkeys(row["inputs_sha256"] for row in case["outputs"])
    return hash_bytes("".join(digests).encode()) if digests else None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
