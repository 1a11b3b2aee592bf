import os

import pytest

from trt_workbench.core.variables import let_idle_threads_sleep, wait_policy


def test_threads_sleep_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert wait_policy() == "default"
    let_idle_threads_sleep()
    assert os.environ["OMP_WAIT_POLICY"] == wait_policy() == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    let_idle_threads_sleep()
    assert wait_policy() == "ACTIVE"
