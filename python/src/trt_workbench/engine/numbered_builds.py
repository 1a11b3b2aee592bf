"""One request built several times: each build has a number, an empty timing cache and a place in the engine cache."""

from __future__ import annotations

from dataclasses import replace

from trt_workbench.core.builds import BUILD, Builds
from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine import cache
from trt_workbench.engine.builder import BuiltEngine, PreparedBuild
from trt_workbench.engine.loading import CheckedPlan
from trt_workbench.engine.manifest import read_manifest


def numbered(prepared: PreparedBuild, number: int) -> PreparedBuild:
    """Return what makes one of several builds of a request.

    Raises:
        UsageProblem: the request names a number or a timing cache, which would make the builds alike.
    """
    if prepared.settings.build_number is not None:
        raise UsageProblem("Several builds have numbers of their own; leave out the build number.")
    if prepared.settings.timing_cache is not None:
        raise UsageProblem(
            "Several builds start from empty timing caches; leave out the timing cache: "
            f"{prepared.settings.timing_cache}"
        )
    settings = prepared.settings.model_copy(update={BUILD: number})
    key = replace(prepared.key, options=settings.key_fields())
    cached = cache.cached_plan(key.digest()) if key.is_complete else None
    return replace(prepared, settings=settings, key=key, cached=cached)


def keep_build(prepared: PreparedBuild, chosen: CheckedPlan, several: Builds) -> BuiltEngine:
    """Put one of several builds into the cache in the place of the request without a number. Raises OSError."""
    digest, made = prepared.key.digest(), read_manifest(chosen.path)
    assert made is not None  # it was just built
    options = prepared.settings.model_dump(mode="json")
    manifest = made.model_copy(update={"cache_key": digest, "options": options, "several": several})
    with cache.build_lock(digest, lambda: None):
        path = cache.store(digest, chosen.data, manifest)
    return BuiltEngine(replace(chosen, path=path, manifest=manifest), built=True)
