"""A run on a real Slurm cluster: nodes drained and tasks killed while it runs, nothing lost and nothing twice."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.in_app import stderr_of, stdout_of
from tests.plugins.fleet.test_nasty_words import array_of, said, with_stub
from tests.shards import assert_scored_alike
from tests.slurm_cluster import TRTW, SlurmCluster, disturbed_run, lacking

from trt_workbench_fleet.slurm import SCRIPT, Slurm

pytestmark = pytest.mark.skipif(bool(lacking()), reason=f"{lacking()} of Slurm is not installed (Debian: slurm-wlm)")
EVALUATION = ["--limit", "24", "--backend", "ort-cpu", "--workers", "1", "--no-report"]
SHARDS = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def write(folder: Path, **changes: Any) -> Path:
    document = {
        "name": "scenes",
        "command": "eval-coco",
        "arguments": EVALUATION,
        "shards": SHARDS,
        "folder": str(folder / "out"),
        "program": TRTW,
    }
    (folder / "RUN.yaml").write_text(yaml.safe_dump({**document, **changes}))
    return folder / "RUN.yaml"


def test_a_disturbed_array_gives_what_one_process_gives(cluster: SlurmCluster, tmp_path: Path) -> None:
    stdout_of("eval-coco", *EVALUATION, "--output", tmp_path / "one")
    found = disturbed_run(cluster, write(tmp_path), tmp_path / "out", seed=1)
    assert found["exit_code"] == 0, found
    assert found["completed"] == [1] * SHARDS, found
    assert_scored_alike(tmp_path / "out/run", tmp_path / "one")


def test_a_type_of_gpu_is_asked_of_the_nodes_that_have_it(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task ends at the check of its node, which has no such card; a type that no node has is never queued."""
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    file = write(tmp_path, gpu_types={"h200": "NVIDIA H200", "b300": "NVIDIA B300"}, shards=1)
    said = stderr_of("submit", file, "--to", "slurm", "--run", "--gpu-types", "b300")
    assert "This cluster has no node with a GPU of type b300; there are: h200, l4." in said
    stdout_of("submit", file, "--to", "slurm", "--gpu-types", "h200")
    script = tmp_path / "out/h200/shards.sbatch"
    command = ["sbatch", "--wait", script]
    assert subprocess.run(command, env=cluster.environment, check=False, capture_output=True).returncode != 0
    assert "the GPU is not there, wanted NVIDIA H200" in (tmp_path / "out/h200/logs/0.log").read_text()


def test_a_node_with_another_version_is_left_out(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails its tasks at once, and so takes most of them: they are repeated on the other node."""
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    package = tmp_path / "site/pretended-2.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pretended\nVersion: 2\n")
    setup = [f'[ "$SLURMD_NODENAME" != n2 ] || export PYTHONPATH="{tmp_path}/site:${{PYTHONPATH:-}}"']
    file = write(tmp_path, setup=setup, checks={"packages": {"pretended": "2"}}, shards=4)
    stdout_of("submit", file, "--to", "slurm", "--run")
    assert (tmp_path / "out/logs/unfit-nodes").read_text().split()[0] == "n1"
    logs = "".join(log.read_text() for log in (tmp_path / "out/logs").glob("*.log"))
    assert "pretended is not installed, wanted 2" in logs


def test_a_measurement_has_its_node_alone(cluster: SlurmCluster, tmp_path: Path) -> None:
    stdout_of("submit", write(tmp_path, alone=True), "--to", "slurm")
    job = cluster.ask("sbatch", "--parsable", "--hold", str(tmp_path / "out/shards.sbatch")).strip()
    assert "OverSubscribe=NO" in cluster.ask("scontrol", "show", "job", job)
    cluster.ask("scancel", job)


def test_words_arrive_through_sbatch_as_they_were_typed(cluster: SlurmCluster, tmp_path: Path) -> None:
    """sbatch reads the script's comments and copies it to a node."""
    folder = with_stub(tmp_path)
    words = ["$$ $(X) `id` {{x}}", "a\n#SBATCH --wrap=x\n", "\u2028 %a %% '\"\\", "#"]
    array = array_of(folder, words, "$(id) 'é'")
    script = folder / SCRIPT
    script.write_text(Slurm().files(array)[SCRIPT], encoding="utf-8")
    done = subprocess.run(["sbatch", "--wait", script], env=cluster.environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    (_, check), (mark, work) = said(folder)
    assert check == ["submit", str(folder / "run.yaml"), "--check-node"]
    assert (mark, work) == ("$(id) 'é'", ["verify", *words, "--shard", "0/1", "--output", str(folder / "shard-0")])


@pytest.mark.parametrize("time", ["90", "1:30", "01:30:00", "1-0", "1-02:03", "1-02:03:04", "UNLIMITED"])
@pytest.mark.parametrize("memory", ["500", "500M", "1g"])
def test_sbatch_takes_the_times_and_sizes_that_are_taken(
    cluster: SlurmCluster, tmp_path: Path, time: str, memory: str
) -> None:
    folder = with_stub(tmp_path)
    array = array_of(folder, ["m"], "", slurm={"time": time, "memory": memory})
    (folder / SCRIPT).write_text(Slurm().files(array)[SCRIPT], encoding="utf-8")
    for changed, taken in (("", True), ("GiB", False)):
        text = (folder / SCRIPT).read_text(encoding="utf-8").replace(f"--mem={memory}", f"--mem={memory}{changed}")
        (folder / "changed").write_text(text, encoding="utf-8")
        asked = ["sbatch", "--test-only", folder / "changed"]
        done = subprocess.run(asked, env=cluster.environment, check=False, capture_output=True, text=True)
        assert ("nvalid" not in done.stderr) == taken, done.stderr
