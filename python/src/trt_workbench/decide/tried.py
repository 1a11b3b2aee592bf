"""One precision on one runtime while it is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trt_workbench.backends.registry import get_backend
from trt_workbench.core.counts import grouped
from trt_workbench.core.errors import CheckFailed, error_kind
from trt_workbench.core.precision import read
from trt_workbench.decide.document import BASELINE, State
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.model.precision import precision_label
from trt_workbench.quantize import ResampledScore


@dataclass
class DraftRow:
    """What is known of a row so far.

    Attributes:
        precision: as requested.
        backend: name of the runtime.
        asked: precision that the backend is asked for.
        path: the model file; None where there is none.
        evidence: how the file was made; None of the model itself.
        folder: of the files of its score.
        provenance: what executed it when it was scored.
        scores: None where it has none.
        runtime: its name in the bench, no other row's.
        state: why it has none.
        reason: the same in words.
        kind: class of the error.
        build: number of the build of its engine; None where it is built once.
        builds: where it stands for several builds, those of them that have a score.
        missing: where it stands for several, what failed, and why (`Builds.missing`).
        measured: repetitions of its latency that an earlier run has.
        lost: whether that run's engine is not here any more, so that nothing further of it can be measured.
    """

    precision: str
    backend: str
    asked: str = "fp32"
    path: Path | None = None
    evidence: Evidence | None = None
    folder: Path | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    scores: ResampledScore | None = None
    runtime: str = ""
    state: State | None = None
    reason: str | None = None
    kind: str = ""
    build: int | None = None
    builds: tuple[DraftRow, ...] = ()
    missing: str = ""
    measured: int = 0
    lost: bool = False

    def __post_init__(self) -> None:
        """Name the runtime."""
        numbered = "" if self.build is None else f"-build-{self.build}"
        self.runtime = self.runtime or f"{self.backend}-{self.precision}{numbered}"

    @property
    def label(self) -> str:
        """Its name in notes."""
        return f"{self.precision} on {self.backend}" + ("" if self.build is None else f", build {self.build}")

    @property
    def is_needed(self) -> bool:
        """Whether it is tried whatever the time: what losses are relative to."""
        return self.precision == BASELINE and self.build in (None, 1)

    @property
    def computes_in(self) -> str | None:
        """What its graph or engine computes in, with shares."""
        return precision_label(self.provenance, "text")

    @property
    def simulated(self) -> bool:
        """Whether its runtime only imitates the precision."""
        return bool(self.provenance.get("simulated"))

    @property
    def on_processor(self) -> bool:
        """Whether it ran on the CPU: its runtime knows no other device, or says that it took that one."""
        return get_backend(self.backend).devices == ("cpu",) or self.provenance.get("device") == "cpu"

    @property
    def calibrated(self) -> bool:
        """Whether its ranges come from data, or it needs none, by its evidence and by what was loaded."""
        ran = self.provenance.get("precision_ran") or {}
        return ran.get("calibrated", True) and (self.evidence is None or self.evidence.calibrated)

    @property
    def misses(self) -> bool:
        """Whether its graph, program or engine computes in something else than was asked for."""
        ran = self.provenance.get("precision_ran") or {}
        found = {*ran.get("shares", {}), *ran.get("weight_shares", {}), *ran.get("may_choose", ())}
        wanted = read(self.precision)[0]
        if ran.get("source") == "engine layers" and (wanted.block or not ran.get("shares")):
            return False  # layers say neither how blocks are scaled nor what weights are held in
        is_other = self.precision != BASELINE and wanted.name not in found
        return ran.get("source") != "build options" and bool(ran) and is_other

    def fail(self, state: State, reason: str, kind: str = "") -> None:
        """Note why it has no score."""
        self.state, self.reason, self.kind = state, reason, kind


def left_out(tried: Sequence[DraftRow]) -> list[str]:
    """Return a sentence on the rows that were not tried within the time limit, if there are any."""
    runtimes = grouped((one for one in tried if one.state == "left out"), lambda one: one.precision)
    alike = grouped(runtimes, lambda precision: ", ".join(one.backend for one in runtimes[precision]))
    named = "; ".join(f"{', '.join(precisions)} on {backends}" for backends, precisions in alike.items())
    return [f"Not tried, as the budget was used up: {named}."] if named else []


def builds_left_out(tried: Sequence[DraftRow]) -> list[str]:
    """Return a sentence on each row of which some builds were not made within the time limit."""
    rows = grouped((one for one in tried if one.build is not None), lambda one: f"{one.precision} on {one.backend}")
    return [
        f"{late} of {len(builds)} builds of {label} were left out, as the budget was used up."
        for label, builds in rows.items()
        if 0 < (late := sum(one.state == "left out" for one in builds)) < len(builds)
    ]


def require_a_baseline(tried: Sequence[DraftRow]) -> None:
    """Raise the first error of the baseline's rows where none has a score: there is nothing to decide then."""
    rows = [one for one in tried if one.precision == BASELINE]
    if not any(one.scores for one in rows):
        raise (error_kind(rows[0].kind) or CheckFailed)(f"{rows[0].label} has no score: {rows[0].reason}")
