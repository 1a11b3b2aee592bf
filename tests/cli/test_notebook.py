"""The notebook of the guides, cell by cell, and what a notebook shows of the results."""

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.texts import refused

import trt_workbench.api as tw
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_model
from trt_workbench.vision.scenes import dataset
from trt_workbench.vision.scenes.scenes import write_dataset

NOTEBOOK = Path(__file__).parents[2] / "docs/guides/python.ipynb"


def cells() -> list[str]:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in code)  # results of some machine are not in the repository
    return ["".join(cell["source"]) for cell in code]


def run(source: str, names: dict[str, Any]) -> Any:
    """Execute a cell; return the value of its last line, which a notebook shows."""
    *rest, last = ast.parse(source).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(rest, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_cell_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.setattr(dataset, "HELD_OUT_IMAGES", 12)  # the cells look at more
    monkeypatch.setattr(dataset, "_CALIBRATION_IMAGES", 16)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        shown = [run(source.replace("limit=40", "limit=12"), names) for source in cells()]
    assert "max_loss" not in printed.getvalue()
    assert "reference: Reference: ort-cpu" in printed.getvalue()  # of help
    _, (score, interval), report, _, found, objects, (passed, verdict), sentence = shown
    assert interval[0] < score < interval[1]
    assert "srcdoc" in report._repr_html_()
    assert found._repr_png_().startswith(b"\x89PNG")
    assert [name for name, _ in objects[0]] == list(found.names)
    assert passed
    assert verdict
    assert "fp32" in sentence or "int8" in sentence


@pytest.fixture(scope="module")
def model() -> Any:
    with tw.load(embedded_model("shapes-yolov10"), backend="ort-cpu") as loaded:
        yield loaded


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scenes")
    write_dataset(root, "val", 1, 5)
    return next(root.glob("val/*"))


def pixels_of(file: Path) -> NDArray[Any]:
    return np.asarray(cv2.imread(os.fspath(file)))


def test_a_picture_shows_what_was_found(model: Any, image: Path, tmp_path: Path) -> None:
    found, pixels = model(image), pixels_of(image)
    changed = (found.picture() != pixels).any(axis=2)
    x1, y1, x2, _ = (round(side) for side in found[0].box)
    assert changed[y1, x1 + 3 : x2 - 3].mean() > 0.9  # its upper edge
    assert changed.mean() < 0.5
    assert (pixels_of(image) == pixels).all()
    found.save(tmp_path / "picture.png")
    assert (pixels_of(tmp_path / "picture.png") == found.picture()).all()
    assert [one.score for one in found] == sorted(found.scores.tolist(), reverse=True)
    assert found[-1].name == found.names[-1]
    with refused(UsageProblem):
        found.save(tmp_path / "picture.docx")
    shown: list[Any] = []
    with patch.object(Image.Image, "show", lambda of: shown.append(np.asarray(of))):
        found.show()
    assert (shown[0] == found.picture()[..., ::-1]).all()  # red is red


def test_progress_is_a_function() -> None:
    wrong: Any = True  # as tqdm and ultralytics take it
    with refused(UsageProblem):
        tw.evaluate(limit=2, progress=wrong)


def test_an_image_of_pillow_is_one(model: Any, image: Path) -> None:
    pixels = pixels_of(image)
    of_pillow = model(Image.fromarray(pixels[..., ::-1]))
    np.testing.assert_array_equal(of_pillow.boxes, model(pixels).boxes)
    grey = model(Image.open(image).convert("L"))
    np.testing.assert_array_equal(grey.picture().shape, pixels.shape)


def test_a_run_without_a_report_says_so(tmp_path: Path) -> None:
    done = tw.Finished[dict[str, Any]]({}, tmp_path)
    assert done._repr_html_() is None
    with refused(UsageProblem):
        done.save(tmp_path / "page.html")
    (tmp_path / "report.html").write_text("<p>right</p>")
    done.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "<p>right</p>"
