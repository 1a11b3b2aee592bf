"""What works without a GPU, what is said of one that stays unused, and in which words."""

import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
from tests.cli.conftest import CocoSetup
from tests.in_app import json_of, trtw
from tests.onnx_text import write_onnx

from trt_workbench.engine import native

Fixture = Callable[..., None]
cpu_wheel = pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this ONNX Runtime is for GPUs"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "model.onnx", "g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")


def unused(command: str) -> str:
    return (
        "GPU (compute capability 8.9, driver for CUDA 13.0) is not used: the environment default is for the CPU. "
        f"Use an environment that has it: `pixi run -e gpu {command}`."
    )


@pytest.mark.long
@cpu_wheel
def test_eval_coco_says_first_which_gpu_is_unused(gpus: Fixture, started_by: Fixture, coco: CocoSetup) -> None:
    gpus("8.9")
    started_by("pixi", "default", "eval-coco", "--limit", "2")
    lines = coco.invoke("--limit", "2").stderr.splitlines()
    assert lines[0] == unused("eval-coco --limit 2")
    assert lines[1].startswith("Backend: ort-cpu (chosen by auto)")
    coco_by_name = coco.invoke("--backend", "ort-cpu", "--output", str(coco.root / "runs" / "two"))
    assert "unused" not in coco_by_name.stderr


@cpu_wheel
def test_the_embedded_detector_is_named_after_it(
    gpus: Fixture, started_by: Fixture, coco: CocoSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus("8.9")
    started_by("pixi", "default", "eval-coco")
    monkeypatch.setattr("trt_workbench.core.workspace.embedded_model", lambda: coco.model)
    lines = coco.invoke_exactly(coco.arguments()[2:]).stderr.splitlines()
    assert lines[:2] == [unused("eval-coco"), f"Model: the embedded detector {coco.model}"]


@pytest.mark.long(but=1)
@cpu_wheel
@pytest.mark.parametrize("command", ["infer-engine", "profile"])
def test_other_commands_say_it_too(
    gpus: Fixture, started_by: Fixture, model: Path, tmp_path: Path, command: str
) -> None:
    gpus("8.9")
    started_by("pixi", "default", "trtw", command, "m.onnx")
    result = trtw(command, model, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[0].removeprefix("note: ") == unused(f"trtw {command} m.onnx")


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "{model}"),
        ("upgrade", "{model}", "--to", "."),
        ("infer-engine", "{model}", "--backend", "trt"),
        ("profile", "{model}", "--backend", "trt"),
        ("profile", "{model}", "--backend", "ort-trt"),
    ],
)
def test_what_needs_a_gpu_names_what_needs_none(
    gpus: Fixture, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    gpus()
    monkeypatch.chdir(tmp_path)
    done = trtw(*(word.format(model=model) for word in words))
    assert done.exit_code == 3
    advice = "Or choose ort-cpu, which runs the model as exported on the CPU: --backend ort-cpu."
    assert done.stderr.rstrip().endswith(advice)
    Path("m.plan").write_bytes(b"plan\0")
    if words[0] == "verify":
        assert advice not in trtw("verify", "m.plan").stderr
        assert trtw("verify", model, "--backend", "ort-cpu", "--quick").exit_code == 0


@pytest.mark.parametrize("command", ["backends", "doctor"])
@pytest.mark.parametrize("environment", ["default", "rtx5090-trt11", "h200"])
@pytest.mark.parametrize("start", ["pixi", "tasks/run"])
def test_pip_is_not_advised_inside_an_environment_of_pixi_toml(
    gpus: Fixture, started_by: Fixture, start: str, environment: str, command: str
) -> None:
    gpus("9.0")
    started_by(start, environment, "trtw", command)
    words = trtw(command, "--json").stdout
    assert "pip install" not in words
    assert "pip uninstall" not in words
    assert ("tasks/run -e" if start == "tasks/run" else "pixi run -e") in words


def test_a_build_is_described_without_gpu_tensorrt_and_core(
    gpus: Fixture, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus()
    monkeypatch.setattr(native, "native", native.native.__wrapped__)
    monkeypatch.setitem(sys.modules, native.MODULE, None)
    assert json_of("build-engine", model, "--dry-run")["options"]["precision"] == ["fp32"]


@pytest.mark.parametrize("command", ["setup-tensorrt", "build-engine", "inspect", "refit-engine", "build-ort"])
def test_help_needs_no_gpu(gpus: Fixture, command: str) -> None:
    gpus()
    assert trtw(command, "--help").exit_code == 0
