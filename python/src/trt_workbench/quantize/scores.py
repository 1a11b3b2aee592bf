"""Scores read back from the files of a run, with the same score over resamples, so that two of them can be paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, PositiveInt

from trt_workbench.core.documents import Strict, read_document
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.statistics.bootstrap import draw_counts, loss_interval
from trt_workbench.core.statistics.summary import interval
from trt_workbench.quantize.document import ClassLoss, RowScore
from trt_workbench.quantize.settings import AP, ArrayMetric, Metric
from trt_workbench.vision import (
    AT_THRESHOLD,
    CocoDataset,
    CocoMetrics,
    Matches,
    Verdicts,
    operate,
    read_dataset,
    read_predictions,
    task_in,
    threshold_in,
)

SAMPLES = "samples.json"
# Recall says little that AP and AR_100 do not.
_LEFT_OUT = ("AR_1", "AR_10", "AR_small", "AR_medium", "AR_large")
# Of most scores, how much better than a guess is still none: classes that are mixed up have an AP of 0.013.
_NEAR = 0.02
# Of a perplexity, which share of the number of words.
_NEAR_UNIFORM = 0.9
# Between the score of predictions.json and that in metrics.json.
_APART = 0.01


@dataclass(frozen=True)
class ResampledScore:
    """The score of one precision on one runtime.

    Attributes:
        value: of the figure.
        resampled: float64 [resamples], the same over resamples of the samples.
        samples: what identifies the samples; only scores with equal ones are paired.
        count: how many samples.
        seed: of the resamples.
        figures: further figures.
        classes: name, annotations and AP of each category that has annotations.
        class_resampled: float64 [resamples, categories with annotations].
        counts: whether the value is the share of samples that count, each whole or not at all, as of an agreement.
        worse: how it becomes worse: "falls", "rises", or "grows" where the loss is the share by which it does, as of a
            perplexity.
        call_ms: how long a call took while it was scored, median, milliseconds: roughly, as nothing is warmed up.
        others: further scores of the same samples by name.
        guess: what guessing gives; None where nobody knows.
        step: what a sample loses at least that loses anything, as of `loss_interval`; that of the baseline counts.
        each: float64 [samples], the score of each sample where that of all goes with their mean; None where resamples
            alone show what each adds, as of AP.
        beats_guess: whether the samples, in pairs, show that it is better than that; None to judge by `guess` alone.
        name: of the figure.
    """

    value: float
    resampled: NDArray[np.float64]
    samples: str
    count: int
    seed: int = 0
    figures: Mapping[str, float | None] = field(default_factory=dict)
    classes: tuple[tuple[str, int, float], ...] = ()
    class_resampled: NDArray[np.float64] | None = None
    counts: bool = False
    worse: Literal["falls", "rises", "grows"] = "falls"
    call_ms: float | None = None
    others: Mapping[str, ResampledScore] = field(default_factory=dict)
    guess: float | None = None
    beats_guess: bool | None = None
    step: float = 0.0
    each: NDArray[np.float64] | None = None
    name: str = ""

    def against(self, baseline: ResampledScore | None) -> RowScore:
        """Return the score as a document, with its distance from the baseline's.

        Raises:
            UsageProblem: the two were scored on different samples.
        """
        ends, loss_ends, deviation, alike = interval(self.resampled, self.value), None, None, False
        reference = self if baseline is None else baseline
        loss = float(self._loss(np.array(reference.value), np.array(self.value)))
        counted = self.counts and reference is not self and reference.value == 1  # the baseline agrees with itself
        if reference is not self:
            if self.samples != reference.samples:
                raise UsageProblem("The scores are of different samples and cannot be compared.")
            losses = self._loss(reference.resampled, self.resampled)
            each = None if self.each is None or reference.each is None else self._loss(reference.each, self.each)
            loss_ends = loss_interval(loss, losses, self.count, self.seed, reference.step, each)
            alike, deviation = bool((losses == losses[0]).all()), float(np.nanstd(losses)) if loss_ends else None
            if counted and loss_ends:  # what agrees cannot agree more, also of samples that were not drawn
                loss_ends = (interval(losses, loss) or loss_ends)[0], loss_ends[1]
                ends = 1 - loss_ends[1], 1 - loss_ends[0]
        return RowScore(
            value=self.value,
            ci95=ends,
            loss=loss,
            loss_ci95=loss_ends,
            loss_sd=deviation,
            counted=counted,
            alike=alike,
            guess=self.guess if self._is_guessed(ends) else None,
            figures=dict(self.figures),
            classes=self._classes(reference),
            others={
                name: one.against(None if reference is self else reference.others[name])
                for name, one in self.others.items()
                if name in reference.others
            },
        )

    def _is_guessed(self, ends: tuple[float, float] | None) -> bool:
        """Whether guessing is as good, or nearly."""
        if self.guess is None or self.beats_guess is not None:
            return self.beats_guess is False
        if self.worse == "falls":
            by_chance = self.guess > 0 and ends is not None and ends[0] <= self.guess
            return by_chance or self.value <= self.guess + _NEAR
        return self.value >= self.guess * (1 if self.worse == "rises" else _NEAR_UNIFORM)

    def _loss(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.worse == "grows":
            return after / before - 1
        return before - after if self.worse == "falls" else after - before

    def _classes(self, reference: ResampledScore) -> list[ClassLoss]:
        if self.class_resampled is None or reference.class_resampled is None:
            return []
        differences = reference.class_resampled - self.class_resampled
        return [
            ClassLoss(
                name=name,
                annotations=count,
                value=value,
                baseline=before[2],
                loss_ci95=ends and (max(ends[0], before[2] - 1), min(ends[1], before[2])),
            )
            for (name, count, value), before, column in zip(self.classes, reference.classes, differences.T, strict=True)
            for ends in [loss_interval(before[2] - value, column, self.count, self.seed, self.count / count)]
        ]


def coco_scores(
    folder: Path, seed: int, names: Sequence[str] = (), places: CocoMetrics | None = None
) -> ResampledScore:
    """Return the score of a finished evaluation by eval-coco.

    Args:
        folder: holds metrics.json and predictions.json.
        seed: of the resamples.
        names: of figures, such as "f1@0.25": the score, then its others. By default what the task is compared by.
        places: of a run here on the same data, where this one ran elsewhere.

    Raises:
        UsageProblem: a file is damaged, the run is partial, it has no score, or its annotations are gone or changed.
    """
    metrics = read_document(folder / "metrics.json", CocoMetrics)
    if metrics["status"] != "complete":
        raise UsageProblem(f"The evaluation was interrupted, so its score is of other images: {folder}")
    task = task_in(metrics)
    figures, decided_by = cast("dict[str, float | None]", metrics), task.decided_by
    if (value := figures[decided_by]) is None:
        raise UsageProblem(f"No {decided_by}, as the images have no annotations: {folder}")
    here = places or metrics
    used = here["dataset"]
    dataset = read_dataset(
        Path(used["images"]),
        Path(used["annotations"]),
        split=used.get("split"),
        exif=here["settings"].get("exif", "ignore"),
        limit=here["settings"].get("limit"),
        allow_missing=bool(used["missing"]),
        task=task,
    )
    if dataset.sha256 != metrics["dataset"]["annotations_sha256"] or len(dataset.images) != metrics["images"]:
        raise UsageProblem(f"The annotations have changed since the evaluation: {used['annotations']}")
    image_ids = np.array([image.id for image in dataset.images], np.int64)
    found = read_predictions(folder / "predictions.json", task)
    if not np.isin(found.image_ids, image_ids).all():
        raise UsageProblem(
            f"There are predictions for images that were not evaluated; the run has been changed: {folder}"
        )
    measures, counts = task.measures, draw_counts(len(image_ids), seed)
    where = (image_ids, dataset.truth, dataset.categories, found)
    matches = measures[-1].matches(*where)
    resampled, main = matches.figures(np.concatenate([np.ones_like(counts[:1]), counts])), measures[-1].main[0]
    if abs(resampled.figures[main][0] - value) > _APART:
        raise UsageProblem(
            f"predictions.json has {decided_by} {resampled.figures[main][0]:.4f}, metrics.json {value:.4f}; they "
            f"are not of one run: {folder}"
        )
    classes = cast("list[dict[str, Any]]", metrics["per_class"])
    rated = [place for place, row in enumerate(classes) if row[decided_by] is not None]
    rows = [classes[place] for place in rated]
    made = ResampledScore(
        name=decided_by,
        value=value,
        resampled=resampled.figures[main][1:],
        samples=f"{dataset.sha256}:{image_ids.tolist()}",
        count=len(image_ids),
        seed=seed,
        figures={name: figures[name] for name in task.figures if name != decided_by and not name.endswith(_LEFT_OUT)},
        classes=tuple((row["name"], row["ground_truths"], row[decided_by]) for row in rows),
        class_resampled=resampled.by_class[1:, rated],
        call_ms=metrics["latency_ms"]["inference"]["p50"] if metrics["latency_ms"] else None,
        guess=_guess(dataset, decided_by),
        step=len(image_ids) / sum(row["ground_truths"] for row in rows),  # an annotation
        each=resampled.each,
    )
    others = {decided_by: made}
    if any(threshold_in(name) is not None for name in names):  # by the first measure, such as boxes
        first = matches if len(measures) == 1 else measures[0].matches(*where)
        others |= _at_thresholds(first, names, counts, replace(made, each=None))
    if names and names[0] not in others:
        raise UsageProblem(f"No {names[0]}, as no detection reaches that score; name a lower one.")
    chosen = others[names[0]] if names else made
    return replace(
        made,
        name=chosen.name,
        value=chosen.value,
        resampled=chosen.resampled,
        worse=chosen.worse,
        guess=chosen.guess,
        each=chosen.each,
        others={name: others[name] for name in names[1:] if name in others},
    )


class SampleNumbers(Strict):
    """A number of each sample, and how they are one score.

    Attributes:
        each: by sample, in the order of `SampleScores.names`.
        worse: as of `ResampledScore`.
        fold: what is made of their mean: nothing, or its exponential.
        parts: how many parts of a sample are added up in its number, by which that is divided first.
        folded: what a function of the user's makes of all samples, then of each resample; empty where `fold` does.
        step: as of `ResampledScore`.
        counts: as of `ResampledScore`.
        guess: what guessing gives; None where nobody knows, or has the numbers of it.
        guessed: numbers of a guess.
    """

    each: tuple[FiniteFloat, ...]
    worse: Literal["falls", "rises", "grows"] = "falls"
    fold: Literal["mean", "exponential"] = "mean"
    parts: PositiveInt = 1
    folded: tuple[FiniteFloat, ...] = ()
    step: FiniteFloat = 0.0
    counts: bool = False
    guess: FiniteFloat | None = None
    guessed: SampleNumbers | None = None

    def resampled(self, counts: NDArray[np.int32], facts: Mapping[str, Any]) -> ResampledScore:
        """Return the score.

        Args:
            counts: of `draw_counts`.
            facts: further fields.
        """
        each, made_of = np.array(self.each), np.exp if self.fold == "exponential" else np.positive
        whole, drawn, single = (made_of(one / self.parts) for one in (each.mean(), counts @ each / len(each), each))
        value, *others = self.folded or (float(whole),)
        made = ResampledScore(
            value=value,
            resampled=np.array(others) if self.folded else drawn,
            each=None if self.folded else single,
            counts=self.counts,
            worse=self.worse,
            guess=self.guess,
            step=self.step,
            **facts,
        )
        if self.guessed is None:
            return made
        guess = replace(self.guessed.resampled(counts, facts), step=self.step)
        ends = made.against(guess).loss_ci95
        return replace(made, guess=guess.value, beats_guess=ends and ends[1] < 0)


class SampleScores(Strict):
    """samples.json: what `figures.score_arrays` found.

    Attributes:
        names: of the samples.
        numbers: of each sample by name, of which the score is one.
        figures: names of those that are shown besides.
        others: names of those that are further scores.
        key: of what else decides them: hashes of a function's file and of the targets.
        call_ms: median time of a call, milliseconds.
    """

    schema_version: Literal[2] = 2
    names: list[str]
    numbers: dict[str, SampleNumbers]
    figures: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    key: str = ""
    call_ms: FiniteFloat | None = None


def array_scores(folder: Path, metric: ArrayMetric, seed: int) -> ResampledScore:
    """Return the score that `figures.score_arrays` wrote. Raises UsageProblem as `read_document`, and without one."""
    found = read_document(folder / SAMPLES, SampleScores)
    number = metric.number or next(iter(found.numbers))
    if number not in found.numbers:
        raise UsageProblem(metric.needs)
    count = len(found.names)
    counts, samples = draw_counts(count, seed), "\n".join([*found.names, found.key])
    facts = {"samples": samples, "count": count, "seed": seed, "call_ms": found.call_ms}
    made = {name: one.resampled(counts, {**facts, "name": name}) for name, one in found.numbers.items()}
    return replace(
        made[number],
        name=metric.name,
        figures={name: made[name].value for name in found.figures},
        others={name: made[name] for name in found.others},
    )


class _Annotated(Metric):
    read = staticmethod(coco_scores)


ANNOTATED = _Annotated(
    kind="ap", name=AP, unit="images", of="images with annotations", is_share=True, files="", flags=("--allow-missing",)
)


def _guess(dataset: CocoDataset, figure: str) -> float:
    """Return the score of who answers the most frequent class for every image or pixel; boxes cannot be guessed."""
    truth, real = dataset.truth, ~dataset.truth.crowd
    classes = np.unique(truth.category_ids[real], return_inverse=True)[1]
    parts = np.bincount(classes, truth.areas[real] if figure == "mIoU" else None)
    share = float(parts.max() / parts.sum())
    return {"top1": share, "mIoU": share / len(parts)}.get(figure, 0.0)


def _at_thresholds(
    matches: Matches, names: Sequence[str], counts: NDArray[np.int32], whole: ResampledScore
) -> dict[str, ResampledScore]:
    """Return the scores that depend on a threshold; without those that nothing found has."""
    asked = [(name, at) for name in names if (at := threshold_in(name)) is not None]
    if (found := matches.verdicts()) is None:
        return {}
    verdicts = Verdicts.joined(found)
    made = {at: operate(verdicts, at, counts) for at in dict.fromkeys(at for _, at in asked)}
    plain = replace(whole, figures={}, classes=(), class_resampled=None)
    figures = [(name, name.partition("@")[0], made[at]) for name, at in asked]
    return {
        name: replace(
            plain,
            name=name,
            value=value,
            resampled=found.resampled[figure],
            worse=AT_THRESHOLD[figure],
            guess=0.0 if AT_THRESHOLD[figure] == "falls" else None,
        )
        for name, figure, found in figures
        if (value := found.figures[figure]) is not None
    }
