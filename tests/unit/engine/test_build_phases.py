import time

import pytest

from trt_workbench.engine.build_phases import BuildPhases


def test_the_outermost_and_the_innermost_phase_are_told() -> None:
    phases = BuildPhases()
    assert phases.text == "build"
    for phase, step, total in (("Building", 0, 6), ("Optimising", 1, 3), ("Tactics", 5, 40)):
        assert phases(phase, step, total)
    assert phases.text == "Building 0 of 6, Tactics 5 of 40"
    phases("Tactics", 40, 40)
    assert phases.text == "Building 0 of 6, Optimising 1 of 3"


def test_calibration_gets_the_number_of_its_batches() -> None:
    seen: list[tuple[str, int, int]] = []
    phases = BuildPhases(lambda *step: bool(seen.append(step)) or True, batches=9)
    phases("build", 0, 0)
    phases("calibrate", 3, 0)
    assert phases.text == "build, calibrate 3 of 9"
    phases("calibrate", 9, 0)
    assert phases.text == "build"
    assert seen == [("build", 0, 0), ("calibrate", 3, 9), ("calibrate", 9, 9)]


def test_a_limit_or_a_listener_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not BuildPhases(lambda *_: False)("a", 0, 1)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    phases = BuildPhases(limit_s=1)
    now.append(100.9)
    assert phases("a", 0, 2)
    now.append(101.0)
    assert not phases("a", 1, 2)
    assert phases.is_over
