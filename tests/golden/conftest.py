"""The folder in which all cases run, and the option that records."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.golden.cases import BENCH

from trt_workbench.core import workers
from trt_workbench.engine import native
from trt_workbench.vision.scenes import dataset
from trt_workbench.vision.scenes.scenes import GENERATOR_VERSION


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--record` writes the records anew."""
    parser.addoption("--record", action="store_true", help="write the golden records anew")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all cases: models of the repository, an array of noise, the scenes that eval-coco draws."""
    folder = tmp_path_factory.mktemp("golden").resolve()
    scenes = folder / "tmp" / "datasets" / "shapes" / f"v{GENERATOR_VERSION}"
    (folder / "models").symlink_to(Path(__file__).parents[2] / "models")
    (folder / "scenes").symlink_to(scenes / "val")
    (folder / "scenes.json").symlink_to(scenes / "annotations" / "instances_val.json")
    (folder / "bench.yaml").write_text(BENCH)
    np.save(folder / "input.npy", np.random.default_rng(0).random((1, 3, 320, 320), dtype=np.float32))
    return folder


@pytest.fixture
def workplace(made: Path, forking: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all cases, in which this test runs: what is set must not reach other tests of the process."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("TRTW_TMP", str(made / "tmp"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # records are of processors
    monkeypatch.setattr(workers, "subprocess", forking)
    monkeypatch.setattr(native, "_early", {})  # of a test before, in this process
    monkeypatch.setattr(dataset, "HELD_OUT_IMAGES", 12)  # as many as the cases look at
    for name in [name for name in os.environ if name.startswith("TRTW_") and name != "TRTW_TMP"]:
        monkeypatch.delenv(name)
    return made
