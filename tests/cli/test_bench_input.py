"""`trtw bench` with bad input and with settings that are swept; TensorRT is a double in the worker processes."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.in_app import measured, stderr_of, stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.core.records import Record

pytestmark = pytest.mark.usefixtures("blank_pictures")

DOUBLES = Path(__file__).parents[1] / "doubles"
MEASURE = "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.01, slices: 2}\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "m.onnx", "g (float[batch,3,h,w] x) => (float[batch,3,h,w] y) { y = Relu(x) }")


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let worker processes find the double of the native core."""
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES), prepend=os.pathsep)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def write(folder: Path, text: str) -> Path:
    path = folder / "bench.yaml"
    path.write_text(MEASURE + text)
    return path


@pytest.mark.long
@pytest.mark.usefixtures("doubled", "model")
def test_settings_and_image_sizes_are_swept(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "models: {m: {path: m.onnx}}\n"
        "runtimes:\n"
        "  - {backend: trt, name: built, options: {cuda_graph: [true, false], profile_shape: [static, dynamic]}}\n"
        "  - {backend: ort-cpu, threads: [1, 2], concurrency: 2}\n"
        "scenarios: {sizes: {kind: arrays, imgsz: [[8, 8], [16, 16]]}}\n",
    )
    run = tmp_path / "run"
    stdout_of("bench", config, "--output", run)
    records = measured(run)
    assert [record.error for record in records if record.error] == []
    assert len(records) == 2 * 2 * (4 + 2)
    assert {record.imgsz for record in records} == {(8, 8), (16, 16)}
    assert "built cuda_graph=off profile_shape=dynamic" in {record.runtime for record in records}
    assert {record.swept["threads"] for record in records if record.backend == "ort-cpu"} == {1, 2}
    assert all(len(record.slice_p50_ms) == 2 for record in records)
    profiles = {
        (record.swept["profile_shape"], record.imgsz[0]): record.provenance["manifest"]["options"]["profiles"]
        for record in records
        if "profile_shape" in record.swept and record.imgsz
    }
    assert profiles["static", 8] != profiles["dynamic", 8] != profiles["dynamic", 16]
    page = (run / "report.html").read_text()
    for axis in ("image size", "profile_shape", "cuda_graph", "threads"):
        assert f"sizes, m: latency against {axis}" in page


@pytest.mark.usefixtures("doubled", "doubled_core")
def test_an_engine_for_another_gpu_is_a_failed_record_and_a_failed_comparison(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "m.plan"
    stdout_of("build-engine", model, "-o", plan, "--profile", "x:1x3x8x8")
    config = write(
        tmp_path,
        "models: {engine: {path: m.plan}}\nruntimes: [{backend: trt}]\nscenarios: {s: {kind: arrays, imgsz: [8, 8]}}\n",
    )
    good, bad = tmp_path / "good", tmp_path / "bad"
    assert trtw("bench", config, "--output", good).exit_code == 0
    assert [record.error for record in measured(good)] == [None, None]
    monkeypatch.setenv("TRTW_DOUBLE_CAPABILITY", "12.0")
    refused = trtw("bench", config, "--output", bad)
    assert refused.exit_code == 2
    assert "Nothing was measured" in refused.stderr
    failed = measured(bad)
    assert {(record.status, record.error_kind) for record in failed} == {("failed", "UsageProblem")}
    assert "built for compute capability 9.0" in str(failed[0].error)
    # the run of failures still has a report that says why
    assert trtw("report", bad).exit_code == 0
    assert "built for compute capability 9.0" in (bad / "report.html").read_text()
    assert "Lowest latency by workload" not in (bad / "report.html").read_text()
    assert "failed in B" in stdout_of("compare", good, bad, code=1)
    assert trtw("compare", bad, good).exit_code == 0
    untold = trtw("compare", bad, bad)
    assert untold.exit_code == 0
    assert not untold.stdout, "a point that neither run measured is no row"
    assert "Not in the verdict, as measured in neither run: 1 of 1 point." in " ".join(untold.stderr.split())


def test_records_of_two_schema_versions(model: Path, tmp_path: Path) -> None:
    config = write(
        tmp_path,
        f"models: {{m: {{path: {model.name}}}}}\nruntimes: [{{backend: ort-cpu}}]\n"
        "scenarios: {s: {kind: arrays, imgsz: [8, 8]}}\n",
    )
    run = tmp_path / "run"
    assert trtw("bench", config, "--output", run).exit_code == 0
    lines = (run / "records.jsonl").read_text().splitlines()
    later = json.dumps({**json.loads(lines[1]), "schema_version": 2})
    (run / "records.jsonl").write_text("\n".join([lines[0], later]) + "\n")
    for command in (["compare", run, run], ["report", run]):
        said = stderr_of(*command)
        held(said)


def test_models_are_named_on_the_command_line(model: Path, tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "models: {m: {needs: a file with images}}\nruntimes: [{backend: ort-cpu}]\n"
        "scenarios: {s: {kind: arrays, imgsz: [8, 8]}}\n",
    )
    said = stderr_of("bench", config, "--dry-run")
    held(said)
    assert trtw("bench", config, "--dry-run", "--model", f"m={model}").stdout == "s/m b1 8x8/ort-cpu\n"
    for text in ["m", "other=x", "m=x"]:
        held(stderr_of("bench", config, "--dry-run", "--model", text))
    run = tmp_path / "run"
    assert trtw("bench", config, "--model", f"m={model}", "--output", run).exit_code == 0
    assert trtw("bench", run / "config.json", "--dry-run").exit_code == 0  # the run directory remembers the file


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("imgsz: [8, 8]", "imgsz: [8, 8, 8]", "imgsz"),
        ("imgsz: [8, 8]", "dims: {h: 8}", "dimension w of input x"),
        ("imgsz: [8, 8]", "imgsz: [8, 8], dims: {length: 3}", "no dynamic dimension length"),
        ("backend: ort-cpu", "backend: ort-gpu", "no backend called 'ort-gpu'"),
        ("backend: ort-cpu", "backend: ort-cpu, precision: []", "precision"),
        ("backend: ort-cpu", "backend: ort-cpu, options: {profile_shape: dynamic}", "no option 'profile_shape'"),
        ("kind: arrays", "kind: image-to-boxes", "takes images of any size"),
        ("imgsz: [8, 8]", "imgsz: [8, 8], batch: []", "scenarios.s.batch needs 1 or more entries"),
        ("imgsz: [8, 8]", "imgsz: [8, 8], dims: {n: []}", "scenarios.s.dims.n needs 1 or more entries"),
        ("imgsz: [8, 8]", "imgsz: [8, 8], models: []", "scenarios.s.models needs 1 or more entries"),
        ("backend: ort-cpu", "backend: ort-cpu, options: {allow_spinning: []}", "allow_spinning is a list to sweep"),
        ("imgsz: [8, 8]", "imgsz: [[8, 8], [8, 8]]", "s/m b1 8x8/ort-cpu exists twice"),
        ("imgsz: [8, 8]", "imgsz: [8, 8], models: [m, m]", "s/m b1 8x8/ort-cpu exists twice"),
        ("backend: ort-cpu", "backend: ort-cpu, threads: [1, 1]", "exists twice"),
        ("duration_s: 0.01", "duration_s: .inf", "measure.duration_s is wrong: input should be a finite number"),
    ],
)
@pytest.mark.usefixtures("model")
def test_what_cannot_be_measured_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (
        "models: {m: {path: m.onnx}}\nruntimes: [{backend: ort-cpu}]\nscenarios: {s: {kind: arrays, imgsz: [8, 8]}}\n"
    )
    assert old in MEASURE + text
    config = write(tmp_path, text)
    config.write_text(config.read_text().replace(old, new))
    result = trtw("bench", config, "--output", tmp_path / "run")
    assert message in result.stderr
    assert result.exit_code == 2
    if (tmp_path / "run").exists():  # only the model can tell: the matrix went on, and all its records have failed
        assert message in str(measured(tmp_path / "run")[0].error)


@pytest.mark.usefixtures("model")
def test_a_dry_run_knows_the_backends(tmp_path: Path) -> None:
    text = "models: {m: {path: m.onnx}}\nruntimes: [{backend: auto}]\nscenarios: {s: {kind: arrays, imgsz: [8, 8]}}\n"
    said = stderr_of("bench", write(tmp_path, text), "--dry-run")
    held(said)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "runtime",
    [
        "{backend: ort-cuda, options: {cuda_grph: true}}",
        "{backend: ort-cuda, options: {cuda_graph: perhaps}}",
        "{backend: trt, precision: int3}",
        "{backend: trt, options: {optimisation: 3}}",
        "{backend: trt, options: {profile_shape: round}}",
        "{backend: ort-trt, precision: fp64}",
        "{backend: torch, options: {mode: default}}",
        "{backend: torch-compile, precision: int8}",
        "{backend: ort-cpu, precision: fp16}",
    ],
)
def test_a_dry_run_knows_what_backends_take(tmp_path: Path, runtime: str) -> None:
    """None of them need be installed for it."""
    text = (
        f"models: {{m: {{path: m.onnx}}}}\nruntimes: [{runtime}]\nscenarios: {{s: {{kind: arrays, imgsz: [8, 8]}}}}\n"
    )
    held(stderr_of("bench", write(tmp_path, text), "--dry-run"))


@pytest.mark.usefixtures("model")
def test_of_a_sweep_some_combinations_may_be_impossible(tmp_path: Path) -> None:
    runtime = "{backend: ort-cuda, options: {cuda_graph: [true, false]}, concurrency: [1, 2]}"
    scenario = "{s: {kind: arrays, imgsz: [8, 8]}}"
    text = f"models: {{m: {{path: m.onnx}}}}\nruntimes: [{runtime}]\nscenarios: {scenario}\n"
    assert len(stdout_of("bench", write(tmp_path, text), "--dry-run").splitlines()) == 4
    said = stderr_of("bench", write(tmp_path, text), "--dry-run", "--only", "*concurrency=2*cuda_graph=True*")
    held(said)


def test_an_overview_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = stderr_of("report", tmp_path / "run", "--output", tmp_path / "file")
    held(said)


@pytest.mark.parametrize("name", ["gone", "file"])
def test_what_is_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    run, said = tmp_path / name, {"gone": "does not exist", "file": "is a file, not a run directory"}[name]
    for command in (["report", run], ["compare", run, run]):
        result = trtw(*command)
        assert result.exit_code == 2
        assert result.stderr == f"error: The run directory {said}: {run}\n"


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for command in (["report", tmp_path], ["compare", tmp_path, tmp_path]):
        held(stderr_of(*command))


def one_runtime(folder: Path, runtime: str = "{backend: trt, name: built, precision: [fp32, fp16]}") -> Path:
    runtimes = f"[{runtime}, {{backend: ort-cpu}}]"
    scenario = "{kind: arrays, imgsz: [8, 8]}"
    return write(folder, f"models: {{m: {{path: m.onnx}}}}\nruntimes: {runtimes}\nscenarios: {{s: {scenario}}}\n")


@pytest.mark.long
@pytest.mark.usefixtures("doubled", "model")
def test_several_builds_are_measured_in_turns_and_their_spread_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4")
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(tmp_path / "log"))
    run = tmp_path / "run"
    printed = stdout_of("bench", one_runtime(tmp_path), "--builds", 3, "--output", run)
    groups = json.loads((run / "builds.json").read_text())["groups"]
    labels = [f"s, m b1 8x8, built precision={name}" for name in ("fp16", "fp32")]
    assert [one["label"] for one in groups] == labels
    for group in groups:
        latencies = {one["number"]: one["latency_ms"] for one in group["builds"]["builds"]}
        assert sorted(latencies.values()) == pytest.approx([1.3, 1.5, 1.7])
        assert latencies[group["builds"]["kept"]] == pytest.approx(1.5)
        assert all(one["verdict"].startswith("right") for one in group["builds"]["builds"])
        assert [layer["differs"] for layer in group["layers"]] == ["tactic"]
    assert len({record.provenance["plan"] for record in measured(run) if record.backend == "trt"}) == 6
    assert "3 builds without each other's timings: 1.300 to 1.700 ms (30.8 % apart)" in " ".join(printed.split())
    page = (run / "report.html").read_text()
    assert "Several builds: s, m b1 8x8, built precision=fp16" in page
    assert "k1.4" in page
    again = tmp_path / "again"
    stdout_of("bench", run / "config.json", "--output", again)  # the configuration says the builds
    assert len(json.loads((again / "builds.json").read_text())["groups"]) == 2
    assert len((tmp_path / "log").read_text().splitlines()) == 6


@pytest.mark.long
@pytest.mark.usefixtures("doubled", "model")
def test_a_resumed_run_has_the_builds_of_one_that_nothing_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where engines are gone by then: what was measured on one is measured again on the one that is built."""
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4,1.3,1.6")
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(tmp_path / "log"))
    whole = tmp_path / "whole"
    text = one_runtime(tmp_path, "{backend: trt}").read_text().replace(", {backend: ort-cpu}", "")
    config = tmp_path / "bench.yaml"
    config.write_text(text)
    stdout_of("bench", config, "--builds", 3, "--output", whole)

    def resumed(name: str) -> tuple[list[Record], dict[str, Any]]:
        """Of the second repetition one build was measured before the end."""
        run = shutil.copytree(whole, tmp_path / name)
        lines = (run / "records.jsonl").read_text().splitlines(keepends=True)
        (run / "records.jsonl").write_text("".join(lines[:4]))
        document = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**document, "status": "partial"}))
        stdout_of("bench", config, "--builds", 3, "--output", run)
        (group,) = json.loads((run / "builds.json").read_text())["groups"]
        return measured(run), group

    records, group = resumed("engines")
    assert {"groups": [group]} == {"groups": json.loads((whole / "builds.json").read_text())["groups"]}
    assert sorted((one.key, one.repetition) for one in records) == sorted(
        (one.key, one.repetition) for one in measured(whole)
    )
    assert len((tmp_path / "log").read_text().splitlines()) == 3

    shutil.rmtree(tmp_path / "out" / "engines")
    records, group = resumed("none")
    assert len(records) == 6
    for build in group["builds"]["builds"]:
        mine = [one for one in records if one.swept["build_number"] == build["number"]]
        assert {one.provenance["plan_sha256"] for one in mine} == {build["engine_sha256"]}
    assert {1.6, 1.9} < {round(build["latency_ms"], 1) for build in group["builds"]["builds"]}
    held(group["note"])


@pytest.mark.usefixtures("model")
def test_builds_are_of_runtimes_that_build(tmp_path: Path) -> None:
    held(stderr_of("bench", one_runtime(tmp_path, "{backend: torch}"), "--builds", 3, code=2))
