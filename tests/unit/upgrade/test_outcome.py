"""The verdict on a model from what was found in both stacks."""

import pytest

from trt_workbench.quantize import RowScore
from trt_workbench.upgrade.document import FAILED, Checked, ScoredPair, Timed
from trt_workbench.upgrade.run import _outcome, _unstable, worst
from trt_workbench.upgrade.settings import UpgradeSettings


@pytest.mark.parametrize("sides", [(True, False), (False, True), (False, None)])
def test_where_a_stack_did_not_start_nothing_is_known_of_a_model(sides: tuple[bool, bool | None]) -> None:
    first, second = (
        one if one is None else Checked(verdict="right" if one else None, reason="no daemon", started=one)
        for one in sides
    )
    assert first is not None
    assert _outcome(UpgradeSettings(), first, second, None, None, None) == ("not run", ["no daemon"])


def checked(verdict: str | None, relative_l2: float | None = None, stack: str = "new") -> Checked:
    return Checked(verdict=verdict, reason=f"so said the {stack} stack", relative_l2=relative_l2)


@pytest.mark.parametrize(
    ("before", "after", "apart", "outcome"),
    [
        ("consistent", "right", 1e-7, "safe"),
        ("right", "right within fp16", 1e-3, "safe"),
        ("right", "wrong", 0.1, "wrong"),
        ("wrong", "wrong", 0.1, "wrong"),
        ("wrong", "right", 0.0, "safe"),
        ("right", "undecided", 0.1, "not proven"),
        ("undecided", "undecided", 0.1, "not proven"),
        ("undecided", "undecided", None, "not proven"),
        ("undecided", "undecided", 0.0, "safe"),
        ("right", None, None, "refused"),
        (None, "right", 0.0, "safe"),
        (None, None, None, "refused by both"),
    ],
)
def test_verdicts(before: str | None, after: str | None, apart: float | None, outcome: str) -> None:
    found, reasons = _outcome(UpgradeSettings(), checked(before, stack="old"), checked(after, apart), None, None, None)
    assert found == outcome
    assert any("so said the new stack" in one for one in reasons) == (outcome in FAILED)
    assert any("so said the old stack" in one for one in reasons) == (before in (None, "wrong") and after != "wrong")


def test_a_score_that_was_asked_for_and_is_not_there_proves_nothing() -> None:
    scored = ScoredPair(reason="no such folder")
    found, reasons = _outcome(UpgradeSettings(), checked("right"), checked("right", 0.0), None, None, scored)
    assert (found, reasons) == ("not proven", ["Not scored: no such folder"])


def scored(loss: float, ends: tuple[float, float], images: int) -> ScoredPair:
    before = RowScore(value=0.5, ci95=None, loss=0.0, loss_ci95=None)
    return ScoredPair(
        name="AP",
        before=before,
        after=RowScore(value=0.5 - loss, ci95=None, loss=loss, loss_ci95=ends, alike=ends[0] == -ends[1]),
        images=images,
    )


@pytest.mark.parametrize(
    ("pair", "apart", "outcome"),
    [
        (scored(0.001, (-0.002, 0.004), 5000), 1e-3, "safe"),
        (scored(0.02, (0.01, 0.03), 100), 1e-3, "lower score"),
        (scored(0.001, (-0.002, 0.009), 100), 1e-3, "not proven"),
        (scored(0.001, (-0.002, 0.004), 29), 1e-3, "not proven"),  # decide's rule, too
        (scored(0.0, (-0.038, 0.038), 100), 1e-3, "not proven"),
        (scored(0.0, (-0.0038, 0.0038), 1000), 1e-3, "safe"),
        (scored(0.0, (-0.038, 0.038), 100), 0.0, "safe"),
    ],
)
def test_scores(pair: ScoredPair, apart: float, outcome: str) -> None:
    found, _ = _outcome(UpgradeSettings(), checked("right"), checked("right", apart), None, None, pair)
    assert found == outcome


def test_a_score_that_was_no_better_than_a_guess_proves_nothing() -> None:
    pair = scored(0.0, (0.0, 0.0), 1000)
    assert pair.before is not None
    guessed = pair.model_copy(update={"before": pair.before.model_copy(update={"value": 0.0, "guess": 0.0})})
    found = {
        apart: _outcome(UpgradeSettings(), checked("right"), checked("right", apart), None, None, guessed)
        for apart in (0.0, 1e-3)
    }
    said = "AP 0.0000 before, as good as guessing (0), so there is nothing to lose; check model and data."
    assert (found[0.0][0], found[1e-3]) == ("safe", ("not proven", [said]))


def test_the_worst_of_several_builds_decides() -> None:
    order = [checked(None), checked("wrong"), checked("undecided"), checked("right")]
    for place, one in enumerate(order):
        assert worst(order[place:][::-1]) == one


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("regression", "slower"), ("improvement", "safe"), ("cannot tell", "not proven"), ("wrong in B", "wrong")],
)
def test_latencies(said: str, outcome: str) -> None:
    timed = Timed(before_ms=1.0, after_ms=1.2, ratio=1.2, ratio_low=1.1, ratio_high=1.3, outcome=said)
    found, reasons = _outcome(UpgradeSettings(), checked("right"), checked("right", 0.0), None, timed, None)
    assert found == outcome
    assert "1.200 times, interval 1.100 to 1.300" in reasons[0]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("not measured", "not proven"),
        ("failed in B", "not proven"),
        ("only in A", "not proven"),
        ("wrong in B", "wrong"),
    ],
)
def test_a_latency_that_was_asked_for_and_is_not_there_proves_nothing(said: str, outcome: str) -> None:
    timed = Timed(outcome=said, reason="it was killed")
    found, reasons = _outcome(UpgradeSettings(), checked("right"), checked("right", 0.0), None, timed, None)
    assert found == outcome
    assert "timed: it was killed." in reasons[0]


def test_the_side_whose_times_are_unstable_has_the_name_that_the_page_gives_it() -> None:
    assert _unstable({"A": ("it crept",), "B": ("the clock moved", "it crept")}) == (
        "before: it crept; after: the clock moved"
    )
