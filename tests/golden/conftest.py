"""The folder in which all cases run, and the option that records."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.golden.cases import BENCH

from trt_workbench.core import workers
from trt_workbench.vision.scenes import dataset
from trt_workbench.vision.scenes.scenes import GENERATOR_VERSION


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--record` writes the records anew."""
    parser.addoption("--record", action="store_true", help="write the golden records anew")


@pytest.fixture(scope="package")  # what it sets must not reach the tests of other packages in one process
def workplace(tmp_path_factory: pytest.TempPathFactory, forking: object) -> Iterator[Path]:
    """The folder of all cases: models of the repository, an array of noise, the scenes that eval-coco draws."""
    folder = tmp_path_factory.mktemp("golden").resolve()
    scenes = folder / "tmp" / "datasets" / "shapes" / f"v{GENERATOR_VERSION}"
    (folder / "models").symlink_to(Path(__file__).parents[2] / "models")
    (folder / "scenes").symlink_to(scenes / "val")
    (folder / "scenes.json").symlink_to(scenes / "annotations" / "instances_val.json")
    (folder / "bench.yaml").write_text(BENCH)
    np.save(folder / "input.npy", np.random.default_rng(0).random((1, 3, 320, 320), dtype=np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TRTW_TMP", str(folder / "tmp"))
        patch.setenv("COLUMNS", "160")
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # records are of processors
        patch.setattr(workers, "subprocess", forking)
        patch.setattr(dataset, "HELD_OUT_IMAGES", 12)  # as many as the cases look at
        for name in [name for name in os.environ if name.startswith("TRTW_") and name != "TRTW_TMP"]:
            patch.delenv(name)
        yield folder
