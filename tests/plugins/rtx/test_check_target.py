"""`trtw check-target` as a program, with the compiler where it is installed and its recorded answers elsewhere."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.in_app import json_of, stderr_of, stdout_of, trtw
from tests.plugins.rtx.models import MODELS, one
from tests.texts import held

from trt_workbench.model.low_precision.evidence import METADATA_KEY
from trt_workbench_rtx import compiler as rtx
from trt_workbench_rtx import run as targets

INSTALLED = importlib.util.find_spec(rtx.MODULE) is not None
# In place of the compiler's process. What it does is said by the name of the architecture.
_WORKER = """
import os, sys, time
from trt_workbench.core.errors import ComponentMissing, UsageProblem
built = {"engine_size_bytes": 3 << 20, "layers": [{"name": "<l>", "kind": "gemm", "kernel": "", "nodes": ["mm"],
    "inputs": [{"type": "int8", "shape": [-1, 4]}], "constants": [], "outputs": []}]}
refused = {"refusal": {"reason": "it cannot be", "layer": "mm", "operator": "MatMul", "types": ["fp8"]}}
def compiled(request):
    if request["sm"] == "sm80":
        sys.stderr.write("a last word\\n")
        sys.stderr.flush()
        os.abort()
    if request["sm"] == "sm89":
        time.sleep(60)
    if request["sm"] == "sm75":
        raise ComponentMissing("no such library")
    if "13" in request["profiles"][0]:
        raise UsageProblem("The profile does not fit the model.")
    found = {"build_s": 0.5, "version": "1.7", "log": ["a warning"]}
    return {**found, **(refused if request["sm"] == "sm86" else built)}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(MODELS["fp8"](), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a script answer in place of the compiler's process."""
    (tmp_path / "recorded_compiler.py").write_text(_WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(targets, "TARGET", "recorded_compiler")
    monkeypatch.setattr(rtx, "MODULE", "json")


def document(model: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    result = trtw("check-target", model, "--max-batch", "4", "--json", "--output", model.parent / "run", *words)
    return result.exit_code, json.loads(result.stdout), result.stderr


@pytest.mark.usefixtures("recorded")
def test_a_model_that_is_built_passes(model: Path) -> None:
    code, found, err = document(model, "--gpu", "rtx5090,sm121")
    assert code == 0
    assert re.sub(r"\[\d+ s\] Compiling .*\n", "", err) == ""  # a slow machine gives signs of life
    assert found["passed"]
    assert found["profiles"] == ["x:1x16/4x16/4x16"]
    assert [target["sm"] for target in found["targets"]] == ["sm120", "sm121"]
    assert found["targets"][0]["asked"] == ["rtx5090"]
    assert found["targets"][0]["engine_size_bytes"] == 3 << 20
    assert found["targets"][0]["precision"]["label"] == "int8"
    assert found["graph_precision"]["label"] == "fp8"
    kept = {key: value for key, value in found.items() if key != "directory"}
    assert json.loads((model.parent / "run" / "check-target.json").read_text()) == kept
    page = (model.parent / "run" / "report.html").read_text()
    assert "Built for 2 of 2 architectures" in page
    assert "&lt;l&gt;" in page
    assert (model.parent / "run" / "logs" / "sm120.log").read_text() == "a warning\n"


@pytest.mark.usefixtures("recorded")
def test_ranges_from_noise_are_said_of_the_engine_too(model: Path) -> None:
    made = onnx.load(model)
    made.metadata_props.add(key=METADATA_KEY, value=json.dumps({"to": "fp8", "calibrated": False}))
    onnx.save(made, model)
    _, found, _ = document(model, "--gpu", "sm120")
    assert found["graph_precision"]["label"] == "fp8 (not calibrated)"
    assert found["targets"][0]["precision"]["label"] == "int8 (not calibrated)"
    assert "int8 (not calibrated)" in (model.parent / "run" / "report.html").read_text()


@pytest.mark.usefixtures("recorded")
def test_one_refusal_fails_the_check_and_says_layer_and_type(model: Path) -> None:
    code, found, err = document(model, "--gpu", "sm120,a10")
    assert code == 1
    assert not found["passed"]
    assert [target["outcome"] for target in found["targets"]] == ["built", "refused"]
    assert found["targets"][1]["refusal"] == {
        "reason": "it cannot be", "layer": "mm", "operator": "MatMul", "types": ["fp8"]
    }  # fmt: skip
    assert err.startswith("error: m.onnx was not built for sm86 (a10): MatMul mm (fp8): it cannot be. Full report: ")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("recorded")
def test_a_crash_of_the_compiler_is_one_sentence_and_the_others_go_on(model: Path) -> None:
    code, found, err = document(model, "--gpu", "a100,sm120")
    assert code == 1
    assert [target["outcome"] for target in found["targets"]] == ["failed", "built"]
    assert "the compiler crashed: the process was killed by SIGABRT; its last output: a last word" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("recorded")
def test_a_build_that_does_not_end_is_ended(model: Path) -> None:
    code, found, err = document(model, "--gpu", "l4", "--time-limit", "0.5")
    assert code == 1
    assert found["targets"][0]["outcome"] == "failed"
    assert "stopped at its limit (--time-limit): no answer within 0.5 s" in err


@pytest.mark.usefixtures("recorded")
def test_a_package_that_cannot_be_opened_is_a_missing_component(model: Path) -> None:
    words = ("--gpu", "t4", "--max-batch", 2, "--output", model.parent / "run")
    held(stderr_of("check-target", model, *words, code=3))
    assert not (model.parent / "run").exists()


@pytest.mark.usefixtures("recorded")
def test_a_mistake_in_the_profile_is_bad_usage(model: Path) -> None:
    words = ("--gpu", "sm120", "--profile", "x:1x16/2x16/13x16", "--output", model.parent / "run")
    held(stderr_of("check-target", model, *words))
    assert not (model.parent / "run").exists()


def test_an_operator_set_that_does_not_exist_is_refused(model: Path) -> None:
    made = onnx.load(model)
    made.opset_import[0].version = 99
    onnx.save(made, model)
    said = stderr_of("check-target", model, "--max-batch", "4", "--output", model.parent / "run")
    assert said.startswith("error: The model says operator set 99, and the newest of ONNX here is ")
    assert "operator set 99" in stderr_of("build-engine", model, "--max-batch", "4", "-o", model.parent / "m.plan")


@pytest.mark.usefixtures("recorded")
def test_fp64_is_said_beside_an_engine(model: Path) -> None:
    onnx.save(one("Relu", onnx.TensorProto.DOUBLE), model)
    run = model.parent / "run"
    printed = stdout_of("check-target", model, "--gpu", "sm120", "--profile", "x:2x2", "--output", run)
    (note,) = json.loads((run / "check-target.json").read_text())["notes"]
    assert "x, y of the engine are float32" in note
    assert note in " ".join(printed.split())
    assert note in (run / "report.html").read_text()


@pytest.mark.usefixtures("recorded")
def test_the_report_can_be_made_again(model: Path) -> None:
    document(model, "--gpu", "sm120")
    page = model.parent / "run" / "report.html"
    first = page.read_text()
    page.unlink()
    assert trtw("report", model.parent / "run").exit_code == 0
    assert page.read_text() == first


def test_without_the_package_the_command_that_installs_it_is_named(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rtx, "MODULE", "no_such_package")
    said = stderr_of("check-target", model, "--max-batch", "1", "--output", model.parent / "run", code=3)
    assert "`pip install 'trt-workbench-rtx[compiler]'`" in said or " -e rtx " in said
    assert not (model.parent / "run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu", "h200"],
        ["--gpu", "rtx9090"],
        [],
        ["--profile", "y:1x16"],
        ["--profile", "x:what"],
        ["--max-batch", "2", "--profile", "x:1x16"],
    ],
)
def test_bad_usage_is_refused_before_anything_is_made(words: list[str], model: Path) -> None:
    held(stderr_of("check-target", model, *words, "--output", model.parent / "run"))
    assert not (model.parent / "run").exists()


@pytest.mark.skipif(not INSTALLED, reason="TensorRT-RTX's package is not installed")
@pytest.mark.parametrize(
    ("name", "outcomes", "words"),
    [
        ("plain", ["built", "built"], ("--max-batch", "4")),
        ("fp8", ["built", "refused"], ("--profile", "x:1x16/2x16/8x16")),
        ("no such operator", ["refused", "refused"], ()),
    ],
)
def test_the_real_compiler(name: str, outcomes: list[str], words: tuple[str, ...], tmp_path: Path) -> None:
    onnx.save(MODELS[name](), tmp_path / "m.onnx")
    words = ("--gpu", "rtx5090,a10", *words, "--output", tmp_path / "run")
    found = json_of("check-target", tmp_path / "m.onnx", *words, code=int("refused" in outcomes))
    assert [target["outcome"] for target in found["targets"]] == outcomes
    assert all(target["engine_size_bytes"] for target in found["targets"] if target["outcome"] == "built")
    assert found["compiler_version"]


@pytest.mark.skipif(not INSTALLED, reason="TensorRT-RTX's package is not installed")
def test_external_weights_are_read_from_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(MODELS["plain"](), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    monkeypatch.chdir("/")
    printed = stdout_of("check-target", tmp_path / "m.onnx", "--max-batch", "2", "--json", "--output", tmp_path / "run")
    assert json.loads(printed)["model_size_bytes"] > 64 * 128 * 4
