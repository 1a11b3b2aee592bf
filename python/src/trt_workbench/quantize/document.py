"""What `quantize` and `sensitivity` write: `search.json`, `sensitivity.json`, and scores by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt

from trt_workbench.core.counts import decimals, digits_of
from trt_workbench.core.documents import Strict
from trt_workbench.core.percent import share
from trt_workbench.core.statistics.bootstrap import is_certain
from trt_workbench.core.verification import Mark
from trt_workbench.model.low_precision.evidence import SearchEvidence
from trt_workbench.model.low_precision.kinds import Method
from trt_workbench.report.tables import Table
from trt_workbench.report.verdict import Reach

Ends = tuple[FiniteFloat, FiniteFloat]


class ClassLoss(Strict):
    """What one class loses.

    Attributes:
        name: of the class.
        annotations: how many objects of it there are.
        value: its AP.
        baseline: its AP in the baseline.
        loss_ci95: 95 % interval of the difference (`loss_interval`, where a step is an annotation), within what it can
            lose and gain; None where too few resamples have it.
    """

    name: str
    annotations: NonNegativeInt
    value: FiniteFloat
    baseline: FiniteFloat
    loss_ci95: Ends | None


class RowScore(Strict):
    """A score, and its distance from the baseline's on the same samples.

    Attributes:
        value: of the figure.
        ci95: its 95 % interval over resamples.
        loss: by how much it is worse than the baseline's: of most figures that value less this one.
        loss_ci95: 95 % interval of the loss, paired by sample (`loss_interval`); None of the baseline itself.
        loss_sd: standard deviation of the loss over resamples; None as `loss_ci95`.
        counted: whether it is the share of samples that agree with the baseline: then it cannot be better.
        alike: whether all resamples lose the same, as where nothing changed.
        guess: what guessing gives, where the score is hardly better; None where it is, and where nobody knows.
        figures: further figures by name.
        classes: of a detector, those that have annotations.
        others: further scores on the same samples by name, such as "f1@0.25".
    """

    value: FiniteFloat
    ci95: Ends | None
    loss: FiniteFloat
    loss_ci95: Ends | None
    loss_sd: NonNegativeFloat | None = None
    counted: bool = False
    alike: bool = False
    guess: FiniteFloat | None = None
    figures: dict[str, FiniteFloat | None] = {}
    classes: list[ClassLoss] = []
    others: dict[str, RowScore] = {}

    def kept(self, names: Sequence[str]) -> dict[str, RowScore]:
        """Return the scores of those names, the first of which is its own; fewer where it lacks one."""
        return {names[0]: self, **{name: one for name in names[1:] if (one := self.others.get(name))}}

    def words(self, value: float) -> str:
        """Return a value of the figure, an end of an interval or a loss in as many decimals as the value needs."""
        return decimals(value, digits_of(self.value))

    def worded(self, value: float | tuple[float, float] | None) -> str | list[str] | None:
        """Return the same, or of both ends of an interval; None of None."""
        return [*map(self.words, value)] if isinstance(value, tuple) else None if value is None else self.words(value)

    @property
    def as_good_as_guessing(self) -> str:
        """The end of a sentence about a score that is hardly better than a guess; "" where it is."""
        if self.guess is None:
            return ""
        return f"as good as guessing ({self.guess:.4g}), so there is nothing to lose; check model and data"

    def keeps(self, bound: float, count: int) -> bool:
        """Return whether its interval shows that the loss is at most `bound`, given how many samples it is over."""
        ends = self.loss_ci95
        return self.loss == 0 if ends is None else self.loss <= bound and is_certain(ends, count, bound)

    def among(self, scores: Sequence[RowScore]) -> RowScore:
        """Return it with intervals from the lowest to the highest end of several scores, such as of several builds."""
        every = (self, *scores)
        others = {
            name: one.among([each.others[name] for each in scores if name in each.others])
            for name, one in self.others.items()
        }
        ends = {name: _ends([getattr(one, name) for one in every]) for name in ("ci95", "loss_ci95")}
        return self.model_copy(update={"others": others, "alike": all(one.alike for one in every), **ends})


def _ends(intervals: Sequence[Ends | None]) -> Ends | None:
    known = [one for one in intervals if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


class ScoreMetrics(Strict):
    """The document `metrics.json` of an evaluation by `--score`.

    Attributes:
        model: path of the model.
        model_sha256: its hash, external data included.
        backend: that executed it.
        settings: what it was asked for: `precision`, `options` of the backend, `batch` and `seed`.
        provenance: what executed it, with `precision_ran`: what the graph or the engine computes in.
        verification: of an engine; None of all else.
        figure: name of the score, such as "abs_rel".
        better: which values of it are better.
        score: its value and its 95 % interval, and further numbers of the same function as `others`.
        data: where the samples are.
        data_sha256: of the samples that were scored, their targets and the function.
        samples: how many were scored.
        available: of how many.
    """

    schema_version: Literal[1] = 1
    model: str
    model_sha256: str
    backend: str
    settings: dict[str, Any]
    provenance: dict[str, Any]
    verification: Mark | None
    figure: str
    better: Literal["higher", "lower"]
    score: RowScore
    data: str
    data_sha256: str
    samples: NonNegativeInt
    available: NonNegativeInt

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Every number with its interval, in words, the score first."""
        return [
            (name, one.words(one.value), " to ".join(map(one.words, one.ci95)) if one.ci95 else "-")
            for name, one in {self.figure: self.score, **self.score.others}.items()
        ]

    @property
    def table(self) -> Table:
        """The same as a table."""
        return Table(("metric", "value", "95 % interval"), self.rows, "Score")

    @property
    def guessed(self) -> list[str]:
        """A sentence on a score that is hardly better than a guess; none on any other."""
        told = self.score.as_good_as_guessing
        return [f"{self.figure} is {self.rows[0][1]}, {told}."] if told else []


class GroupScore(Strict):
    """The task's own score of the model with one group in the lower precision.

    Attributes:
        value: of the figure.
        loss: the float model's score minus it.
        loss_ci95: ends of the 95 % interval of the loss over resamples of the samples, drawn for both models together.
    """

    value: FiniteFloat
    loss: FiniteFloat
    loss_ci95: tuple[FiniteFloat, FiniteFloat] | None


class GroupLoss(Strict):
    """One group.

    Attributes:
        name: of the group, as `--keep` takes it.
        op_type: its operation.
        macs_share: its share of the model's multiply-accumulates, as `low_macs` of a candidate counts them, 0 to 1.
        weights_share: its share of the weights' elements.
        noise: power of what it changes over the power of what is there, mean over the tensors that are looked at.
        sqnr_db: the same as -10 log10; None where it changes nothing.
        score: None where it was not scored.
        kept: why `quantize` leaves it in fp32 with the same options, so that `--keep` changes nothing; "" where not.
    """

    name: str
    op_type: str
    macs_share: NonNegativeFloat
    weights_share: NonNegativeFloat
    noise: NonNegativeFloat
    sqnr_db: FiniteFloat | None
    score: GroupScore | None = None
    kept: str = ""


def decibels(noise: float) -> float | None:
    """Return a ratio of noise to signal as SQNR in dB; None where there is no noise."""
    return -10 * math.log10(noise) if noise > 0 else None


def noisiest(groups: Sequence[GroupLoss]) -> Sequence[GroupLoss]:
    """Return the fewest groups that cause half of the noise of all; they are in the order of theirs."""
    noise = list(accumulate(group.noise for group in groups))
    return groups[: 1 + next((place for place, sum_ in enumerate(noise) if sum_ >= noise[-1] / 2 > 0), -1)]


class Sensitivity(Strict):
    """The document `sensitivity.json`.

    Attributes:
        model: path of the float model.
        model_sha256: its hash, external data included.
        to: the format.
        method: how ranges were chosen; None where the format has none.
        calibrated: whether ranges are from data.
        data_sha256: of the calibration data; None of noise, or where the format has no ranges.
        samples: how many samples the noise was measured on.
        seed: of everything drawn.
        tensors: where the noise was measured: what makes the outputs, or the outputs.
        noise: with every group in the format; None where a search asked for some groups alone.
        sqnr_db: the same as -10 log10.
        groups: the noisiest first; those that `quantize` leaves in fp32 anyway come last.
        plain: with every group in the format that `quantize` puts into it with the same options.
        advised: the fewest of these that cause half of their noise; none where keeping them in fp32 is no gain.
        kept: noise with these in fp32, too.
        left_out: groups that were not tried, with the reason.
        figure: name of the score; None where nothing was scored.
        scored: how many samples were scored.
        baseline: score of the float model.
        wall_s: how long it took.
    """

    schema_version: Literal[1] = 1
    model: str
    model_sha256: str
    to: str
    method: Method | None
    calibrated: bool
    data_sha256: str | None
    samples: NonNegativeInt
    seed: NonNegativeInt
    tensors: list[str]
    noise: NonNegativeFloat | None
    sqnr_db: FiniteFloat | None
    groups: list[GroupLoss]
    plain: NonNegativeFloat | None = None
    advised: list[str] = []
    kept: NonNegativeFloat | None = None
    left_out: dict[str, str] = {}
    figure: str | None = None
    scored: NonNegativeInt = 0
    baseline: FiniteFloat | None = None
    wall_s: NonNegativeFloat = 0.0

    @property
    def free(self) -> list[GroupLoss]:
        """The groups that `quantize` puts into the format."""
        return [group for group in self.groups if not group.kept]


class SearchDocument(Strict):
    """The document `search.json`.

    Attributes:
        sensitivity: what each group costs by itself.
        order: names of groups; the first are left alone first.
        evidence: what was scored and chosen, as the candidate's evidence has it.
        candidate: path of the candidate; None where none keeps the bound.
        stopped: whether the budget ended it, so that more may be possible.
        wall_s: how long it took, without earlier trials.
    """

    schema_version: Literal[1] = 1
    sensitivity: Sensitivity
    order: list[str]
    evidence: SearchEvidence
    candidate: str | None
    stopped: bool = False
    wall_s: NonNegativeFloat = 0.0

    @property
    def words(self) -> str:
        """What was taken, how much of it is in the format, and what that scores."""
        assert self.evidence.chosen is not None
        kept, low = self.evidence.chosen.kept, share(self.evidence.chosen.low_macs, 1)
        what = f"{kept} of {len(self.order)} groups kept in fp32, {low} of the arithmetic in {self.sensitivity.to}"
        return f"{what}; {self.evidence.words}"

    @property
    def reach(self) -> Reach:
        """Whether something keeps the bound, for certain or not: the badge and the exit code."""
        found, chosen = self.evidence, self.evidence.chosen
        doubtful = chosen and chosen.loss_ci95 and not is_certain(chosen.loss_ci95, found.samples, found.bound)
        return Reach(1, 1, 1, wrong=chosen is None, doubts=bool(doubtful))
