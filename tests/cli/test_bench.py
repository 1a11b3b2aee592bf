"""`trtw bench`, `compare` and `report` with real worker processes on a tiny model."""

import errno
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.fork_server import ForkServer
from tests.in_app import json_of, measured, stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held
from tests.waiting import ended

from trt_workbench.bench import run as bench_run
from trt_workbench.bench.config import shipped_configs
from trt_workbench.core.records import Record, finished_records

pytestmark = pytest.mark.usefixtures("blank_pictures")

MEASURE = "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, slices: 2}\n"


def write_model(path: Path, axis: int = -1) -> Path:
    """A softmax of [batch, 4]; with an axis that it does not have, ONNX Runtime refuses to load it."""
    return write_onnx(path, f"g (float[batch,4] x) => (float[batch,4] y) {{ y = Softmax<axis={axis}>(x) }}")


TWO_SWEEPS = "first: {kind: arrays, batch: [1, 2]}, second: {kind: arrays, batch: [3]}"
ON_CPU = "{backend: ort-cpu}, {backend: ort-cpu, name: one, threads: 1}"


def write_config(folder: Path, runtimes: str = ON_CPU, scenarios: str = "sweep: {kind: arrays, batch: [1, 2]}") -> Path:
    write_model(folder / "m.onnx")
    path = folder / "bench.yaml"
    path.write_text(
        f"{MEASURE}models: {{tiny: {{path: m.onnx}}}}\nruntimes: [{runtimes}]\nscenarios: {{{scenarios}}}\n"
    )
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path)


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of one point, for all tests that only read or spoil a copy of it."""
    folder = tmp_path_factory.mktemp("measured")
    assert trtw("bench", write_config(folder), "--output", folder / "run", "--only", "b1/one").exit_code == 0
    return folder / "run"


@pytest.mark.long
def test_the_shipped_streams_are_measured_with_their_state(tmp_path: Path) -> None:
    """The configuration itself, with few calls of few streams."""
    text = shipped_configs()["stream"].read_text(encoding="utf-8")
    short = text.replace("repetitions: 9", "repetitions: 1\nmeasure: {warmup_ms: 0, duration_s: 0.02}")
    (tmp_path / "stream.yaml").write_text(short.replace("[1, 2, 4, 8]", "[2]").replace("[17, 65, 121]", "[17]"))
    words = ("--only", "*ort-cpu", "--skip-unavailable", "--output", tmp_path / "run")
    stdout_of("bench", tmp_path / "stream.yaml", *words)
    assert [record.status for record in measured(tmp_path / "run")] == ["ok", "ok"]


def test_a_matrix_end_to_end(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert json_of("bench", config, "--output", run)["status"] == "complete"
    records = measured(run)
    assert len(records) == 2 * 2 * 2
    assert {record.status for record in records} == {"ok"}
    for record in records:
        assert record.latency_ms["count"] >= 10
        assert record.provenance["providers"] == ["CPUExecutionProvider"]
        assert record.telemetry["host_memory_bytes"] > 2**20
        assert record.samples is not None
        assert (run / record.samples).is_file()
    page = (run / "report.html").read_text()
    assert "sweep: tiny b2" in page
    assert 'src="http' not in page
    assert (run / "report.md").is_file()
    assert json.loads((run / "run.json").read_text())["status"] == "complete"

    same = trtw("compare", run, run, "--json")
    assert same.exit_code == 0, same.output
    assert {change["outcome"] for change in json.loads(same.stdout)["points"]} == {"no material difference"}
    assert "Nothing is compared" in same.stderr
    stdout_of("report", run, "--output", tmp_path / "all")
    assert "tiny b1" in (tmp_path / "all" / "overview.html").read_text()


@pytest.mark.long
@pytest.mark.usefixtures("own_processes")
def test_a_worker_measures_in_an_interpreter_of_its_own(config: Path, tmp_path: Path) -> None:
    words = ("--only", "b1/one", "--output", tmp_path / "run")
    assert json_of("bench", config, *words)["status"] == "complete"


def test_a_slow_down_fails_the_comparison(config: Path, tmp_path: Path) -> None:
    text = config.read_text().replace("repetitions: 2", "repetitions: 5")
    config.write_text(text)
    run, slow = tmp_path / "run", tmp_path / "slow"
    assert trtw("bench", config, "--output", run, "--only", "b1/one").exit_code == 0
    shutil.copytree(run, slow)
    for folder, factor in ((run, 1), (slow, 10)):
        records = [
            # a busy machine marks some as unstable, and too few would be left to compare
            record.model_copy(
                update={
                    "unstable": [],
                    "p50_interval_ms": (1e-6, 1e9),
                    "latency_ms": {name: value and factor * value for name, value in (record.latency_ms or {}).items()},
                }
            )
            for record in measured(folder)
        ]
        (folder / "records.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in records))
    held(stderr_of("compare", run, slow, code=1))
    for folder in (run, slow):  # two repetitions each can prove nothing, which has to be said
        lines = (folder / "records.jsonl").read_text().splitlines()[:2]
        (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    unproved = trtw("compare", run, slow)
    assert unproved.exit_code == 0
    assert "Looks slower by more than 2 % without proof: 1 of 1 point; there are too few repetitions" in " ".join(
        unproved.stderr.split()
    )


@pytest.fixture
def two_runs(measured_once: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A run and its copy."""
    a, b = tmp_path / "a", tmp_path / "b"
    shutil.copytree(measured_once, a)
    shutil.copytree(a, b)
    return a, b


@pytest.mark.parametrize("figure", ["NaN", "-1.5", "0.0", "Infinity"])
def test_latencies_that_cannot_be_are_refused(two_runs: tuple[Path, Path], figure: str) -> None:
    file = two_runs[1] / "records.jsonl"
    file.write_text(re.sub(r'"p50":[^,]+', f'"p50":{figure}', file.read_text()))
    for command in (["compare", *two_runs], ["report", two_runs[1]]):
        said = stderr_of(*command)
        held(said)


GPU = {"index": 0, "uuid": "GPU-0", "name": "NVIDIA H200"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"driver": {"driver_version": "580.1", "cuda_driver_version": "13.0", "gpus": [GPU]}}, None),
        ({"driver": {"driver_version": "580.1", "gpus": [{**GPU, "name": "NVIDIA L4"}]}}, "GPU: NVIDIA H200 against"),
        ({"driver": {"driver_version": "590.2", "gpus": [GPU]}}, "driver: 580.1 against 590.2"),
        ({"cpu": {"model": "another"}}, "CPU: "),
        ({"tensorrt": "10.16.1"}, "TensorRT: 8.6.0 against 10.16.1"),
    ],
)
def test_runs_of_different_machines(two_runs: tuple[Path, Path], change: dict[str, Any], message: str | None) -> None:
    base = {"driver": {"driver_version": "580.1", "cuda_driver_version": "13.0", "gpus": [GPU]}, "tensorrt": "8.6.0"}
    for folder, facts in zip(two_runs, (base, {**base, **change}), strict=True):
        tensorrt = facts.pop("tensorrt")
        environment = json.loads((folder / "env.json").read_text()) | facts
        (folder / "env.json").write_text(json.dumps(environment))
        records = [one.model_copy(update={"provenance": {"tensorrt": tensorrt}}) for one in measured(folder)]
        (folder / "records.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in records))
    compared = trtw("compare", *two_runs, "--json")
    if message is None:
        assert json.loads(compared.stdout)["differences"] == []
        return
    assert compared.exit_code == 2
    assert compared.stdout == ""
    assert message in compared.stderr
    allowed = trtw("compare", *two_runs, "--allow-different-machines", "--json")
    assert allowed.exit_code == 0, allowed.stderr
    assert list(json.loads(allowed.stdout)) == ["schema_version", "differences", "points"]
    printed = trtw("compare", *two_runs, "--allow-different-machines").stdout
    assert message in printed.splitlines()[0]


def test_dry_run_lists_and_writes_nothing(config: Path, tmp_path: Path) -> None:
    printed = stdout_of("bench", config, "--dry-run", "--output", tmp_path / "run")
    assert printed.splitlines()[0] == "sweep/tiny b1/ort-cpu"
    assert not (tmp_path / "run").exists()


def test_a_backend_that_cannot_serve(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("{backend: ort-cpu}", "{backend: ort-trt}"))
    assert "Backend ort-trt is not available here" in stderr_of("bench", config, "--output", tmp_path / "run", code=3)
    assert not (tmp_path / "run").exists()
    stdout_of("bench", config, "--output", tmp_path / "run", "--skip-unavailable")
    records = measured(tmp_path / "run")
    assert [record.status for record in records].count("unavailable") == 4
    assert "ort-trt" in (tmp_path / "run" / "report.html").read_text()
    nothing = trtw("bench", config, "--output", tmp_path / "none", "--skip-unavailable", "--only", "ort-trt")
    assert nothing.exit_code == 3
    assert (tmp_path / "none" / "report.html").is_file()


def unfinished(run: Path, records: int) -> list[Record]:
    """Make a finished run one that was killed while it wrote a line; return the records before that."""
    before = measured(run)[:records]
    lines = (run / "records.jsonl").read_text().splitlines(keepends=True)
    (run / "records.jsonl").write_text("".join(lines[:records]) + lines[records][:-9])
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**document, "status": "partial"}))
    return before


@pytest.mark.long
def test_a_run_goes_on_where_it_ended_and_what_failed_is_tried_again(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stdout_of("bench", config, "--output", run)
    first, second, *rest = measured(run)
    failed = second.model_copy(update={"status": "failed", "error": "no memory", "samples": None})
    (run / "records.jsonl").write_text("".join(one.model_dump_json() + "\n" for one in (first, failed, *rest)))
    kept = [one for one in unfinished(run, 5) if one.status == "ok"]
    samples = [(run / str(one.samples)).read_bytes() for one in kept]
    said = trtw("bench", config, "--output", run)
    assert (said.exit_code, "Continuing the run in this folder" in said.stderr) == (0, True)
    found = measured(run)
    assert ({one.status for one in found}, found[:4]) == ({"ok"}, kept)
    whole = sorted((one.key, one.repetition) for one in (first, second, *rest))
    assert sorted((one.key, one.repetition) for one in found) == whole
    assert [(run / str(one.samples)).read_bytes() for one in kept] == samples
    assert "Part 1, from " in (run / "report.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("change", ["none", "repetitions", "model", "only"])
def test_nothing_is_taken_of_a_finished_run_or_of_another_setting(change: str, config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words: tuple[object, ...] = ("bench", config, "--only", "b1/", "--output", run)
    stdout_of(*words)
    before = measured(run)
    if change != "none":
        unfinished(run, 3)
    if change == "repetitions":
        config.write_text(config.read_text().replace("repetitions: 2", "repetitions: 1"))
    elif change == "model":
        write_onnx(tmp_path / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    elif change == "only":
        words = ("bench", config, "--only", "b1/one", "--output", run)
    said = trtw(*words)
    assert said.exit_code == 0
    held(re.sub("'.*' there", "'OLD' there", re.sub("is '.*' here", "is 'NEW' here", said.stderr)))
    assert not [one for one in measured(run) if one in before]


def _end_while_measuring(fork_server: ForkServer, config: Path, run: Path, ending: signal.Signals) -> tuple[int, str]:
    words = ("bench", config, "--output", run, "--only", "b1/one")
    return ended(fork_server, run, "records.jsonl", ending, *words, later_s=0.3)


@pytest.mark.long
def test_a_run_that_was_killed_goes_on(config: Path, fork_server: ForkServer, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("repetitions: 2", "repetitions: 30"))
    run = tmp_path / "run"
    _end_while_measuring(fork_server, config, run, signal.SIGKILL)
    assert not run.exists()
    (staging,) = tmp_path.glob(".run.*.staging")
    kept = finished_records(staging)
    stdout_of("bench", config, "--output", run, "--only", "b1/one")
    assert measured(run)[: len(kept)] == kept
    assert len(measured(run)) == 30
    assert json.loads((run / "run.json").read_text())["status"] == "complete"
    assert not list(tmp_path.glob(".run.*"))


def test_interrupted_runs_are_kept_and_marked(config: Path, fork_server: ForkServer, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("repetitions: 2", "repetitions: 500"))
    run = tmp_path / "run"
    code, said = _end_while_measuring(fork_server, config, run, signal.SIGINT)
    assert code == 130, said
    assert f"continue with `… --output {run}`" in said
    assert json.loads((run / "run.json").read_text())["status"] == "partial"
    assert measured(run)
    assert not list(tmp_path.glob(".run.*"))


def test_what_was_measured_before_a_failure_is_kept(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, count = bench_run.append_lines, iter(range(2))

    def fill(path: Path, records: list[Record]) -> None:
        if next(count, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "records.jsonl")
        append(path, records)

    monkeypatch.setattr(bench_run, "append_lines", fill)
    said = stderr_of("bench", config, "--output", tmp_path / "run")
    held(said)
    assert len(measured(tmp_path / "run")) == 2
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "partial"


@pytest.mark.parametrize(
    "place", ["../secret.npz", "{root}/secret.npz", "samples/../../secret.npz", "samples/link.npz"]
)
def test_samples_of_a_run_that_goes_on_stay_in_their_folder(config: Path, tmp_path: Path, place: str) -> None:
    run = tmp_path / "run"
    words = ("bench", config, "--only", "b1/one", "--output", run)
    stdout_of(*words)
    unfinished(run, 1)
    (tmp_path / "secret.npz").write_bytes(b"secret")
    (run / "samples" / "link.npz").symlink_to(tmp_path / "secret.npz")
    record = finished_records(run)[0].model_copy(update={"samples": place.format(root=tmp_path)})
    (run / "records.jsonl").write_text(record.model_dump_json() + "\n")
    before = sorted(tmp_path.rglob("*"))
    held(stderr_of(*words))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("records.jsonl", '{"schema_version": 7}\n'),
        ("run.json", '{"schema_version": 1}'),
        ("env.json", '{"schema_version": 1}'),
        ("config.json", '{"schema_version": 1}'),
        ("config.json", None),
    ],
)
def test_damaged_run_directories(measured_once: Path, tmp_path: Path, name: str, content: str | None) -> None:
    run = tmp_path / "run"
    shutil.copytree(measured_once, run)
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_text(content)
    held(stderr_of("compare", run, run))


def test_unknown_configuration() -> None:
    held(stderr_of("bench", "nothing-of-the-kind"))


WAITS_FOR_ANOTHER = """
import os, time
from pathlib import Path
from trt_workbench.bench.worker import Worker
class Waiting(Worker):
    def load(self, request):
        begun = Path(os.environ["BEGUN"])
        (begun / str(os.getpid())).touch()
        while len(list(begun.iterdir())) < 2:
            time.sleep(0.01)
        return super().load(request)
"""


def test_runtimes_load_together_where_asked(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either worker loads only once the other has begun to."""
    begun = tmp_path / "begun"
    begun.mkdir()
    (tmp_path / "waiting.py").write_text(WAITS_FOR_ANOTHER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("BEGUN", str(begun))
    monkeypatch.setattr(bench_run, "TARGET", "waiting:Waiting")
    config.write_text("loading: together\n" + config.read_text().replace("[1, 2]", "1"))
    stdout_of("bench", config, "--output", tmp_path / "run")
    assert {record.status for record in measured(tmp_path / "run")} == {"ok"}


@pytest.mark.long
def test_one_that_cannot_load_beside_others_is_a_failed_record(config: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "broken.onnx", axis=7)
    models = config.read_text().replace("{tiny:", "{broken: {path: broken.onnx}, tiny:")
    config.write_text("loading: together\n" + models)
    trtw("bench", config, "--output", tmp_path / "run")
    outcomes = {(record.model, record.status) for record in measured(tmp_path / "run")}
    assert outcomes == {("broken", "failed"), ("tiny", "ok")}
