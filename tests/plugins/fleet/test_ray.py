"""A run on a real Ray cluster of two nodes: workers killed while it runs, nothing lost and nothing twice."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.in_app import stderr_of, stdout_of
from tests.plugins.fleet.test_slurm import EVALUATION, write
from tests.ray_cluster import killed_run, ray_cluster
from tests.shards import assert_scored_alike

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
TOKEN = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    with ray_cluster(TOKEN) as found:
        yield found


def test_a_run_whose_workers_are_killed_gives_what_one_process_gives(variables: dict[str, str], tmp_path: Path) -> None:
    stdout_of("eval-coco", *EVALUATION, "--output", tmp_path / "one")
    found = killed_run(variables, write(tmp_path, alone=True), tmp_path / "out", seed=1)
    assert found["exit_code"] == 0, found
    assert found["completed"] == [1] * 8, found
    assert found["events"], found
    assert_scored_alike(tmp_path / "out/run", tmp_path / "one")


def test_a_resource_that_no_node_has_and_a_wrong_token_are_refused(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, variables[name])
    file = write(tmp_path, gpu_types={"b300": "NVIDIA B300"}, shards=1)
    said = stderr_of("submit", file, "--to", "ray", "--run")
    assert "No node of this Ray cluster has {'CPU': 1.0, 'GPU': 1, 'b300': 1}" in said
    assert "'h200': 1.0" in said
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 32)
    assert "RAY_AUTH_TOKEN" in stderr_of("submit", write(tmp_path), "--to", "ray", "--run", code=3)
