"""Print a line a cell of a grid: in what share of trials the 95 % interval of a paired loss holds the true loss.

Each trial draws so many samples; a share of them loses and a share gains. The interval is the one that `decide`,
`quantize`, `gate` and `upgrade` judge by: that of `ResampledScore.against`.
"""

import argparse
import json
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trt_workbench.core.statistics import bootstrap
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.vision.dataset import Category, GroundTruth
from trt_workbench.vision.detections import DetectionTable
from trt_workbench.vision.matches import CocoMatches
from trt_workbench.vision.tasks.semantic import PixelScores

SHARES = ((0.02, 0.0), (0.04, 0.0), (0.04, 0.02), (0.08, 0.06), (0.3, 0.1))
UNITS = (40, 80, 200)
CLASSES = tuple(Category(one, str(one)) for one in (1, 2, 3))
draw_counts = bootstrap.draw_counts = cache(bootstrap.draw_counts)  # the same in every trial
OF_ALL = 4000  # images that trials of AP and mIoU draw from
Values = NDArray[np.float64]
Moved = NDArray[np.int64]
"""Of each sample 1 where it loses, -1 where it gains, else 0."""
Trial = tuple[ResampledScore, ResampledScore]
Kind = tuple[float, Callable[[Moved], Trial]]
"""The true loss, and what makes one trial of samples that move so."""


def moved(rng: np.random.Generator, lose: float, gain: float, units: int) -> Moved:
    """Draw which samples lose and gain."""
    return rng.choice(np.array([1, -1, 0]), units, p=(lose, gain, 1 - lose - gain))


def of_means(before: Values, after: Values, step: float = 0.0) -> Trial:
    """Return the scores of models of which every sample has a figure, the mean of which is the score."""
    counts = draw_counts(len(before), 0) / len(before)
    first, second = (
        ResampledScore(float(one.mean()), counts @ one, "", len(one), step=step, each=one) for one in (before, after)
    )
    return first, second


def top1(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Each sample is right or wrong; one in five of the others is wrong for both models."""

    def trial(side: Moved) -> Trial:
        other = (rng.random(len(side)) < 0.8).astype(float)
        return of_means(np.where(side, side > 0, other), np.where(side, side < 0, other), 1.0)

    return lose - gain, trial


def texts(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Texts of 10 to 59 characters, of which half have errors; those that lose or gain do so by two errors or so."""
    lengths = np.arange(10, 60)

    def trial(side: Moved) -> Trial:
        own, more, length = rng.poisson(0.7, len(side)), 1 + rng.poisson(1, len(side)), rng.choice(lengths, len(side))
        before, after = (-(own + more * (side == one)) / length for one in (-1, 1))
        return of_means(before, after, bootstrap.step_of(before))

    return 2 * float((1 / lengths).mean()) * (lose - gain), trial


def moving_array(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Rounding moves the likeness of every sample by about 0.01; of those that lose or gain it moves by 0.03 more."""

    def trial(side: Moved) -> Trial:
        loss = 0.01 * abs(rng.standard_normal(len(side))) + 0.03 * side
        return of_means(np.ones(len(side)), 1 - loss)

    return 0.01 * float(np.sqrt(2 / np.pi)) + 0.03 * (lose - gain), trial


def few_array(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Most samples are equal to the last bit; those that lose or gain do so by 0 to 0.2."""
    return 0.1 * (lose - gain), lambda side: of_means(np.ones(len(side)), 1 - 0.2 * side * rng.random(len(side)))


def rare_array(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Rounding moves every sample by noise of 0.01; those that lose or gain do so by 0 to 0.2 more."""
    return 0.1 * (lose - gain), lambda side: of_means(
        np.ones(len(side)), 1 - 0.2 * side * rng.random(len(side)) - rng.normal(0, 0.01, len(side))
    )


def perplexity(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Texts of 64 tokens: the mean log-likelihood has noise of 0.01, and moves by 0.03 where one loses or gains."""

    def trial(side: Moved) -> Trial:
        counts = draw_counts(len(side), 0) / len(side)
        own = rng.normal(3, 0.4, len(side))
        both = own, own + rng.normal(0, 0.01, len(side)) + 0.03 * side
        first, second = (
            ResampledScore(
                float(np.exp(one.mean())), np.exp(counts @ one), "", len(one), worse="grows", each=np.exp(one)
            )
            for one in both
        )
        return first, second

    return float(np.expm1(0.03 * (lose - gain))), trial


def mean_iou(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """Three classes; an image that loses keeps half of its right pixels, one that gains finds all."""
    annotated = rng.integers(200, 2000, (OF_ALL, 3)) * (rng.random((OF_ALL, 3)) < 0.7)
    right = (annotated * rng.uniform(0.5, 0.95, annotated.shape)).astype(np.int64)
    found = right + rng.integers(0, 300, annotated.shape)

    def scores(chosen: Moved, side: Moved) -> list[PixelScores]:
        own, all_, seen = right[chosen], annotated[chosen], found[chosen]
        after = np.select([side[:, None] > 0, side[:, None] < 0], [own // 2, all_], own)
        return [PixelScores(CLASSES, one, all_, seen + one - own) for one in (own, after)]

    def made(chosen: Moved, side: Moved) -> list[Callable]:
        return [one.of_resamples for one in scores(chosen, side)]

    return of_images(rng, lose, gain, made, "mIoU", int(np.count_nonzero(annotated)))


def average_precision(rng: np.random.Generator, lose: float, gain: float) -> Kind:
    """One to three objects an image, 0.9 of them found; what loses finds none, what gains finds them alone."""
    objects = [rng.integers(1, 4, rng.integers(1, 4)) for _ in range(OF_ALL)]
    boxes = np.array([[100.0 * place, 0, 80, 80] for place in range(4)])
    seen = [rng.random(len(one)) < 0.9 for one in objects]
    scores = [rng.uniform(0.3, 1, 4) for _ in objects]
    jitter = [rng.uniform(-8, 8, (4, 4)) for _ in objects]
    false = rng.random(OF_ALL) < 0.3

    def found(chosen: Moved, side: Moved) -> CocoMatches:
        rows = [
            (number, kind, boxes[place] + jitter[image][place], scores[image][place])
            for number, (image, moves) in enumerate(zip(chosen.tolist(), side.tolist(), strict=True), 1)
            for place, kind in enumerate(objects[image])
            if moves <= 0 and (moves or seen[image][place])
        ]
        rows += [
            (number, 1, boxes[3] + jitter[image][3], 0.7 * scores[image][3])
            for number, (image, moves) in enumerate(zip(chosen.tolist(), side.tolist(), strict=True), 1)
            if false[image] and moves >= 0
        ]
        ids, kinds, places, sure = (np.array(one) for one in zip(*rows, strict=True))
        table = DetectionTable(ids, kinds.astype(np.int64), places, sure.astype(np.float32))
        every = [(number, kind, boxes[place]) for number, image in enumerate(chosen.tolist(), 1)
                 for place, kind in enumerate(objects[image])]  # fmt: skip
        ids, kinds, places = (np.array(one) for one in zip(*every, strict=True))
        truth = GroundTruth(ids, kinds, places, places[:, 2] * places[:, 3], np.zeros(len(ids), np.bool_))
        return CocoMatches(np.arange(1, len(chosen) + 1), truth, CLASSES, table)

    def made(chosen: Moved, side: Moved) -> list[Callable]:
        return [found(chosen, one).figures for one in (np.zeros_like(side), side)]

    return of_images(rng, lose, gain, made, "AP", sum(map(len, objects)))


def of_images(
    rng: np.random.Generator,
    lose: float,
    gain: float,
    made: Callable[[Moved, Moved], list[Callable]],
    name: str,
    annotations: int,
) -> Kind:
    """Return trials of images that are drawn from all; the true loss is that of all, each in every state."""
    every = np.tile(np.arange(OF_ALL), 3)
    weights = [np.full(OF_ALL, round(1000 * share)) for share in (lose, gain, 1 - lose - gain)]
    before, after = made(every, np.repeat([1, -1, 0], OF_ALL))
    whole = np.concatenate(weights)[None].astype(np.int32)
    loss = float(before(whole).figures[name][0] - after(whole).figures[name][0])

    def trial(side: Moved) -> Trial:
        counts = np.concatenate([np.ones((1, len(side)), np.int32), draw_counts(len(side), 0)])
        drawn = [one(counts).figures[name] for one in made(rng.integers(0, OF_ALL, len(side)), side)]
        step = OF_ALL / annotations  # as `coco_scores` finds it
        first, second = (ResampledScore(float(one[0]), one[1:], "", len(side), step=step) for one in drawn)
        return first, second

    return loss, trial


KINDS = {
    "top1": top1,
    "texts": texts,
    "array, all move": moving_array,
    "array, few move": few_array,
    "array, few move far": rare_array,
    "perplexity": perplexity,
    "mIoU": mean_iou,
    "AP": average_precision,
}


def main() -> None:
    """Measure the cells of the kinds that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*KINDS])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--units", type=int, nargs="*", default=UNITS)
    parser.add_argument("--least", type=int, default=0, help="leave out trials in which fewer samples lose")
    asked = parser.parse_args()
    for name in asked.kinds:
        for units in asked.units:
            for lose, gain in SHARES:
                rng = np.random.default_rng(0)
                truth, trial = KINDS[name](rng, lose, gain)
                trials = below = above = 0
                for _ in range(asked.trials):
                    side = moved(rng, lose, gain, units)
                    if np.count_nonzero(side > 0) < asked.least:
                        continue
                    trials += 1
                    before, after = trial(side)
                    low, high = after.against(before).loss_ci95 or (0, 0)
                    below, above = below + (high < truth - 1e-12), above + (low > truth + 1e-12)
                line = {"kind": name, "units": units, "lose": lose, "gain": gain, "trials": trials}
                line |= {"upper_below": below, "lower_above": above}
                print(json.dumps(line, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
