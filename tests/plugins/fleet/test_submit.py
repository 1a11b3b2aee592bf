"""`submit`: files as a person would write them, bad settings refused, and shards that fail run again."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import _forked_workers, _no_unheard_of_artefacts  # noqa: F401 - of every test here
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.shards import with_other_digit, without_times
from tests.texts import held

import trt_workbench
from trt_workbench_fleet import scheduler
from trt_workbench_fleet.array import RUN_FILE, read_array

pytestmark = pytest.mark.usefixtures("blank_pictures")

STUB = Path(__file__).parents[2] / "stub_trtw.py"
SHARDS = 4


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("local", "ray", "scheduler"):
        monkeypatch.setattr(f"trt_workbench_fleet.{module}.POLL_S", 0.05)


@pytest.fixture
def stub(coco: Any) -> Path:
    """The stub's folder, with the four shards of an evaluation of four images."""
    folder: Path = coco.root / "stub"
    (folder / "faults").mkdir(parents=True)
    for index in range(SHARDS):
        words = [*coco.arguments("--shard", f"{index}/{SHARDS}")]
        words[words.index("--output") + 1] = str(folder / "shards" / str(index))
        assert coco.invoke_exactly(words).exit_code == 0
    return folder


@pytest.fixture
def write(tmp_path: Path, coco: Any) -> Callable[..., Path]:
    """Return a function that writes RUN.yaml with changes, and returns its path."""

    def made(**changes: Any) -> Path:
        document = {
            "name": "night",
            "command": "eval-coco",
            "model": str(coco.model),
            "arguments": ["--conf", "0.001", "--data", "a folder"],
            "shards": SHARDS,
            "folder": "out",
            "program": ["trtw"],
            "kubernetes": {"image": "registry.example/trtw:1", "claim": "shared", "queue": "users"},
        }
        document = {key: value for key, value in {**document, **changes}.items() if value is not None}
        path = tmp_path / "RUN.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    return made


def stubbed(stub: Path) -> list[str]:
    return [sys.executable, str(STUB), str(stub)]


def starts(stub: Path) -> list[int]:
    return sorted(map(int, (stub / "starts").read_text().split()))


TYPES = {"h200": "NVIDIA H200", "rtx5090": "NVIDIA GeForce RTX 5090"}


def test_the_script_of_slurm_is_readable(write: Any, tmp_path: Path) -> None:
    slurm = {"partition": "gpu", "time": "01:30:00", "cpus": 8, "memory": "32G", "at_once": 2}
    words = write(gpu_types=TYPES, alone=True, slurm=slurm, setup=["source /shared/venv/bin/activate"], model=None)
    said = stdout_of("submit", words, "--to", "slurm", "--gpu-types", "h200")
    script = tmp_path / "out/h200/shards.sbatch"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    held(said, script.read_text())
    assert not (tmp_path / "out/rtx5090").exists()


def test_a_type_has_an_array_of_its_own(write: Any, tmp_path: Path) -> None:
    document = json_of("submit", write(gpu_types=TYPES), "--to", "slurm")
    assert document["files"] == [str(tmp_path / "out" / name / "shards.sbatch") for name in TYPES]
    read = yaml.safe_load((tmp_path / "out/rtx5090/run.yaml").read_text())
    assert read["gpu_types"] == {"rtx5090": TYPES["rtx5090"]}
    assert read["checks"]["packages"] == {"trt-workbench": trt_workbench.__version__}


@pytest.mark.readers
@pytest.mark.parametrize("alone", [False, True])
def test_the_manifest_meets_the_schemas_of_kubernetes(write: Any, tmp_path: Path, alone: bool) -> None:
    """By the API's own OpenAPI documents in strict form, of the oldest version that knows all fields and the newest."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    own = {"image": "registry.example/trtw:1", "claim": "shared", "queue": "users", "at_once": 2}
    whole = {"whole_node": {"nvidia.com/gpu": "8", "cpu": "120"}}
    stdout_of("submit", write(gpu_types=TYPES, alone=alone, kubernetes=own | whole), "--to", "kubernetes")
    manifest = yaml.safe_load((tmp_path / "out/h200/job.yaml").read_text())
    for version in ("1.31", "1.37"):
        validate.validate(manifest, version, strict=True)
    with pytest.raises(validate.ValidationError):
        validate.validate({**manifest, "spec": {**manifest["spec"], "completionmode": "Indexed"}}, "1.37", strict=True)
    spec = manifest["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", SHARDS, 2)
    assert (manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], spec["suspend"]) == ("users", True)
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    gpus = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    assert gpus == ("8" if alone else "1")
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == str(tmp_path / "out")


def test_the_manifest_is_readable(write: Any, tmp_path: Path) -> None:
    stdout_of("submit", write(gpu_types={"h200": TYPES["h200"]}, model=None), "--to", "kubernetes")
    held((tmp_path / "out/h200/job.yaml").read_text())


def test_the_environment_of_an_indexed_job_runs_every_shard(write: Any, tmp_path: Path, stub: Path) -> None:
    """What the container of each pod does, with the variables that Kubernetes sets in it."""
    stdout_of("submit", write(program=stubbed(stub)), "--to", "kubernetes")
    container = yaml.safe_load((tmp_path / "out/job.yaml").read_text())["spec"]["template"]["spec"]["containers"][0]
    variables = {one["name"]: one["value"] for one in container["env"]}
    for index in range(SHARDS):
        environment = {**os.environ, **variables, "JOB_COMPLETION_INDEX": str(index)}
        subprocess.run([*container["command"], *container["args"]], env=environment, check=True, capture_output=True)
    assert starts(stub) == [0, 1, 2, 3]
    stdout_of("merge", tmp_path / "out", "-o", tmp_path / "run", "--no-report")


def test_a_node_that_fails_its_check_does_no_work(write: Any, tmp_path: Path, stub: Path) -> None:
    (stub / "check").write_text("3")
    stdout_of("submit", write(program=stubbed(stub)), "--to", "kubernetes")
    container = yaml.safe_load((tmp_path / "out/job.yaml").read_text())["spec"]["template"]["spec"]["containers"][0]
    environment = {**os.environ, "JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": "4"}
    ended = subprocess.run([*container["command"], *container["args"]], env=environment, check=False)
    assert ended.returncode == 3
    assert not (stub / "starts").exists()


def test_the_program_for_ray_is_readable(write: Any, tmp_path: Path) -> None:
    stdout_of("submit", write(gpu_types={"h200": TYPES["h200"]}, alone=True, model=None), "--to", "ray")
    text = (tmp_path / "out/h200/ray_job.py").read_text()
    compile(text, "ray_job.py", "exec")
    assert "ray stop" not in text
    held(text)


def test_the_local_script_runs_all(write: Any, tmp_path: Path, stub: Path) -> None:
    said = stdout_of("submit", write(program=stubbed(stub), local={"at_once": 2}))
    subprocess.run(["bash", tmp_path / "out/shards.sh"], check=True)
    assert starts(stub) == [0, 1, 2, 3]
    assert "Merge: " in said


def test_a_changed_shard_is_missing_but_whoever_waits_reads_no_files(write: Any, tmp_path: Path, stub: Path) -> None:
    stdout_of("submit", write(program=stubbed(stub), local={"at_once": 2}))
    subprocess.run(["bash", tmp_path / "out/shards.sh"], check=True)
    array = read_array(tmp_path / "out" / RUN_FILE)
    assert (array.missing(), array.ended()) == ([], SHARDS)
    with_other_digit(array.shard_folder(1) / "predictions.json", '"score": ')
    shutil.rmtree(array.shard_folder(2))
    assert (array.missing(), array.ended()) == ([1, 2], SHARDS - 1)


@pytest.mark.long
def test_a_local_run_is_what_one_process_gives(write: Any, tmp_path: Path, stub: Path, coco: Any) -> None:
    assert coco.invoke("--no-report").exit_code == 0
    document = json_of("submit", write(program=stubbed(stub)), "--run")
    assert document["runs"] == [str(tmp_path / "out/run")]
    run = Path(document["runs"][0])
    assert without_times(run) == without_times(coco.output)
    assert (run / "report.html").is_file()
    # again: nothing is started
    json_of("submit", write(program=stubbed(stub)), "--run")
    assert starts(stub) == [0, 1, 2, 3]


@pytest.mark.long
def test_shards_that_fail_are_run_again(write: Any, stub: Path) -> None:
    """A full disk, a killed process: each at other attempts; what is done is not done again."""
    (stub / "faults/1").write_text("2\nkill")
    (stub / "faults/3").write_text("kill")
    json_of("submit", write(program=stubbed(stub), local={"at_once": 4}), "--run")
    assert starts(stub) == [0, 1, 1, 1, 2, 3, 3]


def test_a_shard_that_fails_three_times_is_named_and_the_others_are_kept(
    write: Any, stub: Path, tmp_path: Path
) -> None:
    (stub / "faults/2").write_text("2\n2\nkill\n2")
    held(stderr_of("submit", write(program=stubbed(stub)), "--run", code=4))
    assert starts(stub) == [0, 1, 2, 2, 2, 3]
    stdout_of("merge", tmp_path / "out", "-o", tmp_path / "run", "--partial", "--no-report")
    assert json.loads((tmp_path / "run/metrics.json").read_text())["shards"]["missing"] == [2]


def test_a_task_that_can_write_nothing_is_said_to_be_so(write: Any, stub: Path) -> None:
    """As on a node whose disk is full, for the log as well."""
    (stub / "faults/0").write_text("2\n2\n2")
    setup = ["exec 2> /dev/null"]
    said = stderr_of("submit", write(program=stubbed(stub), setup=setup), "--run", code=4)
    assert "The log of the first is empty: " in said


def test_a_model_travels_under_its_hash(write: Any, tmp_path: Path, coco: Any) -> None:
    stdout_of("submit", write(copy_model=True, gpu_types=TYPES), "--to", "slurm")
    read = yaml.safe_load((tmp_path / "out/h200/run.yaml").read_text())
    copied = Path(read["model"])
    assert copied == tmp_path / "out/models" / read["model_sha256"] / coco.model.name
    assert copied.read_bytes() == coco.model.read_bytes()
    assert str(copied) in (tmp_path / "out/h200/shards.sbatch").read_text()


def test_external_data_travels_too(write: Any, tmp_path: Path, coco: Any) -> None:
    import onnx

    onnx.save(onnx.load(coco.model), coco.model, save_as_external_data=True, location="w.bin", size_threshold=0)
    stdout_of("submit", write(copy_model=True), "--to", "slurm")
    (copied,) = (tmp_path / "out/models").iterdir()
    assert {file.name for file in copied.iterdir()} == {coco.model.name, "w.bin"}


@pytest.mark.parametrize(
    "changes",
    [
        {"shard": 4},
        {"slurm": {"partitions": "gpu"}},
        {"shards": 0},
        {"command": "predict"},
        {"command": "bench"},
        {"command": "bench", "alone": True, "local": {"at_once": 2}},
        {"name": "Night run"},
        {"arguments": ["--shard", "0/2"]},
        {"model": None, "copy_model": True},
        {"model_sha256": "0" * 64},
        {"model": "absent.onnx"},
        {"folder": "a folder"},
        {"folder": "~nobody/out"},
        {"model": "a\0b"},
        {"slurm": {"partition": "gpu\n#SBATCH --wrap=x"}},
        {"schema_version": 2},
        {"command": "verify", "model": "shapes-yolov10"},
        {"arguments": ["--data", "a\0b"]},
        {"setup": ["export A=a\0b"]},
        {"setup": ["a\nb"]},
        {"setup": ["<script>alert(1)</script>"]},
        {"program": ["trtw\n#SBATCH --wrap=x"]},
        {"slurm": {"time": 5400}},
        {"slurm": {"time": "lots"}},
        {"slurm": {"memory": "16GiB"}},
    ],
)
def test_bad_settings_are_refused(write: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    held(stderr_of("submit", write(**changes), "--to", "slurm"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": "lots"},
        {"memory": "16GiB"},
        {"memory": "-1"},
        {"image": "registry.example/trtw 1"},
        {"mount": "/elsewhere"},
        {"whole_node": {"gpu": "8"}},
        {"whole_node": {"nvidia.com/gpu": "all"}},
    ],
)
def test_what_kubernetes_would_refuse_is_refused_before(write: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    own = {"image": "registry.example/trtw:1", "claim": "shared", **changes}
    held(stderr_of("submit", write(kubernetes=own), "--to", "kubernetes"))
    assert not (tmp_path / "out").exists()


def test_names_that_kubernetes_would_refuse_are_refused_before(write: Any, tmp_path: Path) -> None:
    """Of a card, as a label; of the last pod, as that of a host."""
    for card in ("(?)", "N" * 64):
        held(stderr_of("submit", write(gpu_types={"h200": card}), "--to", "kubernetes"))
    long = {"name": "n" * 40, "gpu_types": {"t" * 20: "NVIDIA H200"}}
    held(stderr_of("submit", write(**long, shards=101), "--to", "kubernetes"))
    assert not (tmp_path / "out").exists()
    json_of("submit", write(**long, shards=10), "--to", "kubernetes")


@pytest.mark.parametrize(
    ("card", "label"),
    [
        ("NVIDIA H200 / PCIe (80 GB)", "NVIDIA-H200-PCIe-80-GB"),
        ("NVIDIA RTX PRO 6000 Blackwell", "NVIDIA-RTX-PRO-6000-Blackwell"),
        ("Tesla  T4", "Tesla-T4"),
    ],
)
def test_a_card_has_the_label_of_gpu_feature_discovery(write: Any, tmp_path: Path, card: str, label: str) -> None:
    """As release 0.15 of NVIDIA's k8s-device-plugin makes it: signs are left out, blanks are hyphens."""
    own = {"image": "registry.example/trtw:1", "claim": "shared", "cpu": 4}
    stdout_of("submit", write(gpu_types={"one": card}, kubernetes=own), "--to", "kubernetes")
    pod = yaml.safe_load((tmp_path / "out/one/job.yaml").read_text())["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": label}
    limits = pod["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}


def test_what_cannot_be_asked_for_is_refused(write: Any, tmp_path: Path) -> None:
    held(stderr_of("submit", write(gpu_types=TYPES), "--to", "slurm", "--gpu-types", "h100"))
    held(stderr_of("submit", write(), "--to", "slurm", "--gpu-types", "h200"))
    held(stderr_of("submit", write(kubernetes=None), "--to", "kubernetes"))
    held(stderr_of("submit", write(alone=True), "--to", "kubernetes"))
    held(stderr_of("submit", tmp_path / "absent.yaml"))
    (tmp_path / "file").write_text("")
    held(stderr_of("submit", write(folder="file/out"), "--to", "slurm"))


@pytest.mark.parametrize(("to", "tool"), [("slurm", "sbatch"), ("kubernetes", "kubectl")])
def test_a_scheduler_that_is_not_here_is_named(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, tool: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else name)
    held(stderr_of("submit", write(), "--to", to, "--run", code=3))
    assert not (tmp_path / "out").exists()


def test_ray_needs_an_address(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install 'trt-workbench-fleet[ray]'" in stderr_of("submit", write(), "--to", "ray", "--run", code=3)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    held(stderr_of("submit", write(), "--to", "ray", "--run"))


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of this name first on the path."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_type_that_no_node_has_is_refused_first(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "sbatch", "exit 9", monkeypatch)
    tool(tmp_path / "bin", "sinfo", "echo 'n1|gpu:h100:8(S:0-1)|'; echo 'n2|gpu:a100:4,gpu:t4:1|'", monkeypatch)
    held(stderr_of("submit", write(gpu_types=TYPES), "--to", "slurm", "--run"))
    node = {"items": [{"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-A10"}}}, {"metadata": {}}]}
    tool(tmp_path / "bin", "kubectl", f"echo '{json.dumps(node)}'", monkeypatch)
    held(stderr_of("submit", write(gpu_types=TYPES), "--to", "kubernetes", "--run"))
    assert not (tmp_path / "out").exists()


def test_what_sbatch_says_is_quoted(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "sinfo", "echo 'n1|(null)|'", monkeypatch)
    tool(tmp_path / "bin", "sbatch", "echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1", monkeypatch)
    held(stderr_of("submit", write(), "--to", "slurm", "--run", code=3))


def test_an_array_that_runs_is_waited_for(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: Path
) -> None:
    """A command that was ended leaves its array: the same command submits nothing twice."""
    calls, left = tmp_path / "calls", tmp_path / "left"
    left.write_text("11\n")
    tool(tmp_path / "bin", "sinfo", "echo 'n1|(null)|'", monkeypatch)
    tool(tmp_path / "bin", "sbatch", f"echo sbatch >> {calls}; echo '78;cluster'", monkeypatch)
    # squeue knows the job twice, then has forgotten it; its shards are there then
    tool(
        tmp_path / "bin",
        "squeue",
        f"""echo squeue "$@" >> {calls}
head -c -1 {left} | grep -q 11 || {{ echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }}
if [ $(grep -c squeue {calls}) -ge 3 ]; then
  : > {left}; for i in 0 1 2 3; do cp -r {stub}/shards/$i {tmp_path}/out/shard-$i; done
fi
echo 77_0""",
        monkeypatch,
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out/submitted.json").write_text('{"job": "77"}')
    json_of("submit", write(), "--to", "slurm", "--run")
    said = calls.read_text().splitlines()
    assert "sbatch" not in said
    assert {line.split("=")[1].split()[0] for line in said} == {"77"}


def test_a_controller_that_stays_silent_ends_the_wait(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_MOST_SILENT", 3)
    monkeypatch.setattr(scheduler, "POLL_S", 0.01)
    tool(tmp_path / "bin", "sinfo", "echo 'n1|(null)|'", monkeypatch)
    tool(tmp_path / "bin", "sbatch", "echo 78", monkeypatch)
    tool(tmp_path / "bin", "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1", monkeypatch)
    held(stderr_of("submit", write(), "--to", "slurm", "--run", code=4))


def test_a_job_of_kubernetes_is_applied_once_and_awaited(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: Path
) -> None:
    calls = tmp_path / "calls"
    done = json.dumps({"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    script = f"""printf '%s\\n' "$*" >> {calls}
case "$*" in
  *"get nodes"*) echo '{{"items": []}}' ;;
  *"get job"*) if [ ! -e {tmp_path}/applied ]; then echo 'Error from server (NotFound)' >&2; exit 1; fi
    if [ $(grep -c 'get job' {calls}) -lt 4 ]; then echo '{{"status": {{}}}}'; else
    for i in 0 1 2 3; do cp -rn {stub}/shards/$i {tmp_path}/out/shard-$i; done; echo '{done}'; fi ;;
  *apply*) touch {tmp_path}/applied ;;
esac"""
    tool(tmp_path / "bin", "kubectl", script, monkeypatch)
    json_of("submit", write(), "--to", "kubernetes", "--run")
    said = calls.read_text()
    assert said.count(f"apply -f {tmp_path}/out/job.yaml") == 1
    assert "-n default" in said


def test_a_node_is_checked(write: Any, tmp_path: Path, coco: Any) -> None:
    checks = {"packages": {"onnx": "0.0.1", "absent": "1"}, "tensorrt": "10.0.0", "driver": "580.1", "free_gb": 2e9}
    file = write(checks=checks, gpu_types={"h200": TYPES["h200"]})
    stdout_of("submit", file, "--to", "slurm")
    coco.model.write_bytes(b"another")
    said = stderr_of("submit", tmp_path / "out/h200/run.yaml", "--check-node", code=3)
    assert all(f"wanted {one}" in said for one in ("0.0.1", "1", "10.0.0", "580.1", "NVIDIA H200", "2e+09"))
    assert "absent is not installed" in said
    assert "the model's SHA-256 is" in said


def test_a_node_that_is_as_asked_says_nothing(write: Any, tmp_path: Path) -> None:
    stdout_of("submit", write(), "--to", "slurm")
    assert stdout_of("submit", tmp_path / "out/run.yaml", "--check-node") == ""
    file = tmp_path / "out/run.yaml"
    file.write_text(file.read_text().replace(trt_workbench.__version__, "9.9.9"))
    assert "trt-workbench is" in stderr_of("submit", file, "--check-node", code=3)


def test_ctrl_c_ends_the_tasks(write: Any, stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run are ended, those that wait are not started; what is done stays."""
    told: list[int] = []

    def interrupt(done: int, _: int) -> None:
        told.append(done)
        if done:
            raise KeyboardInterrupt

    monkeypatch.setattr("trt_workbench_fleet.cli._run", _with_progress(interrupt))
    result = trtw("submit", write(program=stubbed(stub)), "--run")
    assert result.exit_code == 130
    assert len(starts(stub)) < SHARDS or told[-1] < SHARDS


def _with_progress(progress: Any) -> Any:
    from trt_workbench_fleet.run import run_array

    def run(scheduler: Any, array: Any, *, debug: bool) -> Any:  # noqa: ARG001 - as the one it replaces
        return run_array(scheduler, array, print, progress)

    return run


def test_an_interrupt_says_that_the_job_goes_on() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupt:
        scheduler.poll(lambda: False, interrupted, "The same command waits for job 7 again.")
    assert interrupt.value.__notes__ == ["The job goes on. The same command waits for job 7 again."]


@pytest.mark.long
@pytest.mark.readers
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_takes_our_commands(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: Path) -> None:
    """All that a run asks it for: without a cluster it ends at the connection, not at a word that it does not know."""
    test_a_job_of_kubernetes_is_applied_once_and_awaited(write, tmp_path, monkeypatch, stub)
    monkeypatch.setenv("PATH", os.environ["PATH"].removeprefix(f"{tmp_path / 'bin'}:"))
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    lines = set((tmp_path / "calls").read_text().splitlines())
    assert len(lines) == 4
    for line in lines:
        done = subprocess.run(["kubectl", *line.split()], capture_output=True, text=True, check=False)
        assert "refused" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["run.yaml", "shards.sh", "shards.sbatch", "job.yaml", "ray_job.py"])
def test_a_file_of_the_users_in_the_folder_is_left_alone(write: Callable[..., Path], name: str) -> None:
    file = write(folder=".")
    mine = file.with_name(name)
    mine.write_text(file.read_text() if name == "run.yaml" else "mine")
    before = {one: one.read_bytes() for one in file.parent.iterdir() if one.is_file()}
    to = {"job.yaml": "kubernetes", "shards.sbatch": "slurm", "ray_job.py": "ray"}.get(name, "local")
    held(stderr_of("submit", mine if name == "run.yaml" else file, "--to", to))
    assert {one: one.read_bytes() for one in file.parent.iterdir() if one.is_file()} == before
    mine.unlink()
    if name != "run.yaml":
        for _ in range(2):
            json_of("submit", file, "--to", to, "--json")
        mine.write_text(mine.read_text().replace("night", "day"))
        held(stderr_of("submit", file, "--to", to))


@pytest.mark.parametrize("to", ["local", "slurm", "kubernetes", "ray"])
def test_nothing_that_was_typed_stands_in_a_comment(write: Callable[..., Path], to: str) -> None:
    file = write(program=["TYPED", '"""'], setup=["echo TYPED"], arguments=["TYPED"])
    (path,) = json_of("submit", file, "--to", to, "--json")["files"]
    text = Path(path).read_text()
    if to == "ray":
        said = str(ast.get_docstring(ast.parse(text)))
    else:
        said = "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    assert "trtw merge" in said
    assert "TYPED" not in said
    assert "TYPED" in text
