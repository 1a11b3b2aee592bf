"""A model, its plan, arrays for it, and the commands on the double of the core."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.cli.engines.common import DOUBLES, write_model
from tests.in_app import trtw


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a process that finds the double and writes below the test's folder."""
    path = os.pathsep.join([str(DOUBLES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "TRTW_TMP": str(tmp_path / "out")}


@pytest.fixture(autouse=True)
def _doubled(doubled_core: None) -> None:
    """Put the double in the core's place."""


@pytest.fixture
def plan(model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.plan"
    assert trtw("build-engine", model, "-o", path, "--verify", "off").exit_code == 0
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(1)
    files = {}
    for name in ("x", "y"):
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], rng.random((2, 3), np.float32) + 1)
    return files
