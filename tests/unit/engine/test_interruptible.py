from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.interruptible import call_interruptibly


def test_results_and_errors_come_back() -> None:
    assert call_interruptibly(lambda: 7) == 7

    def fail() -> None:
        raise UsageProblem("no such operator")

    with refused(UsageProblem):
        call_interruptibly(fail)
