"""The verdict on a model from what was found in both stacks."""

import pytest

from trt_workbench.upgrade.document import FAILED, Checked, ScoredPair, Timed
from trt_workbench.upgrade.run import _outcome
from trt_workbench.upgrade.settings import UpgradeSettings


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


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("regression", "slower"), ("improvement", "safe"), ("cannot tell", "safe"), ("wrong in B", "wrong")],
)
def test_latencies(said: str, outcome: str) -> None:
    timed = Timed(before_ms=1.0, after_ms=1.2, ratio=1.2, ratio_low=1.1, ratio_high=1.3, outcome=said)
    found, reasons = _outcome(UpgradeSettings(), checked("right"), checked("right", 0.0), None, timed, None)
    assert found == outcome
    assert "1.200 times, interval 1.100 to 1.300" in reasons[0]
