"""decision.json: every precision of a model on every runtime, what each one costs, and what is recommended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat

from trt_workbench.core.counts import counted, mebibytes
from trt_workbench.core.documents import Strict, without
from trt_workbench.core.percent import share
from trt_workbench.model.precision import LEAST_SHARE
from trt_workbench.quantize import RowScore, SearchDocument
from trt_workbench.report.tables import ROOMY, Cell, Column, Table
from trt_workbench.report.verdict import Reach

State = Literal["measured", "scored", "failed", "unavailable", "left out", "does not apply"]
"""Whether a row has a score and a latency; only a score; or why it has neither."""

BASELINE = "fp32"
Shown = Literal["yes", "no", "not shown"]
"""Whether the whole 95 % interval of a figure is on one side of its bound, or not."""
Verdict = Literal["accepted", "regression", "anomalous", "infeasible", "not shown"]
"""Of a row: it keeps the score and every limit; it is shown to lose too much; it is better than the baseline by more
than the allowed loss and by more than chance, or the baseline is far from its published score; it does not run or is
beyond a limit; or what was measured shows none of these."""


class RowSpeed(Strict):
    """How fast it is.

    Attributes:
        latency_ms: median over repetitions of one call, host to host.
        latency_low_ms: lower end of its interval.
        latency_high_ms: upper end.
        coverage: how often such an interval holds the true median.
        items_per_s: throughput of one call after another.
        speed_up: how many times as fast as the baseline on the same runtime; None where that has no latency.
        speed_up_low: lower end of its interval; None where the repetitions are too few for one.
        speed_up_high: upper end.
        rank: among all rows; indistinguishable rows share one. None where so few repetitions were measured
            that no two rows are distinguishable.
        load_s: loading, with the engine's build where there is one.
        memory_bytes: most memory in use: of the device for runtimes that compute there, else of the process.
        repetitions: how many were measured.
        unstable: reasons not to trust them.
        outputs: how the outputs compare with those of the same file on the reference: `matched`, `far`, `not compared`.
    """

    latency_ms: PositiveFloat
    latency_low_ms: PositiveFloat
    latency_high_ms: PositiveFloat
    coverage: FiniteFloat
    items_per_s: PositiveFloat
    speed_up: PositiveFloat | None
    speed_up_low: PositiveFloat | None
    speed_up_high: PositiveFloat | None
    rank: NonNegativeInt | None
    load_s: NonNegativeFloat | None
    memory_bytes: NonNegativeInt | None
    repetitions: NonNegativeInt
    unstable: list[str] = []
    outputs: str


class DecisionRow(Strict):
    """One precision on one runtime.

    Attributes:
        precision: as requested, such as "int8-mixed".
        backend: name of the runtime.
        state: what is known of it.
        reason: why it is not "measured"; None if it is.
        computes_in: what the graph or the engine computes in, with shares.
        builds_missing: what failed of several builds of its engine, and why; None where nothing did.
        file: the model file that it executes; None where none could be made.
        sha256: of the file.
        size_bytes: of the file, or of the engine where one was built.
        simulated: whether the runtime only imitates the precision, so that its latency says nothing.
        calibrated: whether its ranges come from data, or it needs none.
        low_macs: share of the arithmetic that is in the low precision; None for the baseline and weight-only formats.
        low_weights: share of the weights' elements that are in it, for weight-only formats; None for all others.
        directory: of the score's files, relative to the run directory; absolute where they are of another run.
        score: None where it has none.
        speed: None where it has none.
        meets: whether the loss of every score to be kept is within the bound; None without a score.
        certain: whether the whole intervals of the losses are.
        limits: whether it is within each of `Decision.limits` by name; "not shown" of what was not measured.
        verdict: on the row; None of the baseline without limits, and in decisions of earlier releases.
    """

    precision: str
    backend: str
    state: State
    reason: str | None = None
    computes_in: str | None = None
    builds_missing: str | None = None
    file: str | None = None
    sha256: str | None = None
    size_bytes: NonNegativeInt | None = None
    simulated: bool = False
    calibrated: bool = True
    low_macs: FiniteFloat | None = None
    low_weights: FiniteFloat | None = None
    directory: str | None = None
    score: RowScore | None = None
    speed: RowSpeed | None = None
    meets: bool | None = None
    certain: bool | None = None
    limits: dict[str, Shown] = {}
    verdict: Verdict | None = None

    def kept(self, names: Sequence[str]) -> dict[str, RowScore]:
        """Return its scores of those that are to be kept; none without a score."""
        return self.score.kept(names) if self.score else {}

    def keeps(self, names: Sequence[str], bound: float) -> Shown:
        """Whether it is shown to keep every score, or to lose one: by the whole interval, or as it has none.

        What computes little in its precision can lose a score, and not show that the precision keeps it.
        """
        found = self.kept(names)
        if found and self.certain and self.counts:
            return "yes"
        lost = len(found) < len(names) or any(one.loss_ci95 and one.loss_ci95[0] > bound for one in found.values())
        return "no" if found and self.calibrated and lost else "not shown"

    def judged(self, names: Sequence[str], bound: float) -> Verdict:
        """Return the verdict on it, the baseline being what it is said to be."""
        if "no" in self.limits.values() or self.state in ("failed", "unavailable", "does not apply"):
            return "infeasible"
        losses = [one.loss_ci95 for one in self.kept(names).values() if one.loss_ci95]
        if any(high < -bound for _, high in losses):
            return "anomalous"
        keeps = self.keeps(names, bound)
        if keeps == "yes" and set(self.limits.values()) <= {"yes"}:
            return "accepted"
        return "regression" if keeps == "no" else "not shown"

    def may_ship(self, *, certain: bool, unmeasured: bool = False) -> bool:
        """Whether it is a lower precision that nothing speaks against.

        Args:
            certain: whether it has to be shown to keep the score.
            unmeasured: whether limits of what was not measured are left aside.
        """
        allowed = {"yes", "not shown"} if unmeasured else {"yes"}
        keeps = bool(self.certain if certain else self.meets) and self.counts and set(self.limits.values()) <= allowed
        return keeps and self.precision != BASELINE and self.verdict not in ("anomalous", "infeasible")

    @property
    def fits(self) -> bool:
        """Whether it is the baseline, within all limits."""
        return self.precision == BASELINE and self.score is not None and set(self.limits.values()) <= {"yes"}

    @property
    def is_timed(self) -> bool:
        """Whether it has a latency in the precision itself."""
        return self.speed is not None and not self.simulated

    @property
    def label(self) -> str:
        """Its name in sentences, such as "int8 on ort-cpu"."""
        named = self.calibrated or "not calibrated" in self.precision  # as runs name it
        return f"{self.precision}{'' if named else ' (not calibrated)'} on {self.backend}"

    @property
    def tells(self) -> bool:
        """Whether its score is meaningful for its precision: with hardly anything in it, every score is kept."""
        return all(part is None or part >= LEAST_SHARE for part in (self.low_macs, self.low_weights))

    @property
    def counts(self) -> bool:
        """Whether it decides anything: by ranges from data, and with enough in its precision."""
        return self.calibrated and self.tells

    @property
    def label_with_share(self) -> str:
        """Its name with why it does not count, such as "int8 on trt (0.4 % of the arithmetic)"."""
        return self.label if self.tells else f"{self.label} ({self.part})"

    @property
    def part(self) -> str:
        """What is in its precision, such as "0.4 % of the arithmetic"."""
        of, part = ("arithmetic", self.low_macs) if self.low_weights is None else ("weights", self.low_weights)
        return f"{share(part or 0.0, 1)} of the {of}"


class PrecisionAccuracy(Strict):
    """Whether a precision keeps the score; of several runtimes, the best row that computes in it, else a simulated one.

    Attributes:
        precision: as requested.
        backend: of the row; None where none has a score.
        keeps: whether it does.
        simulated: whether the runtime imitates it.
        figure: name of the score that it loses most of.
        loss: of that score.
        loss_low: lower end of its 95 % interval; None without one.
        loss_high: upper end.
        samples_needed: about how many samples would settle it; None where it is settled, and where no number would.
        sentence: the same.
    """

    precision: str
    backend: str | None = None
    keeps: Shown
    simulated: bool = False
    figure: str | None = None
    loss: FiniteFloat | None = None
    loss_low: FiniteFloat | None = None
    loss_high: FiniteFloat | None = None
    samples_needed: NonNegativeInt | None = None
    sentence: str


class SpeedAnswer(Strict):
    """Whether the speed of a lower precision was measured.

    Attributes:
        measured: whether it was, on a device that the answer is about: not on a CPU.
        sentence: the same.
        command: what measures it on a machine with the card, where this one did not and a precision may be shipped.
            Files go by their names, and options of this machine are left out.
    """

    measured: bool
    sentence: str
    command: str | None = None


class Recommendation(Strict):
    """What to ship.

    Attributes:
        precision: to ship; None if there is none, or if the speed of several has to be measured first.
        backend: to ship it on; None where its speed has to be measured first.
        sentence: what and why.
        doubts: what speaks against relying on it, in sentences.
    """

    precision: str | None
    backend: str | None
    sentence: str
    doubts: list[str]


def latencies_distinguishable(rows: Sequence[DecisionRow]) -> bool:
    """Whether enough repetitions were measured to distinguish the latencies of rows; then each of them has a rank."""
    return all(row.speed.rank is not None for row in rows if row.speed)


class Decision(Strict):
    """The whole document.

    Attributes:
        model: path of the float model.
        model_sha256: its hash, external data included.
        task: what was scored.
        figure: name of the score, such as "AP".
        unit: what a sample is, in the plural, such as "images".
        data: where the samples are.
        samples: how many were scored.
        max_loss: the bound of the loss.
        keep: names of the scores that are to be kept; none in decisions of earlier releases, which keep `figure`.
        batch: items of a timed call.
        options: further options of runtimes, by their names.
        baseline: the row that losses are measured from, as (precision, backend); None if it could not be scored.
        rows: in the order of asking.
        limits: what else was asked for, by name: `max_latency_ms`, `max_memory_bytes`.
        expect: published scores of the model by name.
        accuracy: whether each lower precision keeps the score; none in decisions of earlier releases.
        speed: whether it was measured; None in decisions of earlier releases.
        excluded: what each limit excludes, in sentences.
        recommendation: what to ship.
        passed: whether a lower precision may be shipped, or fp32 where it was asked for alone: the exit code; None in
            decisions of earlier releases.
        left_out: what was not tried, in sentences.
        notes: further sentences for the reader.
        search: what chose the groups that int8-mixed leaves alone; None where no search did.
        wall_s: how long it took.
    """

    _earlier = without("compiles")
    schema_version: Literal[1] = 1
    model: str
    model_sha256: str
    task: str
    figure: str
    unit: str
    data: str
    samples: NonNegativeInt
    max_loss: FiniteFloat
    keep: list[str] = []
    batch: NonNegativeInt
    options: dict[str, dict[str, Any]] = {}
    baseline: tuple[str, str] | None
    rows: list[DecisionRow]
    limits: dict[str, NonNegativeFloat] = {}
    expect: dict[str, FiniteFloat] = {}
    accuracy: list[PrecisionAccuracy] = []
    speed: SpeedAnswer | None = None
    excluded: list[str] = []
    recommendation: Recommendation
    passed: bool | None = None
    left_out: list[str] = []
    notes: list[str] = []
    search: SearchDocument | None = None
    wall_s: NonNegativeFloat

    def row(self, precision: str | None, backend: str | None) -> DecisionRow | None:
        """Return a row by its names."""
        return next((row for row in self.rows if (row.precision, row.backend) == (precision, backend)), None)

    @property
    def kept(self) -> list[str]:
        """Names of the scores that are to be kept."""
        return self.keep or [self.figure]

    @property
    def latencies_distinguishable(self) -> bool:
        """Whether enough repetitions were measured to distinguish latencies."""
        return latencies_distinguishable(self.rows)

    @property
    def reach(self) -> Reach:
        """Whether a lower precision may be shipped, none may, or that is open: the badge and the exit code.

        Where no lower precision was asked for, whether the baseline is within the limits; without any there is nothing
        to judge.
        """
        asked = [row for row in self.rows if row.precision != BASELINE] or (self.rows if self.limits else [])
        scored, failed = [row for row in asked if row.score], self.passed is False
        unproven = failed and any(row.verdict == "not shown" and row.counts for row in asked)
        doubts = len(self.recommendation.doubts) + (not any(row.certain for row in scored))
        return Reach(1, 1, len(scored), wrong=failed and not unproven, unproven=unproven, doubts=doubts)

    def halves(self, *, command: bool = False) -> list[str]:
        """Return the answer in sentences: accuracy, speed, perhaps with the command for it, limits, what to ship."""
        bound = (
            f"Accuracy (a loss of {self.max_loss:g} is allowed, {counted(self.samples, self.unit.removesuffix('s'))}):"
        )
        said = [bound, *(f"  {one.sentence}" for one in self.accuracy)] if self.accuracy else []
        if self.speed and self.accuracy:
            where = f"; on a machine with the GPU: {self.speed.command}" if command and self.speed.command else ""
            said.append(f"Speed: {self.speed.sentence}{where}")
        return [*said, *(f"Limits: {one}" for one in self.excluded), f"Then: {self.recommendation.sentence}"]

    @property
    def table(self) -> Table:
        """Every precision on every runtime."""
        runtimes = {row.backend for row in self.rows}
        columns = [
            Column(
                "precision",
                lambda row: Cell(
                    row.precision, soft=(row.score and row.computes_in != row.precision and row.computes_in) or ""
                ),
                marks=_marks,
            ),
            *([Column("runtime", "backend")] if len(runtimes) > 1 else []),
            Column(self.figure, _score("value"), 4, interval=_score("ci95")),
            Column("loss", _score("loss"), 4, better="lower", interval=_score("loss_ci95")),
            Column("at most", lambda row: (_score("loss_ci95")(row) or [None, None])[1], 4, places=("terminal",)),
            *(
                Column(
                    f"loss of {name}",
                    lambda row, name=name: (one := row.kept(self.kept).get(name)) and one.words(one.loss),  # type: ignore[misc]
                    4,
                    places=("terminal",),
                )
                for name in self.kept[1:]
            ),
            Column("score", self._judged),
            Column("latency", "speed.latency_ms", 3, unit="ms", places=("terminal",)),
            Column(
                "latency",
                "speed.latency_ms",
                3,
                unit="ms",
                better="lower",
                interval=lambda row: row.speed and (row.speed.latency_low_ms, row.speed.latency_high_ms),
                places=ROOMY,
                marks=lambda row: [
                    Cell("unstable", verdict="unstable", title="; ".join(row.speed.unstable))
                    for _ in [row.speed]
                    if row.speed and row.speed.unstable
                ],
            ),
            Column(
                "speed-up",
                "speed.speed_up",
                2,
                better="higher",
                interval=lambda row: (
                    row.speed
                    and row.speed.speed_up_low != row.speed.speed_up_high
                    and (row.speed.speed_up_low, row.speed.speed_up_high)
                ),
            ),
            Column("calls/s", "speed.items_per_s", 1, places=ROOMY),
            Column("size", "size_bytes", form=mebibytes, unit="MiB"),
            Column("memory", "speed.memory_bytes", form=mebibytes, unit="MiB", places=ROOMY),
            Column("loading", "speed.load_s", 2, unit="s", places=ROOMY),
            Column("why not", _why_not, places=ROOMY),
        ]
        where = f" on {runtimes.pop()}" if len(runtimes) == 1 else " on every runtime"
        return Table(
            columns,
            self.rows,
            f"Every precision{where}",
            [
                *["What a runtime simulates, even in part, has no latency."]
                * any(row.score and row.simulated for row in self.rows),
                *self.left_out,
                *self.notes,
            ],
            self.recommended,
        )

    def _judged(self, row: DecisionRow) -> Cell:
        if not row.score:
            return Cell(row.state)
        word = row.verdict or row.judged(self.kept, self.max_loss)
        shown = "reference" if word == "accepted" and not row.score.loss_ci95 else word
        return Cell(shown, verdict=shown)

    @property
    def recommended(self) -> DecisionRow | None:
        """The row that is recommended."""
        return self.row(self.recommendation.precision, self.recommendation.backend)


def _marks(row: DecisionRow) -> list[Cell]:
    words = ["simulated"] * row.simulated + ["not calibrated"] * (not row.calibrated)
    return [Cell(word, verdict=word) for word in words]


def _score(name: str) -> Callable[[DecisionRow], Any]:
    """Return a function from a row to a value of its score, or to the ends of an interval, in words."""
    return lambda row: row.score and row.score.worded(getattr(row.score, name))


def _why_not(row: DecisionRow) -> str | None:
    if row.speed or (row.score and row.simulated):
        return None
    if not row.score:
        return f"{'Does not apply' if row.state == 'does not apply' else 'Did not run'}: {row.reason}"
    return f"no latency: {row.reason}"
