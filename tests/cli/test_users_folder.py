"""Paths on the command line of a task, which runs in the root of the repository."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.onnx_text import write_onnx

ROOT = Path(__file__).parents[2]


def run(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a console script as the task of a person who stands in `folder`."""
    environment = {
        **os.environ,
        "INIT_CWD": str(folder),
        "PIXI_PROJECT_ROOT": str(ROOT),
        "PIXI_ENVIRONMENT_NAME": "default",
    }
    code = f"from trt_workbench.main import {script}; {script}()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "made-for-this-test.onnx", "g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")


def test_paths_mean_the_folder_in_which_the_user_stands(model: Path) -> None:
    done = run(
        model.parent, "infer_engine", model.name, "--backend", "ort-cpu", "--output", "runs/one", "--duration", "0"
    )
    assert done.returncode == 0, done.stderr
    assert any((model.parent / "runs" / "one").iterdir())
    assert not (ROOT / "runs").exists()


def test_the_repository_stays_the_one_of_the_task(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "main", "doctor", "--json").stdout)["findings"]
    assert next(row for row in found if row["component"] == "workspace")["found"].startswith(f"{ROOT}, output in ")
