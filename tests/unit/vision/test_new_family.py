"""The detector family of docs/extending.md, installed as a package."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import BackendFailure, ComponentMissing, UsageProblem
from trt_workbench.vision.families import DecodeSettings, Family, family_names, recognise

EXAMPLE = Path(__file__).parents[2] / "examples" / "family"
IMAGES = (TensorSpec("images", "float32", (1, 3, 64, 96)),)


@pytest.fixture
def faces(outside_package: Callable[..., None]) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    outside_package(project["entry-points"], EXAMPLE, name=project["name"])


def seen(columns: int, family: str | None = None) -> Family:
    return recognise(IMAGES, (TensorSpec("rows", "float32", (1, 3, columns)),), {}, Preparation(family=family))


@pytest.mark.parametrize("family", [None, "faces"])
def test_a_family_of_another_package_is_recognised_and_decodes(faces: None, family: str | None) -> None:  # noqa: ARG001
    found = seen(5, family)
    assert (found.name, found.class_count, found.transform().shape) == ("faces", 1, (3, 64, 96))
    rows = [[1, 2, 30, 40, 0.9], [1, 2, 30, 41, 0.8], [50, 5, 60, 20, 0.3]]
    boxes = found.decode({"rows": np.array([rows], np.float32)}, DecodeSettings(conf=0.2))[0]
    np.testing.assert_allclose(boxes.scores, [0.9, 0.3])  # the second overlaps the first
    np.testing.assert_allclose(boxes.boxes, [rows[0][:4], rows[2][:4]])


def test_a_family_of_another_package_takes_sizes_where_it_is_named(faces: None) -> None:  # noqa: ARG001
    inputs = (*IMAGES, TensorSpec("orig_target_sizes", "int64", (1, 2)))
    rows = (TensorSpec("rows", "float32", (1, 3, 5)),)
    found = recognise(inputs, rows, {}, Preparation(family="faces"))
    assert (found.name, found.facts.sizes) == ("faces", inputs[1])
    with refused(UsageProblem):
        recognise(inputs, rows, {}, Preparation(family="yolov8"))
    with refused(UsageProblem):
        recognise(inputs, rows, {})


def test_our_own_families_come_first(faces: None) -> None:  # noqa: ARG001
    assert seen(6).name == "yolov10"
    assert family_names()[-1] == "faces"
    with refused(UsageProblem):
        seen(7)
    with refused(UsageProblem):
        seen(5, "face")


def test_a_package_that_cannot_be_used_is_one_sentence(outside_package: Callable[..., None]) -> None:
    outside_package({"trt_workbench.families": {"broken": "no_such_module:Family", "yolox": "faces:Faces"}}, EXAMPLE)
    assert seen(6).name == "yolov10"
    with refused(UsageProblem):
        seen(5)
    with refused(ComponentMissing):
        seen(5, "broken")
    with refused(ComponentMissing):
        seen(5, "addon:yolox")


ODD = """
from faces import Faces

class Odd(Faces):
    name = "odd"

    @classmethod
    def create(cls, output, facts):
        if output.name == "raises":
            raise KeyError("rows")
        return None if output.name == "nothing" else super().create(output, facts)

    def _candidates(self, image, conf):
        found = super()._candidates(image, conf)
        return found if conf > 0.5 else 1 / 0
"""


def test_one_that_fails_is_a_sentence_with_its_name(outside_package: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "odd_family.py").write_text(ODD)
    outside_package({"trt_workbench.families": {"odd": "odd_family:Odd"}}, EXAMPLE, tmp_path)

    def made(output: str, family: str | None = "odd") -> Family:
        return recognise(IMAGES, (TensorSpec(output, "float32", (1, 3, 5)),), {}, Preparation(family=family))

    with refused(BackendFailure):
        made("raises")
    with refused(BackendFailure):
        made("nothing")
    with refused(UsageProblem):
        made("raises", family=None)
    rows = {"rows": np.array([[[1, 2, 30, 40, 0.9]]], np.float32)}
    assert len(made("rows").decode(rows, DecodeSettings(conf=0.6))[0].scores) == 1
    with refused(BackendFailure):
        made("rows").decode(rows, DecodeSettings(conf=0.01))
