import subprocess
from pathlib import Path

import pytest

TENSORRT = Path(__file__).parents[3] / "tasks" / "activate-tensorrt.sh"


@pytest.fixture
def activated():
    def run(times=1, **variables):
        script = f'for _ in $(seq {times}); do . "{TENSORRT}"; done; echo "$TENSORRT_HOME|$LD_LIBRARY_PATH|$PATH"'
        environment = {"PIXI_PROJECT_ROOT": "/repo", "PATH": "/usr/bin:/bin", **variables}
        done = subprocess.run(["bash", "-u", "-c", script], env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.strip().split("|")

    return run


def test_tensorrt_is_made_visible(activated):
    home = "/repo/extern/tensorrt/current"
    assert activated() == [home, f"{home}/lib", f"{home}/bin:/usr/bin:/bin"]
    assert activated(LD_LIBRARY_PATH="/old")[1] == f"{home}/lib:/old"


def test_a_tensorrt_of_the_users_own_stays(activated):
    assert activated(TENSORRT_HOME="/opt/trt") == ["/opt/trt", "/opt/trt/lib", "/opt/trt/bin:/usr/bin:/bin"]


def test_activating_twice_changes_nothing(activated):
    assert activated(times=2) == activated(times=1)
