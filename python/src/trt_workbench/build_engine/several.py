"""Several builds of one request: each built and verified, all timed in turns and compared by layer; one is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.measuring import BRIEFLY
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.backends.trt.inputs import engine_inputs
from trt_workbench.backends.trt.opening import whole_engine
from trt_workbench.core.builds import BUILD, Builds, BuiltGroup, OneBuild
from trt_workbench.core.documents import read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Keep
from trt_workbench.core.verification import WRONG, Verification
from trt_workbench.engine import cache
from trt_workbench.engine.builder import BuiltEngine, PreparedBuild
from trt_workbench.engine.layer_choices import differences
from trt_workbench.engine.loading import CheckedPlan, read_plan
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.several_builds import several_builds
from trt_workbench.model.precision import precision_label
from trt_workbench.verify import VerifyFindings, largest_error

_TURNS = 9


@dataclass(frozen=True)
class SeveralBuilds:
    """What several builds are asked for.

    Attributes:
        count: of the builds.
        rule: which one is kept.
        build: makes one.
        verify: returns the verdict on a plan; None where none is wanted.
        say: called with what comes next.
        again: the command that goes on after an interrupt.
    """

    count: int
    rule: Keep
    build: Callable[[PreparedBuild], BuiltEngine]
    verify: Callable[[Path], Verification | None]
    say: Callable[[str], None]
    again: str

    def make(self, prepared: PreparedBuild) -> tuple[BuiltEngine, BuiltGroup]:
        """Return the engine that is kept, in the cache in the place of the request, and what is known of all.

        Raises:
            CheckFailed: all are wrong.
            KeyboardInterrupt: interrupted; its note says what is kept.
            Others as `engine.builder.build`.
        """
        made: dict[int, Path] = {}
        try:
            return self._make(prepared, made)
        except KeyboardInterrupt as error:
            if made:
                verb = "is" if len(made) == 1 else "are"
                error.add_note(
                    f"{len(made)} of {self.count} builds {verb} in the engine cache; {self.again} goes on from there."
                )
            raise

    def _make(self, prepared: PreparedBuild, made: dict[int, Path]) -> tuple[BuiltEngine, BuiltGroup]:
        with several_builds():
            for number in range(1, self.count + 1):
                request = _numbered(prepared, number)
                self.say(f"Build {number} of {self.count}")
                made[number] = self.build(request).path
        verdicts = {number: self.verify(plan) for number, plan in made.items()}
        wrong = {number for number, found in verdicts.items() if found is not None and found.verdict == WRONG}
        right = {number: plan for number, plan in made.items() if number not in wrong}
        self.say(f"Timing {len(right)} builds in turns")
        timed = _timed(right, prepared.model.path, prepared.settings)
        builds = Builds.chosen([_one(n, plan, timed.get(n), verdicts[n]) for n, plan in made.items()], self.rule)
        kept = _keep_build(prepared, read_plan(made[builds.require_kept()]), builds)
        layers, note = differences(made)
        return kept, BuiltGroup(label=prepared.model.path.name, builds=builds, layers=layers, note=note)


def _numbered(prepared: PreparedBuild, number: int) -> PreparedBuild:
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


def _keep_build(prepared: PreparedBuild, chosen: CheckedPlan, several: Builds) -> BuiltEngine:
    """Put one of several builds into the cache in the place of the request without a number. Raises OSError."""
    digest, made = prepared.key.digest(), read_manifest(chosen.path)
    assert made is not None  # it was just built
    options = prepared.settings.model_dump(mode="json")
    manifest = made.model_copy(update={"cache_key": digest, "options": options, "several": several})
    with cache.build_lock(digest, lambda: None):
        path = cache.store(digest, chosen.data, manifest)
    return BuiltEngine(replace(chosen, path=path, manifest=manifest), built=True)


def _one(number: int, plan: Path, timed: _Timed | None, found: Verification | None) -> OneBuild:
    manifest = read_manifest(plan)
    file = Path(found.evidence or "") / "verify.json" if found else None
    return OneBuild(
        number=number,
        engine_sha256=manifest.engine.sha256 if manifest else None,
        latency_ms=timed.latency_ms if timed else None,
        relative_l2=largest_error(read_document(file, VerifyFindings)) if file and file.is_file() else None,
        verdict=found.verdict if found else None,
        computes_in=timed.computes_in if timed else None,
    )


class _Timed(NamedTuple):
    latency_ms: float
    computes_in: str | None


def _timed(plans: Mapping[int, Path], model: Path, settings: BuildSettings) -> dict[int, _Timed]:
    """Return the median latency of each engine at its best-tuned shape, all in turns, and what it computes in."""
    extra: dict[str, Any] = {"device": settings.device, "plugins": settings.plugins}
    extra |= {"allow_host_code": True} if settings.version_compatible else {}
    found: dict[int, list[float]] = {number: [] for number in plans}
    with ExitStack() as stack:
        load = TrtBackend().load
        opened = {
            number: whole_engine(stack.enter_context(load(plan, SessionOptions(extra=extra))))
            for number, plan in plans.items()
        }
        inputs = {number: engine_inputs(one.loaded, one.inputs, model, 0) for number, one in opened.items()}
        order, turns = list(plans), random.Random(0)
        for _ in range(_TURNS):
            turns.shuffle(order)
            for number in order:
                found[number].append(float(median(opened[number].measure(inputs[number], BRIEFLY).latency_ms)))
        labels = {number: precision_label(one.record(), "text") for number, one in opened.items()}
    return {number: _Timed(median(times), labels[number]) for number, times in found.items()}
