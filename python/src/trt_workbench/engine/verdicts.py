"""Keeping the verdict on an engine in its manifests: the one beside the plan, and that of the engine cache."""

from __future__ import annotations

from pathlib import Path

from trt_workbench.core.verification import UNVERIFIED, WRONG, Verification
from trt_workbench.engine import cache
from trt_workbench.engine.manifest import Manifest, read_manifest, write_manifest


def kept_verdict(manifest: Manifest | None) -> Verification | None:
    """Return the verdict that a manifest keeps, if it is one on the manifest's own engine."""
    found = manifest.verification if manifest else None
    return found if manifest and found and found.engine_sha256 == manifest.engine.sha256 else None


def keep_verdict(plan: Path, found: Verification) -> bool:
    """Write a verdict into the manifest next to `plan`, and into that of the engine cache if it holds the same engine.

    A verdict `wrong` stands until a verification against a reference says otherwise: properties do not show what
    is always wrong in the same way. `unverified` replaces only itself.

    Returns:
        Whether the manifest beside the plan keeps it now; not if it is absent or describes another engine.

    Raises:
        UsageProblem: the manifest is damaged.
        OSError: it cannot be written.
    """
    manifest = read_manifest(plan)
    if manifest is None or not _write(plan, found):
        return False
    cached = cache.cached_plan(manifest.cache_key)
    if cached is not None and cached.resolve() != plan.resolve():
        with cache.build_lock(manifest.cache_key, lambda: None):
            there = read_manifest(cached)
            # the same bytes are another engine where batches are split on the way to it
            if there is not None and there.way_around == manifest.way_around:
                _write(cached, found)
    return True


def _write(plan: Path, found: Verification) -> bool:
    manifest = read_manifest(plan)
    if manifest is None or manifest.engine.sha256 != found.engine_sha256:
        return False
    earlier = kept_verdict(manifest)
    weaker = earlier and (found.verdict == UNVERIFIED or (earlier.verdict == WRONG and found.reference is None))
    if weaker and earlier and earlier.verdict != UNVERIFIED:
        return False
    write_manifest(plan, manifest.model_copy(update={"schema_version": 2, "verification": found}))
    return True
