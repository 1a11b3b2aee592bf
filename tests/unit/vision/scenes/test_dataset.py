"""What the embedded dataset goes with: the embedded detector, wherever it lies, and engines built from it."""

import shutil
from pathlib import Path

import pytest

from trt_workbench.core.workspace import embedded_model
from trt_workbench.engine.builder import build, export, prepare_build
from trt_workbench.engine.options import BuildSettings
from trt_workbench.model.opened import Model
from trt_workbench.vision.scenes.dataset import fits_embedded_dataset


def test_a_copy_fits_and_another_model_does_not(tmp_path: Path) -> None:
    copy = tmp_path / "mine.onnx"
    shutil.copy(embedded_model(), copy)
    assert fits_embedded_dataset(embedded_model())
    assert fits_embedded_dataset(copy)
    with copy.open("ab") as file:
        file.write(b"\0")
    assert not fits_embedded_dataset(copy)
    assert not fits_embedded_dataset(tmp_path / "absent.onnx")


@pytest.mark.usefixtures("doubled_core")
def test_a_plan_fits_by_its_manifest(tmp_path: Path) -> None:
    settings = BuildSettings.model_validate({"profiles": ["images:1x3x320x320/1x3x320x320/8x3x320x320"]})
    plan = tmp_path / "shapes.plan"
    export(build(prepare_build(Model.open(embedded_model()), settings)).plan, plan)
    assert fits_embedded_dataset(plan)
    plan.with_name("shapes.plan.json").unlink()
    assert not fits_embedded_dataset(plan)
