"""New weights for an engine without a new build: from an ONNX model of the same structure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import anything, write_bytes
from trt_workbench.core.hashing import hash_bytes
from trt_workbench.engine import native
from trt_workbench.engine.loading import CheckedPlan, load_checked
from trt_workbench.engine.manifest import EngineFile, Manifest, ModelFile, check_destination, write_manifest
from trt_workbench.model.opened import Model


def refit_plan(
    plan: CheckedPlan, model: Model, destination: Path, *, device: int = 0, plugins: Sequence[Path] = ()
) -> Manifest:
    """Write a plan with the weights of `model`, and its manifest.

    Args:
        plan: a refittable engine with its manifest, from `read_plan`.
        model: of the structure that the engine was built from.
        destination: the new plan.
        device: index of the CUDA device.
        plugins: plugin libraries to load first; those that the manifest names must be among them.

    Returns:
        The new plan's manifest.

    Raises:
        UsageProblem: the plan is not refittable, the model does not fit it, or this TensorRT (8.6) cannot refit; or the
            new plan would replace the model.
        ComponentMissing: the native core, TensorRT or the GPU is absent.
        DeviceFailure: the device is out of memory or failed.
        OSError: the new plan cannot be written.
    """
    made = plan.manifest
    if made is None:
        raise UsageProblem(f"A plan without a matching manifest cannot be refitted; build it again: {plan.path}")
    check_destination(destination, model.files)
    loaded = load_checked(plan, device=device, plugins=plugins)
    with native.translated():
        data: bytes = native.require("refit")(loaded.engine, model=str(model.path))
    model.require_unchanged()
    refitted = ModelFile(
        file=model.path.name,
        sha256=model.sha256,
        size_bytes=model.size_bytes,
        external_files=model.facts.external_locations,
        metadata=model.facts.metadata,
    )
    changed = {
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "engine": EngineFile(sha256=hash_bytes(data), size_bytes=len(data)),
        "model": refitted,
        "options": {**made.options, "strip_weights": False},
        "verification": None,  # of other weights
    }
    manifest = made.model_copy(update=changed)
    write_bytes(destination, data, over=anything)
    write_manifest(destination, manifest)
    return manifest
