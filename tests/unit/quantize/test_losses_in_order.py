"""A candidate that is nowhere worse than another one, sample by sample, gets no worse verdict."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trt_workbench.quantize.document import RowScore
from trt_workbench.quantize.figures import COSINE, metric_of
from trt_workbench.quantize.own import _step
from trt_workbench.quantize.scores import SampleNumbers, SampleScores

Values = NDArray[np.float64]
ORDER = ("yes", "not shown", "no")
SCALES = (1e-3, 1.0, 1e4)
COUNTS = (1, 2, 3, 29, 30, 40, 200, 10_000)
BASELINES = ("right or wrong", "all right", "in steps", "continuous")


def baseline_of(rng: np.random.Generator, kind: str, count: int, scale: float) -> Values:
    """Return the scores of samples."""
    drawn = {
        "right or wrong": lambda: (rng.random(count) < 0.8).astype(float),
        "all right": lambda: np.ones(count),
        "in steps": lambda: np.round(rng.random(count), 1),
        "continuous": lambda: rng.random(count),
    }
    return scale * drawn[kind]()


LOSSES: dict[str, Any] = {
    "none": lambda _, count: np.zeros(count),
    "all alike": lambda _, count: np.full(count, 0.01),
    "tiny": lambda rng, count: 1e-6 * rng.random(count),
    "noise": lambda rng, count: 0.01 * rng.normal(size=count),
    "one": lambda _, count: np.r_[0.05, np.zeros(count - 1)],
    "few": lambda rng, count: 0.2 * (rng.random(count) < 0.05) * rng.random(count),
    "one gains": lambda _, count: np.r_[np.zeros(count - 1), -0.9],
    "few gain": lambda rng, count: -1.0 * (rng.random(count) < 0.05),
    "all lose": lambda rng, count: 0.5 * rng.random(count),
}


def judged(score: RowScore, count: int, bound: float) -> int:
    """Return the place of the verdict in `ORDER`, as decide finds it."""
    lost = score.loss_ci95 is not None and score.loss_ci95[0] > bound
    return 0 if score.keeps(bound, count) else 2 if lost else 1


def of_function(each: Values, guessed: Values, worse: str = "falls") -> dict[str, Any]:
    """The fields of what a function gives of samples."""
    guess = {"each": guessed.tolist(), "folded": ()}
    own = {"each": each.tolist(), "folded": ()}
    return {**own, "worse": worse, "step": _step(own, guess), "guessed": guess}


def against(folder: Path, count: int, baseline: dict[str, Any], candidate: dict[str, Any], figure: str) -> RowScore:
    """Return the score of what two runs have written."""
    found, metric = [], metric_of(figure)
    for name, fields in (("baseline", baseline), ("candidate", candidate)):
        (folder / name).mkdir(exist_ok=True)
        numbers = {getattr(metric, "number", "") or "f": SampleNumbers(**fields)}
        scores = SampleScores(names=[str(n) for n in range(count)], numbers=numbers)
        (folder / name / "samples.json").write_text(scores.model_dump_json())
        found.append(metric.read(folder / name, 0))
    return found[1].against(found[0])


@settings(deadline=None, max_examples=100)
@example("right or wrong", "none", "tiny", 40, 1.0, True, 0.003, 0)
@example("continuous", "one gains", "none", 40, 1.0, True, 0.003, 0)
@given(
    st.sampled_from(BASELINES),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(COUNTS),
    st.sampled_from(SCALES),
    st.booleans(),
    st.floats(-0.1, 0.4),
    st.integers(0, 1000),
)
def test_a_candidate_that_is_nowhere_worse_gets_no_worse_verdict(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    first: str,
    second: str,
    count: int,
    scale: float,
    higher: bool,
    bound: float,
    seed: int,
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("pair")
    own = baseline_of(rng, kind, count, scale)
    less = scale * LOSSES[first](rng, count)
    more = np.maximum(less, scale * LOSSES[second](rng, count))
    sign = 1 if higher else -1

    def fields(loss: Values) -> dict[str, Any]:
        return of_function(own - sign * loss, own * 0.5 - sign * scale, "falls" if higher else "rises")

    better, worse = (against(folder, count, fields(np.zeros(count)), fields(loss), "f") for loss in (less, more))
    assert better.loss_ci95 is not None
    assert worse.loss_ci95 is not None
    rounding = 1e-12 * scale
    assert better.loss_ci95[0] <= worse.loss_ci95[0] + rounding
    assert better.loss_ci95[1] <= worse.loss_ci95[1] + rounding
    ends = (*better.loss_ci95, better.loss, *worse.loss_ci95, worse.loss)
    if all(abs(end - bound * scale) > rounding for end in ends):
        assert judged(better, count, bound * scale) <= judged(worse, count, bound * scale)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["cosine", "top1", "perplexity"]),
    st.sampled_from([2, 30, 40, 200]),
    st.sampled_from([1, 32]),
    st.floats(0.0001, 0.2),
    st.integers(0, 1000),
)
def test_the_scores_of_our_own_judge_so_too(
    tmp_path_factory: pytest.TempPathFactory, figure: str, count: int, positions: int, bound: float, seed: int
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("pair")
    less = rng.integers(0, positions + 1, count) / positions * (rng.random(count) < rng.choice([0, 0.02, 0.5]))
    more = np.maximum(less, rng.integers(0, positions + 1, count) / positions * (rng.random(count) < 0.05))
    texts = rng.normal(3, 0.4, count)

    def fields(loss: Values) -> dict[str, Any]:
        if figure == "perplexity":
            return {"each": (32 * (texts + loss)).tolist(), "worse": "grows", "fold": "exponential", "parts": 32}
        steps = {"step": 1 / positions, "counts": positions == 1} if figure == "top1" else {}
        return {"each": (1 - loss).tolist(), **steps}

    better, worse = (against(folder, count, fields(np.zeros(count)), fields(loss), figure) for loss in (less, more))
    assert judged(better, count, bound) <= judged(worse, count, bound)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(BASELINES), st.sampled_from(sorted(LOSSES)), st.sampled_from(COUNTS), st.integers(0, 1000))
def test_a_candidate_that_changes_nothing_gets_no_worse_verdict_than_one_that_is_not_shown_to_gain(
    tmp_path_factory: pytest.TempPathFactory, kind: str, name: str, count: int, seed: int
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("pair")
    own = baseline_of(rng, kind, count, 1.0)
    each = (own, own - LOSSES[name](rng, count))
    fields, changed = (of_function(one, own * 0.5 - 1) for one in each)
    same, other = (against(folder, count, fields, one, "f") for one in (fields, changed))
    assert same.loss_ci95 is not None
    assert other.loss_ci95 is not None
    assert same.loss_ci95[1] <= 1.001 * other.loss_ci95[1] or other.loss_ci95[1] <= 0


def test_a_loss_of_nothing_is_judged_as_a_tiny_one_is(tmp_path: Path) -> None:
    """The interval of 40 samples that lost nothing was wider than that of a candidate that lost a little."""
    rng = np.random.default_rng(1)
    own = rng.uniform(0.1, 0.3, 40)
    losses = (np.zeros(40), rng.uniform(0, 0.0024, 40))
    before, *after = (of_function(own + loss, np.full(40, 0.4), "rises") for loss in (np.zeros(40), *losses))
    none, some = (against(tmp_path, 40, before, one, "f") for one in after)
    assert none.loss_ci95 == (0, 0)
    assert none.keeps(0.005, 40)
    assert some.keeps(0.005, 40)


@pytest.mark.parametrize(("count", "shown"), [(40, False), (735, False), (736, True)])
def test_right_and_wrong_need_as_many_samples_as_the_rule_of_three_says(
    tmp_path: Path, count: int, *, shown: bool
) -> None:
    fields = of_function((np.arange(count) % 5 > 0).astype(float), np.zeros(count))
    found = against(tmp_path, count, fields, fields, "f")
    assert found.keeps(0.005, count) is shown
    assert found.loss_ci95 is not None
    assert found.loss_ci95[1] == pytest.approx(1 - 0.025 ** (1 / count), rel=1e-4)


def test_a_position_is_a_step_of_an_agreement(tmp_path: Path) -> None:
    outputs: dict[str, Any] = {"y": np.random.default_rng(0).standard_normal((40, 32, 5))}
    fields = COSINE.numbers({"outputs": outputs, "expected": outputs, "ids": None})["numbers"]["top1"]
    ends = against(tmp_path, 40, fields, fields, "top1").loss_ci95
    assert ends is not None
    assert ends[1] == pytest.approx(0.0881 / 32, rel=0.001)


def test_the_baseline_that_is_always_right_moves_by_as_much_as_a_guess_does(tmp_path: Path) -> None:
    values = of_function(np.ones(40), np.zeros(40))
    ends = against(tmp_path, 40, values, values, "f").loss_ci95
    assert ends is not None
    assert ends[1] == pytest.approx(0.088, abs=0.001)
    near = of_function(np.ones(40), np.linspace(0.1, 0.6, 40))  # a likeness: no two are the same
    assert against(tmp_path, 40, near, near, "f").loss_ci95 == (0, 0)


def test_a_fold_has_steps_in_its_own_unit(tmp_path: Path) -> None:
    counted = (np.arange(40) % 4 > 0).astype(float).tolist()
    own, guess = ({"each": counted, "folded": [value] * 1001} for value in (0.8, 0.3))
    fields = {**own, "guessed": guess, "step": _step(own, guess)}
    ends = against(tmp_path, 40, fields, fields, "f").loss_ci95
    assert ends is not None
    assert ends[1] == pytest.approx(0.5 * 0.088, abs=0.001)
    assert not math.isclose(ends[1], 0.088, abs_tol=0.01)


@pytest.mark.parametrize("lost", [4, 10, 30])
def test_a_loss_of_agreement_is_shown_to_be_a_loss(tmp_path: Path, lost: int) -> None:
    """No sample agrees more than fully: one that was not drawn cannot make up for those that lose."""
    from scipy.stats import binomtest

    fields, changed = (
        {"each": np.r_[np.zeros(count), np.ones(100 - count)].tolist(), "step": 1.0, "counts": True}
        for count in (0, lost)
    )
    ends = against(tmp_path, 100, fields, changed, "top1").loss_ci95
    expected = binomtest(lost, 100).proportion_ci(method="exact")
    assert ends is not None
    assert 0 < ends[0] == pytest.approx(expected.low, abs=0.01)
    assert ends[1] == pytest.approx(expected.high, abs=0.015)
