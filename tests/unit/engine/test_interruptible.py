import pytest

from trt_workbench.engine.interruptible import call_interruptibly
from trt_workbench.errors import UsageProblem


def test_results_and_errors_come_back() -> None:
    assert call_interruptibly(lambda: 7) == 7

    def fail() -> None:
        raise UsageProblem("no such operator")

    with pytest.raises(UsageProblem, match="no such operator"):
        call_interruptibly(fail)
