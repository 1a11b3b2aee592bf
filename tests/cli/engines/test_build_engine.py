"""`build-engine`: settings, cache, dry run, two builds at once, a build that is ended."""

import io
import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console
from tests.cli.engines.common import PROGRAM, infer, measuring, write_model
from tests.fork_server import ForkServer
from tests.in_app import json_of, next_lines, stderr_of, stdout_of, trtw
from tests.texts import held
from tests.waiting import wait_until

from trt_workbench.build_engine.progress import build_progress
from trt_workbench.console.progress import pulse


def test_a_build_is_kept_shown_and_found_again(model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "deep" / "m.plan"
    printed = stdout_of("build-engine", model, "--precision", "fp16", "-o", plan)
    assert "Built in" in printed
    assert "ratio" in printed
    assert "fp16" in printed
    assert plan.is_file()
    document = json.loads(trtw("build-engine", model, "--precision", "fp16", "--json").stdout)
    assert not document["built"]
    assert document["manifest"]["engine"]["size_bytes"] == plan.stat().st_size
    assert json.loads(plan.with_name("m.plan.json").read_text()) == document["manifest"]
    assert json.loads(trtw("build-engine", model, "--precision", "fp16", "--force", "--json").stdout)["built"]


def test_settings_come_from_a_file_and_options_go_first(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("precision: fp16\nworkspace_mib: 64\nmemory_pools: {tactic_dram: 5}\n")
    words = ("build-engine", model, "--config", file, "--workspace", "128", "--dry-run", "--json")
    options = json.loads(trtw(*words).stdout)["options"]
    assert (options["precision"], options["workspace_mib"]) == (["fp16"], 128)
    file.write_text("precison: fp16\n")
    said = stderr_of(*words)
    held(said)


def test_every_option_reaches_the_settings(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "plugin.so"
    library.write_bytes(b"elf")
    asked: dict[str, tuple[list[object], object]] = {
        "precision": (["--precision", "int4+fp16"], ["fp16", "int4"]),
        "strongly_typed": (["--strongly-typed"], True),
        "precision_constraints": (["--precision-constraints", "obey"], "obey"),
        "layer_precisions": (["--layer-precision", "a*=fp32"], {"a*": "fp32"}),
        "layer_output_types": (["--layer-output-type", "b=fp16"], {"b": "fp16"}),
        "io_types": (["--io-type", "x=fp16"], {"x": "fp16"}),
        "io_formats": (["--io-format", "x=linear+hwc8"], {"x": ["linear", "hwc8"]}),
        "workspace_mib": (["--workspace", "32"], 32),
        "memory_pools": (["--memory-pool", "tactic_dram=7"], {"tactic_dram": 7}),
        "optimization_level": (["--optimization-level", "5"], 5),
        "avg_timing_iterations": (["--avg-timing-iterations", "4"], 4),
        "max_tactics": (["--max-tactics", "9"], 9),
        "max_aux_streams": (["--max-aux-streams", "2"], 2),
        "tactic_sources": (["--tactic-source", "-CUDNN", "--tactic-source", "+CUBLAS"], ["+cublas", "-cudnn"]),
        "preview_features": (["--preview-feature", "-profile_sharing"], {"profile_sharing": False}),
        "tiling_optimization_level": (["--tiling-optimization-level", "fast"], "fast"),
        "build_route": (["--build-route", "r"], "r"),
        "hardware_compatibility": (["--hardware-compatibility", "ampere_plus"], "ampere_plus"),
        "version_compatible": (["--version-compatible"], True),
        "exclude_lean_runtime": (["--exclude-lean-runtime"], True),
        "strip_weights": (["--strip-weights"], True),
        "refit": (["--refit", "identical"], "identical"),
        "weight_streaming": (["--weight-streaming"], True),
        "sparse_weights": (["--sparse-weights"], True),
        "distributive_independence": (["--distributive-independence"], True),
        "strict_nans": (["--strict-nans"], True),
        "direct_io": (["--direct-io"], True),
        "native_instance_norm": (["--plugin-instance-norm"], False),
        "profiling_verbosity": (["--profiling-verbosity", "none"], "none"),
        "editable_timing_cache": (["--editable-timing-cache"], True),
        "build_number": (["--build-number", "2"], 2),
        "serialize_plugins": (["--plugin", library, "--serialize-plugins"], True),
        "dla_core": (["--dla-core", "1"], 1),
        "gpu_fallback": (["--gpu-fallback"], True),
        "profiles": (["--profile", "x:2x3", "--profile", "y:2x3"], ["x:2x3", "y:2x3"]),
    }
    words = [word for words, _ in asked.values() for word in words]
    document = json_of("build-engine", model, "--dry-run", *words)
    options = {**document["options"], "tactic_sources": sorted(document["options"]["tactic_sources"])}
    assert options == {name: value for name, (_, value) in asked.items()}
    assert document["key"]["plugins_sha256"] != []


@pytest.mark.parametrize(
    "words",
    [
        ("--io-type", "fp16"),
        ("--preview-feature", "sharing"),
        ("--tactic-source", "cudnn"),
        ("--calibration-batch", "8"),
        ("--precision", "fp17"),
        ("--precision", "int8"),
        ("--max-batch", "4"),
        ("--config", "absent.yaml"),
        ("--workspace", "-5"),
        ("--memory-pool", "workspce=5"),
        ("--profile", "x:4/2/8"),
        ("--family", "yolox"),
        ("--precision", "int8", "--calibration", "absent"),
        ("--layer-precision", "*=fp32"),
    ],
)
def test_wrong_words_exit_with_2_and_build_nothing(model: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    held(stderr_of("build-engine", model, *words))
    assert not (tmp_path / "out" / "engines").exists()


def test_the_plan_may_not_replace_the_model(model: Path, plan: Path) -> None:
    content = model.read_bytes()
    for words in (("build-engine", model), ("refit-engine", plan, model)):
        held(stderr_of(*words, "-o", model))
    assert model.read_bytes() == content


@pytest.mark.parametrize("ending", ["", ".json"])
def test_the_plan_may_not_be_the_timing_cache(model: Path, tmp_path: Path, ending: str) -> None:
    plan = tmp_path / "one.plan"
    cache = tmp_path / f"one.plan{ending}"
    held(stderr_of("build-engine", model, "-o", plan, "--timing-cache", cache))
    assert list(tmp_path.glob("one.plan*")) == []


def test_the_plan_may_not_replace_external_data(tmp_path: Path) -> None:
    model = onnx.load(write_model(tmp_path / "model.onnx"))
    weights = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    model.graph.initializer.append(weights)
    onnx.save(model, tmp_path / "big.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    content = (tmp_path / "weights").read_bytes()
    assert "would replace the model" in trtw("build-engine", tmp_path / "big.onnx", "-o", tmp_path / "weights").stderr
    assert (tmp_path / "weights").read_bytes() == content


def test_a_folder_is_no_name_for_a_plan(model: Path, tmp_path: Path) -> None:
    held(stderr_of("build-engine", model, "-o", tmp_path))
    assert not (tmp_path / "out" / "engines").exists()


def test_a_dynamic_batch_gets_its_profile(tmp_path: Path) -> None:
    model = write_model(tmp_path / "dynamic.onnx", "N")
    assert "set the range of each with --profile" in trtw("build-engine", model).stderr
    plan = tmp_path / "dynamic.plan"
    document = json.loads(trtw("build-engine", model, "--max-batch", "4", "-o", plan, "--json").stdout)
    assert document["manifest"]["profiles"] == ["x:1x3/4x3/4x3,y:1x3/4x3/4x3"]
    metrics = infer(*measuring(plan))
    assert metrics["inputs"]["first"]["x"] == {"dtype": "float32", "shape": [4, 3]}
    said = stderr_of("infer-engine", plan, "--shape", "x:5x3", "--shape", "y:5x3", "--no-bench")
    held(said)


def test_dry_run_tells_key_and_place_and_builds_nothing(model: Path, tmp_path: Path) -> None:
    assert "model_sha256" in stdout_of("build-engine", model, "--dry-run")
    assert not list((tmp_path / "out").rglob("*.plan"))


def test_calibration_data_is_recorded_and_too_little_of_it_is_told(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "calib.npz"
    np.savez(data, x=np.ones((16, 3), np.float32), y=np.ones((16, 3), np.float32))
    words = ("build-engine", model, "--precision", "int8", "--calibration", data, "--calibration-batch", "2")
    first = json.loads(trtw(*words, "--json").stdout)
    assert first["manifest"]["calibration_sha256"]
    assert "only 16 samples" in first["notes"][0]


def test_without_a_terminal_a_line_now_and_then_tells_of_the_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trt_workbench.console.progress.EVERY_S", 0.1)
    with pulse(), build_progress(Console(file=io.StringIO())) as progress:
        assert re.fullmatch(r"\[\d+ s\] Still running", next_lines(capsys)[-1])  # nothing is built yet
        assert progress("build", 0, 0)
        assert progress("calibrate", 2, 9)
        last = next_lines(capsys)[-1]
    assert re.fullmatch(r"\[\d+ s\] Building for \d+ s: build, calibrate 2 of 9", last)
    capsys.readouterr()
    time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_a_limit_is_a_number_of_seconds(model: Path) -> None:
    for given in ("0", "-1", "nan", "inf", "soon"):
        assert trtw("build-engine", model, "--time-limit", given).exit_code == 2
    assert trtw("build-engine", model, "--time-limit", "100").exit_code == 0


# real processes


@pytest.mark.parametrize("version", ["8.6.0", "10.16.1"])
def test_a_build_over_its_limit_ends_and_leaves_nothing(
    fork_server: ForkServer, model: Path, environment: dict[str, str], tmp_path: Path, version: str
) -> None:
    slow = {**environment, "TRTW_DOUBLE_SLEEP": "500", "TRTW_DOUBLE_VERSION": version}
    words = ("build-engine", model, "--time-limit", "0.5", "-o", tmp_path / "m.plan")
    done = fork_server.run(PROGRAM, *words, env=slow)
    assert done.returncode == 1, done.stderr
    assert "limit of 0.5 s, in the phase build" in done.stderr
    assert "--time-limit" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert not (tmp_path / "m.plan").exists()


def test_two_processes_at_once_give_one_build(
    fork_server: ForkServer, model: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    log, both = tmp_path / "builds.log", tmp_path / "both"
    slow = {**environment, "TRTW_DOUBLE_UNTIL": str(both), "TRTW_DOUBLE_LOG": str(log)}
    out, err = ([tmp_path / f"{number}.{stream}" for number in range(2)] for stream in ("out", "err"))
    processes = []
    for number in range(2):
        words = ("build-engine", model, "--json", "-o", tmp_path / f"{number}.plan")
        with out[number].open("wb") as stdout, err[number].open("wb") as stderr:
            processes.append(fork_server.start(PROGRAM, *words, env=slow, stdout=stdout, stderr=stderr))
    wait_until(lambda: any("Another process builds this engine" in one.read_text() for one in err))
    both.touch()
    assert [one.wait() for one in processes] == [0, 0], [one.read_text() for one in err]
    assert len(log.read_text().splitlines()) == 1
    assert sorted(json.loads(one.read_text())["built"] for one in out) == [False, True]
    assert (tmp_path / "0.plan").read_bytes() == (tmp_path / "1.plan").read_bytes()


@pytest.mark.parametrize(
    ("how", "version"),
    [
        (signal.SIGKILL, "10.16.1"),
        (signal.SIGINT, "10.16.1"),
        (signal.SIGTERM, "8.6.0"),  # no progress is reported, at which an interrupt could be served
    ],
)
def test_a_build_that_is_ended_leaves_nothing_and_can_be_repeated(
    fork_server: ForkServer,
    model: Path,
    environment: dict[str, str],
    tmp_path: Path,
    how: signal.Signals,
    version: str,
) -> None:
    log, plan = tmp_path / "builds.log", tmp_path / "m.plan"
    slow = {**environment, "TRTW_DOUBLE_SLEEP": "500", "TRTW_DOUBLE_LOG": str(log), "TRTW_DOUBLE_VERSION": version}
    said = tmp_path / "said"
    with said.open("wb") as file:
        process = fork_server.start(PROGRAM, "build-engine", model, "-o", plan, env=slow, stdout=file, stderr=file)
        wait_until(log.exists)
        os.kill(process.pid, how)
        assert process.wait() == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    err = said.read_bytes()
    assert how == signal.SIGKILL or b"Interrupted; nothing was kept." in err
    assert b"Building a TensorRT engine (fp32) for model.onnx" in err
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []
    assert not plan.exists()
    again = fork_server.run(PROGRAM, "build-engine", model, "-o", plan, env=environment)
    assert again.returncode == 0, again.stderr
    assert plan.is_file()
