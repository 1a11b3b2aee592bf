"""build-engine, inspect-engine and infer-engine as commands, on a double of the native core that runs the model."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from trt_workbench.cli.main import app
from trt_workbench.engine import native

DOUBLES = Path(__file__).parents[1] / "doubles"
Trtw = Callable[..., Result]


def write_model(path: Path, batch: int | str = 2) -> Path:
    """total = x + y and ratio = x / y."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in ("x", "y")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in ("total", "ratio")]
    nodes = [helper.make_node("Add", ["x", "y"], ["total"]), helper.make_node("Div", ["x", "y"], ["ratio"])]
    graph = helper.make_graph(nodes, "arithmetic", values, results)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a process that finds the double and writes below the test's folder."""
    return {**os.environ, "PYTHONPATH": str(DOUBLES), "TRTW_TMP": str(tmp_path / "out")}


@pytest.fixture
def trtw(doubled_core: None) -> Trtw:  # noqa: ARG001 - it has to be there
    def run(*words: object) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture
def plan(trtw: Trtw, model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.plan"
    assert trtw("build-engine", model, "-o", path).exit_code == 0
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(1)
    files = {}
    for name in ("x", "y"):
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], rng.random((2, 3), np.float32) + 1)
    return files


def infer(trtw: Trtw, *words: object, code: int = 0) -> dict[str, Any]:
    result = trtw("infer-engine", *words, "--json")
    assert result.exit_code == code, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def measuring(*words: object) -> tuple[object, ...]:
    return (*words, "--duration", "0", "--warmup", "0", "--iterations", "5")


# build-engine


def test_a_build_is_kept_shown_and_found_again(trtw: Trtw, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "deep" / "m.plan"
    first = trtw("build-engine", model, "--precision", "fp16", "-o", plan)
    assert first.exit_code == 0
    assert "Built in" in first.stdout
    assert "ratio" in first.stdout
    assert "fp16" in first.stdout
    assert plan.is_file()
    document = json.loads(trtw("build-engine", model, "--precision", "fp16", "--json").stdout)
    assert not document["built"]
    assert document["manifest"]["engine"]["size_bytes"] == plan.stat().st_size
    assert json.loads(plan.with_name("m.plan.json").read_text()) == document["manifest"]
    assert json.loads(trtw("build-engine", model, "--precision", "fp16", "--force", "--json").stdout)["built"]


def test_settings_come_from_a_file_and_options_go_first(trtw: Trtw, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("precision: fp16\nworkspace_mib: 64\nmemory_pools: {tactic_dram: 5}\n")
    words = ("build-engine", model, "--config", file, "--workspace", "128", "--dry-run", "--json")
    options = json.loads(trtw(*words).stdout)["options"]
    assert (options["precision"], options["workspace_mib"]) == (["fp16"], 128)
    file.write_text("precison: fp16\n")
    wrong = trtw(*words)
    assert wrong.exit_code == 2
    assert "did you mean precision?" in wrong.stderr
    assert f"{file}:1" in wrong.stderr


def test_every_option_reaches_the_settings(trtw: Trtw, model: Path, tmp_path: Path) -> None:
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
        "serialize_plugins": (["--plugin", library, "--serialize-plugins"], True),
        "dla_core": (["--dla-core", "1"], 1),
        "gpu_fallback": (["--gpu-fallback"], True),
        "profiles": (["--profile", "x:2x3", "--profile", "y:2x3"], ["x:2x3", "y:2x3"]),
    }
    words = [word for words, _ in asked.values() for word in words]
    result = trtw("build-engine", model, "--dry-run", "--json", *words)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    options = {**document["options"], "tactic_sources": sorted(document["options"]["tactic_sources"])}
    assert options == {name: value for name, (_, value) in asked.items()}
    assert document["key"]["plugins_sha256"] != []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--io-type", "fp16"), "--io-type takes NAME=VALUE"),
        (("--preview-feature", "sharing"), "--preview-feature takes +NAME"),
        (("--tactic-source", "cudnn"), "needs a sign"),
        (("--calibration-batch", "8"), "--calibration-batch needs --calibration"),
        (("--precision", "fp17"), "fp17"),
        (("--precision", "int8"), "INT8 needs scales"),
        (("--max-batch", "4"), "--max-batch is for"),
        (("--config", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_words_exit_with_2_and_build_nothing(
    trtw: Trtw, model: Path, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    result = trtw("build-engine", model, *words)
    assert result.exit_code == 2
    assert text in result.stderr
    assert not (tmp_path / "out" / "engines").exists()


def test_the_plan_may_not_replace_the_model(trtw: Trtw, model: Path) -> None:
    content = model.read_bytes()
    assert trtw("build-engine", model, "-o", model).exit_code == 2
    assert model.read_bytes() == content


def test_a_dynamic_batch_gets_its_profile(trtw: Trtw, tmp_path: Path) -> None:
    model = write_model(tmp_path / "dynamic.onnx", "N")
    assert "give each its range with --profile" in trtw("build-engine", model).stderr
    plan = tmp_path / "dynamic.plan"
    document = json.loads(trtw("build-engine", model, "--max-batch", "4", "-o", plan, "--json").stdout)
    assert document["manifest"]["profiles"] == ["x:1x3/4x3/4x3,y:1x3/4x3/4x3"]
    metrics = infer(trtw, *measuring(plan))
    assert metrics["inputs"]["first"]["x"] == {"dtype": "float32", "shape": [4, 3]}
    outside = trtw("infer-engine", plan, "--shape", "x:5x3", "--shape", "y:5x3", "--no-bench")
    assert outside.exit_code == 2
    assert "outside [1, 3] to [4, 3]" in outside.stderr


def test_dry_run_tells_key_and_place_and_builds_nothing(trtw: Trtw, model: Path, tmp_path: Path) -> None:
    shown = trtw("build-engine", model, "--dry-run")
    assert shown.exit_code == 0
    assert "model_sha256" in shown.stdout
    assert not list((tmp_path / "out").rglob("*.plan"))


def test_calibration_data_is_recorded_and_too_little_of_it_is_told(trtw: Trtw, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "calib.npz"
    np.savez(data, x=np.ones((16, 3), np.float32), y=np.ones((16, 3), np.float32))
    words = ("build-engine", model, "--precision", "int8", "--calibration", data, "--calibration-batch", "2")
    first = json.loads(trtw(*words, "--json").stdout)
    assert first["manifest"]["calibration_sha256"]
    assert "16 samples only" in first["notes"][0]


# real processes


def command(*words: object) -> list[str]:
    code = "from trt_workbench.cli.main import main; main()"
    return [sys.executable, "-c", code, *map(str, words)]


def test_two_processes_at_once_give_one_build(model: Path, environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "builds.log"
    slow = {**environment, "TRTW_DOUBLE_SLEEP": "1.5", "TRTW_DOUBLE_LOG": str(log)}
    running = [
        subprocess.Popen(
            command("build-engine", model, "--json", "-o", tmp_path / f"{number}.plan"),
            env=slow,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    results = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], results
    assert len(log.read_text().splitlines()) == 1
    assert sorted(json.loads(out)["built"] for out, _ in results) == [False, True]
    assert any("Another process builds this engine" in err for _, err in results)
    assert (tmp_path / "0.plan").read_bytes() == (tmp_path / "1.plan").read_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_build_that_is_ended_leaves_nothing_and_can_be_repeated(
    model: Path, environment: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    log, plan = tmp_path / "builds.log", tmp_path / "m.plan"
    slow = {**environment, "TRTW_DOUBLE_SLEEP": "60", "TRTW_DOUBLE_LOG": str(log)}
    process = subprocess.Popen(command("build-engine", model, "-o", plan), env=slow, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(how)
    process.communicate(timeout=30)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []
    assert not plan.exists()
    again = subprocess.run(command("build-engine", model, "-o", plan), env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert plan.is_file()


# inspect-engine


def test_inspect_shows_manifest_and_layers(trtw: Trtw, plan: Path) -> None:
    shown = trtw("inspect-engine", plan)
    assert shown.exit_code == 0
    assert "total [layer]" in shown.stdout
    document = json.loads(trtw("inspect-engine", plan, "--json").stdout)
    assert document["manifest"]["model"]["file"] == "model.onnx"
    assert [layer["Name"] for layer in document["engine"]["layers"]] == ["total [layer]", "ratio [layer]"]
    assert [tensor["name"] for tensor in document["engine"]["tensors"]] == ["x", "y", "total", "ratio"]


# refit-engine


def test_a_stripped_plan_is_refused_until_it_has_weights(trtw: Trtw, model: Path, tmp_path: Path) -> None:
    stripped, whole = tmp_path / "stripped.plan", tmp_path / "whole.plan"
    trtw("build-engine", model, "--strip-weights", "-o", stripped)
    refused = trtw("infer-engine", stripped)
    assert refused.exit_code == 2
    assert "trtw refit-engine stripped.plan MODEL.onnx" in refused.stderr
    other = write_model(tmp_path / "other.onnx", 4)
    document = json.loads(trtw("refit-engine", stripped, other, "-o", whole, "--json").stdout)
    assert document["manifest"]["model"]["file"] == "other.onnx"
    assert infer(trtw, whole, "--no-bench")["inputs"]["first"]["x"]["shape"] == [4, 3]


# safety


def test_a_plan_that_is_not_the_built_one_is_refused(trtw: Trtw, plan: Path) -> None:
    content = plan.read_bytes()
    for changed in (content[:-5], content[:-1] + b"!", content + b"more"):
        plan.write_bytes(changed)
        for words in (("inspect-engine", plan), ("infer-engine", plan)):
            result = trtw(*words)
            assert result.exit_code == 2
            assert "truncated, replaced or tampered with" in result.stderr


def test_a_plan_without_manifest_needs_trust(trtw: Trtw, plan: Path) -> None:
    plan.with_name(plan.name + ".json").unlink()
    refused = trtw("infer-engine", plan, "--no-bench")
    assert refused.exit_code == 2
    assert "--trust" in refused.stderr
    trusted = trtw("infer-engine", plan, "--no-bench", "--trust")
    assert trusted.exit_code == 0
    assert "no manifest (--trust)" in trusted.stderr


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("TRTW_DOUBLE_VERSION", "11.1.0", "built by TensorRT 10.16.1, this machine has 11.1.0"),
        ("TRTW_DOUBLE_CAPABILITY", "12.0", "compute capability 9.0 (GPU 9.0), this GPU has 12.0"),
    ],
)
def test_a_plan_of_another_version_or_gpu_is_refused(
    trtw: Trtw, plan: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, text: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = trtw("infer-engine", plan)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize("content", [b"", b"\x08\x07 an onnx file", b"PK\x03\x04 an archive", b"<html>"])
def test_a_file_that_is_no_plan_is_refused_even_with_trust(trtw: Trtw, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "thing.plan"
    file.write_bytes(content)
    assert trtw("infer-engine", file, "--trust").exit_code == 2


def test_pickled_arrays_are_never_loaded(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "evil.npy"
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    result = trtw("infer-engine", plan, "-i", f"x={file}", "-i", f"y={file}")
    assert result.exit_code == 2
    assert "cannot be read as arrays" in result.stderr


# infer-engine


def test_inputs_by_name_and_in_order_give_the_same_outputs(
    trtw: Trtw, plan: Path, arrays: dict[str, Path], tmp_path: Path
) -> None:
    x, y = np.load(arrays["x"]), np.load(arrays["y"])
    np.savez(tmp_path / "both.npz", y=y, x=x)
    forms = (
        (f"y={arrays['y']}", f"x={arrays['x']}"),
        (arrays["x"], arrays["y"]),
        (tmp_path / "both.npz",),
    )
    for form in forms:
        words = [word for source in form for word in ("-i", source)]
        document = infer(trtw, plan, *words)
        outputs = next((Path(document["directory"]) / "outputs").iterdir())
        np.testing.assert_allclose(np.load(outputs / "total.npy"), x + y)
        np.testing.assert_allclose(np.load(outputs / "ratio.npy"), x / y)
        assert document["benchmark"] is None


def test_a_folder_is_streamed_sample_by_sample(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for number in range(5):
        value = np.full((2, 3), number + 1, np.float32)
        np.savez(folder / f"s{number}.npz", x=value, y=value)
    document = infer(trtw, plan, "-i", folder)
    run = Path(document["directory"])
    assert document["samples"] == 5
    for number in range(5):
        np.testing.assert_array_equal(np.load(run / "outputs" / f"s{number}" / "total.npy"), 2.0 * (number + 1))
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    assert [record["sample"] for record in records] == [f"s{number}" for number in range(5)]
    assert {path.name for path in run.iterdir()} == {
        "env.json", "metrics.json", "outputs", "records.jsonl", "run.json",
    }  # fmt: skip


def test_an_earlier_run_is_the_reference_of_the_next(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    first = infer(trtw, plan, "--no-bench", "--seed", "3")
    outputs = Path(first["directory"]) / "outputs"
    same = infer(trtw, plan, "--no-bench", "--seed", "3", "--expect", outputs)
    assert same["passed"]
    assert same["outputs"]["total"]["max_abs_error"] == 0
    result = trtw("infer-engine", plan, "--no-bench", "--seed", "4", "--expect", outputs, "--output", tmp_path / "run")
    assert result.exit_code == 1
    assert "differs from its reference in 6 of 6 elements" in result.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert not metrics["passed"]
    assert metrics["outputs"]["total"]["mismatches"] == 6
    assert json.loads((tmp_path / "run" / "run.json").read_text())["passed"] is False


def test_state_runs_through_the_samples_and_is_measured(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"s{number}.npy", np.full((2, 3), number + 1, np.float32))
    document = infer(trtw, *measuring(plan, "-i", folder, "--state", "total=x", "--bench"))
    assert document["state"] == {"total": "x"}
    assert document["inputs"]["first"].keys() == {"y"}
    assert document["benchmark"]["single_calls"]["python"]["end_to_end_ms"]["count"] >= 5
    outputs = Path(document["directory"]) / "outputs"
    assert [path.name for path in (outputs / "s0").iterdir()] == ["ratio.npy"]  # the state stays on the device
    for number, total in enumerate((0.0, 1.0, 3.0)):
        np.testing.assert_allclose(np.load(outputs / f"s{number}" / "ratio.npy"), total / (number + 1))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("total",), "--state takes OUTPUT=INPUT"),
        (("total=x", "total=y"), "'total' twice"),
        (("absent=x",), "State names 'absent'"),
    ],
)
def test_state_that_cannot_be(trtw: Trtw, plan: Path, words: tuple[str, ...], text: str) -> None:
    result = trtw("infer-engine", plan, "--no-bench", *(part for word in words for part in ("--state", word)))
    assert result.exit_code == 2
    assert text in result.stderr


def test_state_of_a_dynamic_shape_is_refused(trtw: Trtw, tmp_path: Path) -> None:
    model, plan = write_model(tmp_path / "dynamic.onnx", "N"), tmp_path / "dynamic.plan"
    assert trtw("build-engine", model, "--max-batch", "4", "-o", plan).exit_code == 0
    result = trtw("infer-engine", plan, "--no-bench", "--state", "total=x")
    assert result.exit_code == 2
    assert "State starts from zeros" in result.stderr


def test_tolerances_decide(trtw: Trtw, plan: Path, arrays: dict[str, Path], tmp_path: Path) -> None:
    words = (plan, "-i", arrays["x"], "-i", arrays["y"], "--expect", tmp_path / "want")
    x, y = np.load(arrays["x"]), np.load(arrays["y"])
    (tmp_path / "want").mkdir()
    np.save(tmp_path / "want" / "total.npy", x + y + 0.01)
    np.save(tmp_path / "want" / "ratio.npy", x / y)
    assert infer(trtw, *words, "--atol", "0.02")["passed"]
    assert not infer(trtw, *words, "--atol", "0.001", "--rtol", "0", code=1)["passed"]
    (tmp_path / "want" / "ratio.npy").unlink()
    missing = trtw("infer-engine", *words)
    assert missing.exit_code == 2
    assert "reference outputs of sample x are missing" in missing.stderr


def test_nan_and_infinity_fail_the_check(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "zeros.npz"
    np.savez(file, x=np.array([[0, 1, -1], [1, 1, 1]], np.float32), y=np.zeros((2, 3), np.float32))
    assert infer(trtw, plan, "-i", file)["outputs"]["ratio"]["nonfinite"] == 6
    result = trtw("infer-engine", plan, "-i", file, "--check-finite")
    assert result.exit_code == 1
    assert "6 NaN or infinite values" in result.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-i", "z=x.npy"), "has no input 'z'"),
        (("-i", "absent.npy"), "does not exist"),
        (("-i", "{x}"), "holds 1 arrays, the model takes x float32"),
        (("-i", "x={x}", "-i", "x={y}"), "given twice"),
        (("-i", "{wide}", "-i", "{y}"), r"has shape [2, 4]"),
        (("-i", "{double}", "-i", "{y}"), "is float64, the model takes"),
        (("-i", "{big}", "-i", "{y}"), "foreign byte order"),
        (("-i", "{text}", "-i", "{y}"), "are read from .npy and .npz"),
        (("-i", "{cut}", "-i", "{y}"), "cannot be read as arrays"),
        (("-i", "{x}", "-i", "{y}", "--shape", "x:2x3"), "--shape is for random inputs"),
        (("--shape", "q:2x3"), "has no input 'q'"),
        (("--shape", "x"), "--shape takes NAME:DIMxDIM"),
        (("--profile", "3"), "there is no profile 3"),
        (("--percentiles", "12,x"), "--percentiles takes numbers"),
        (("--expect", "absent"), "folder of reference outputs does not exist"),
        (("-i", "{x}", "--export-times", "t.json"), "--export-times needs --bench"),
    ],
)
def test_inputs_that_do_not_fit_are_told(
    trtw: Trtw, plan: Path, arrays: dict[str, Path], tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    x = np.load(arrays["x"])
    special = {"wide": np.zeros((2, 4), np.float32), "double": x.astype(np.float64), "big": x.astype(">f4")}
    files = {**arrays, "text": tmp_path / "notes.txt", "cut": tmp_path / "cut.npy"}
    for name, array in special.items():
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], array)
    files["text"].write_text("text")
    files["cut"].write_bytes(arrays["x"].read_bytes()[:-4])
    result = trtw("infer-engine", plan, *(word.format_map(files) for word in words))
    assert result.exit_code == 2
    assert text in result.stderr
    assert list((tmp_path / "out").glob("infer-engine/*")) == []


def test_measuring_keeps_every_sample(trtw: Trtw, plan: Path, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    words = measuring(plan, "--streams", "2", "--percentiles", "75", "--layer-times", "--export-times", times)
    document = infer(trtw, *words)
    measured = document["benchmark"]
    assert measured["queries"] == 200
    assert measured["throughput_qps"] == 2000
    assert measured["latency_ms"]["p50"] == pytest.approx(1.2)
    assert measured["compute_ms"]["p75"] == 1
    assert measured["settings"]["cuda_graph"]
    assert measured["single_calls"]["python"]["end_to_end_ms"]["count"] >= 5
    run = Path(document["directory"])
    kinds = [json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()]
    assert (kinds.count("sample"), kinds.count("query")) == (1, 200)
    assert kinds.count("call") > 100
    assert [layer["share"] for layer in json.loads((run / "layers.json").read_text())["layers"]] == [0.5, 0.5]
    exported = json.loads(times.read_text())
    assert len(exported) == 200
    assert exported[0]["endD2hMs"] - exported[0]["startH2dMs"] == pytest.approx(exported[0]["latencyMs"])


def test_measuring_is_shown_to_people(trtw: Trtw, plan: Path) -> None:
    shown = trtw("infer-engine", *measuring(plan, "--no-transfers", "--no-cuda-graph", "--block"))
    assert shown.exit_code == 0
    assert "Throughput 1000.0 queries/s" in shown.stdout
    assert "CUDA graph off" in shown.stdout
    assert "too few to claim p95, p99" in shown.stdout


# machines that lack something


@pytest.mark.parametrize(
    "words",
    [
        ("build-engine", "{model}"),
        ("infer-engine", "{plan}"),
        ("inspect-engine", "{plan}"),
        ("refit-engine", "{plan}", "{model}", "-o", "new.plan"),
        ("eval-coco", "--backend", "trt", "--model", "{model}", "--images", "{model}", "--annotations", "{model}"),
    ],
)
def test_without_the_native_core_the_mend_is_told(
    trtw: Trtw, plan: Path, model: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)  # an import of it fails
    native.native.cache_clear()
    result = trtw(*(word.format(model=model, plan=plan) for word in words))
    assert result.exit_code == 3
    assert "pixi run build-native" in result.stderr


def test_the_manifest_is_shown_without_the_native_core(trtw: Trtw, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)
    native.native.cache_clear()
    document = json.loads(trtw("inspect-engine", plan, "--manifest-only", "--json").stdout)
    assert document["engine"] is None
    assert document["manifest"]["engine"]["sha256"] == document["sha256"]
