import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import duration, names
from trt_workbench.decide.settings import precisions


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("2H", 7200)])
def test_times(text: str, seconds: float) -> None:
    assert duration("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "0s", "infs", "nanm", "1d", "1e99h"])
def test_what_is_no_time(text: str) -> None:
    with refused(UsageProblem):
        duration("--budget", text)


def test_lists() -> None:
    assert names("--backends", "trt, ort-cpu,trt") == ("trt", "ort-cpu")
    with refused(UsageProblem):
        names("--backends", " , ")
    assert precisions("--precisions", "fp32,int8-mixed") == ("fp32", "int8-mixed")
    with refused(UsageProblem):
        precisions("--precisions", "fp32,int9")
