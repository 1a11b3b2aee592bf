"""Several builds of one request, each without the kernel timings of the others: how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Literal

from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.documents import Strict, read_document
from trt_workbench.core.errors import CheckFailed
from trt_workbench.core.percent import share
from trt_workbench.core.settings import Keep, Setting
from trt_workbench.core.verification import WRONG

BUILD = "build_number"
"""Option of a build that makes it one of several: it starts from an empty timing cache, and is cached by its number."""

_LONGEST_REASON = 160  # characters in a sentence about all builds; `OneBuild.reason` has the rest


class OneBuild(Strict):
    """One build; None for what was not measured.

    Attributes:
        number: from 1.
        engine_sha256: of the plan.
        latency_ms: median of a call over repetitions, in which all builds took turns.
        relative_l2: largest distance of an output from the reference.
        verdict: of its verification, or of the outputs compared where it was timed: "matched" or "far".
        score: on the data.
        computes_in: what its layers compute in, with shares.
        reason: why it has no figures, or no latency.
    """

    number: Annotated[int, Setting(min=1)]
    engine_sha256: str | None = None
    latency_ms: float | None = None
    relative_l2: float | None = None
    verdict: str | None = None
    score: float | None = None
    computes_in: str | None = None
    reason: str | None = None

    @property
    def outcome(self) -> str | None:
        """Its verdict, or "failed" where that is why it has none; None where nothing is known."""
        return self.verdict or ("failed" if self.reason else None)


class Builds(Strict):
    """All builds of a request, each from an empty timing cache.

    Attributes:
        builds: in the order of their numbers.
        kept: number of the one that stands for all; None where none could be measured.
        rule: by which it was chosen: "median" is the slower of the two in the middle of an even number.
    """

    builds: tuple[OneBuild, ...]
    kept: int | None = None
    rule: Keep = "median"

    @classmethod
    def chosen(cls, builds: Sequence[OneBuild], rule: Keep = "median") -> Builds:
        """Return builds with the one that a rule chooses; wrong ones are never chosen."""
        right = [one for one in builds if one.verdict != WRONG and one.latency_ms is not None]
        order = sorted(right, key=lambda one: one.latency_ms or 0.0)
        place = 0 if rule == "fastest" else len(order) // 2
        return cls(builds=tuple(builds), kept=order[place].number if order else None, rule=rule)

    @property
    def spread(self) -> float | None:
        """By what share the slowest takes longer than the fastest; None unless two were measured."""
        times = [one.latency_ms for one in self.builds if one.latency_ms is not None]
        return max(times) / min(times) - 1 if len(times) > 1 else None

    @property
    def words(self) -> str:
        """All of it in a sentence without a full stop."""
        parts = []
        if times := _range([one.latency_ms for one in self.builds], ".3f"):
            apart = "" if self.spread is None else f" ({share(self.spread, 1)} apart)"
            parts.append(f"{times} ms{apart}")
        if errors := _range([one.relative_l2 for one in self.builds], ".1e"):
            parts.append(f"outputs {errors} from the reference (relative L2)")
        if scores := _range([one.score for one in self.builds], ".4f"):
            parts.append(f"score {scores}")
        plans = [one.engine_sha256 for one in self.builds if one.engine_sha256]
        if plans and len(set(plans)) < len(plans):
            parts.append(f"{len(set(plans))} different plans" if len(set(plans)) > 1 else "all plans are equal")
        if wrong := [one.number for one in self.builds if one.verdict == WRONG]:
            parts.append(f"WRONG: {', '.join(map(str, wrong))}")
        if self.missing:
            parts.append(self.missing)
        there = sum(any((one.latency_ms, one.engine_sha256, one.verdict, one.score is not None)) for one in self.builds)
        some = f"{there} of " if 0 < there < len(self.builds) else ""
        count = f"{some}{counted(len(self.builds), 'build')}"
        said = f"{count} without each other's timings: {'; '.join(parts) or 'not measured'}"
        return said + (f"; {self.rule} is build {self.kept}" if self.is_choice else "")

    @property
    def missing(self) -> str:
        """What failed, and why, such as "no results of 5 (trt computes it in fp32, not fp16)"; "" for nothing."""
        failed = [
            (one, shorten(one.reason.rstrip("."), _LONGEST_REASON, placeholder=" …"))
            for one in self.builds
            if one.reason
        ]
        alike = grouped(failed, lambda pair: (pair[0].score is None, pair[1]))
        return "; ".join(
            f"no {'results' if unscored else 'latency'} of {', '.join(str(one.number) for one, _ in mine)} ({reason})"
            for (unscored, reason), mine in alike.items()
        )

    @property
    def compute_alike(self) -> bool:
        """Whether all compute in the same, as far as it is known."""
        return len({one.computes_in for one in self.builds if one.computes_in}) < 2

    @property
    def is_choice(self) -> bool:
        """Whether the one that is kept was chosen among several that were measured."""
        return self.kept is not None and self.spread is not None

    def require_kept(self) -> int:
        """Return the number of the one that is kept. Raises CheckFailed where every build is wrong."""
        if self.kept is None:
            raise CheckFailed(f"None of the builds can be kept: {self.words}.")
        return self.kept


class LayerChoice(Strict):
    """How TensorRT executes one layer.

    Attributes:
        tactic: name of the kernel, or the layer's type where it names none.
        formats: data type and memory layout of inputs, then of outputs.
    """

    tactic: str
    formats: tuple[str, ...] = ()


class LayerVariant(Strict):
    """What some of the builds chose for a layer: their numbers, and the choice; None where they have no such layer."""

    builds: tuple[int, ...]
    choice: LayerChoice | None


class LayerDifference(Strict):
    """A layer that is not the same in all builds.

    Attributes:
        layer: its name, which holds those of the fused nodes.
        differs: what: "tactic", "format", "tactic and format", or "fusion" where some builds have no such layer.
        variants: the most frequent first.
    """

    layer: str
    differs: str
    variants: tuple[LayerVariant, ...]


class BuiltGroup(Strict):
    """The builds of one request, and why they differ.

    Attributes:
        label: of the request.
        builds: what was measured.
        layers: that differ; regions that TensorRT compiles as a whole (`ForeignNode`) are one layer, without tactics.
        note: why layers were not compared, or what they do not show.
    """

    label: str
    builds: Builds
    layers: tuple[LayerDifference, ...] = ()
    note: str = ""


class BuildGroups(Strict):
    """builds.json of a run."""

    schema_version: Literal[1] = 1
    groups: tuple[BuiltGroup, ...]


FILE = "builds.json"


def builds_of(directory: Path) -> tuple[BuiltGroup, ...]:
    """Return the groups of a run directory; none where nothing was built several times. Raises UsageProblem."""
    file = directory / FILE
    return read_document(file, BuildGroups).groups if file.is_file() else ()


def _range(values: Sequence[float | None], form: str) -> str:
    """Return the least and the largest value in a format, once where both read the same; empty without any."""
    known = [one for one in values if one is not None]
    return " to ".join(dict.fromkeys(format(end, form) for end in (min(known), max(known))) if known else ())
