"""What the embedded datasets go with: the embedded models, wherever they lie, and engines built from them."""

import shutil
from pathlib import Path

import pytest

from trt_workbench.core.workspace import CLASSIFIER, DETECTOR, SEGMENTER, embedded_model
from trt_workbench.engine.builder import build, export, prepare_build
from trt_workbench.engine.options import BuildSettings
from trt_workbench.model.opened import Model
from trt_workbench.vision.scenes.dataset import embedded_name


def test_a_copy_fits_and_another_model_does_not(tmp_path: Path) -> None:
    copy = tmp_path / "mine.onnx"
    shutil.copy(embedded_model(), copy)
    for name in (DETECTOR, SEGMENTER, CLASSIFIER):
        assert embedded_name(embedded_model(name)) == name
    assert embedded_name(copy) == DETECTOR
    with copy.open("ab") as file:
        file.write(b"\0")
    assert not embedded_name(copy)
    assert not embedded_name(tmp_path / "absent.onnx")


@pytest.mark.usefixtures("doubled_core")
def test_a_plan_fits_by_its_manifest(tmp_path: Path) -> None:
    settings = BuildSettings.model_validate({"profiles": ["images:1x3x320x320/1x3x320x320/8x3x320x320"]})
    plan = tmp_path / "shapes.plan"
    export(build(prepare_build(Model.open(embedded_model()), settings)).plan, plan)
    assert embedded_name(plan) == DETECTOR
    plan.with_name("shapes.plan.json").unlink()
    assert not embedded_name(plan)
