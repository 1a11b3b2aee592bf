"""`trtw sensitivity` and `trtw quantize --keep-score`: tables, files, pages and exit codes."""

import json
import re
import shlex
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.in_app import trtw
from tests.onnx_text import write_onnx
from tests.unit.quantize.planted import PLANTED, planted_data, planted_model

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.model.opened import Model
from trt_workbench.quantize.data import calibration_data
from trt_workbench.quantize.document import Sensitivity
from trt_workbench.quantize.sensitivity_report import brings
from trt_workbench.quantize.settings import CalibrationSettings

pytestmark = pytest.mark.usefixtures("blank_pictures")


@pytest.fixture
def words(tmp_path: Path) -> list[Any]:
    data = planted_data(tmp_path)
    return [planted_model(tmp_path / "m.onnx"), "--calibration", data.calibration, "--seed", 3]


def test_a_table_a_document_and_a_page(tmp_path: Path, words: list[Any]) -> None:
    result = trtw("sensitivity", *words, "--score", "cosine", "--worst", 1, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if "Conv" in line]
    assert PLANTED in rows[0]
    assert len(rows) == 4
    document = json.loads((tmp_path / "run" / "sensitivity.json").read_text())
    assert document["groups"][0]["name"] == PLANTED
    assert document["groups"][0]["score"]["loss"] > 0.01
    assert document["groups"][1]["score"] is None
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<tr>") == 1 + len(document["groups"])
    assert re.search(r"One group causes [\d.> ]+ % of the noise of int8", page)
    assert f"{PLANTED} alone in int8 costs {document['groups'][0]['score']['loss']:.4f} of cosine." in page
    (tmp_path / "run" / "report.html").unlink()
    assert trtw("report", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text() == page


CHAIN = """g (float[n,4,8,8] x) => (float[n,4,8,8] y) {
  [first] a = Conv<pads = [1,1,1,1]>(x, w) r = Relu(a)
  [inner] b = Conv<pads = [1,1,1,1]>(r, w) s = Mul(b, wide)
  [middle] c = Conv(s, v) t = Relu(c)
  [last] y = Conv<pads = [1,1,1,1]>(t, w) }"""
ONE = """g (float[n,4,8,8] x) => (float[n,4,8,8] y) {
  [first] a = Conv<pads = [1,1,1,1]>(x, w) r = Mul(a, wide) s = Relu(r) [last] y = Conv(s, v) }"""


@pytest.mark.parametrize("text", [CHAIN, ONE], ids=["three groups are free", "one group is free"])
def test_the_proposed_command_is_taken_and_brings_what_is_said(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lines say both. quantize keeps the last anyway, and refuses to keep all: then there is no command."""
    wide = np.array([1000, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)
    draw = np.random.default_rng(0).normal
    weights = {"w": draw(size=(4, 4, 3, 3)).astype("f4"), "v": draw(size=(4, 4, 1, 1)).astype("f4"), "wide": wide}
    model = write_onnx(tmp_path / "m.onnx", text, weights)
    asked = [model, "--calibration", "random", "--seed", 3]
    typed = [*map(str, asked), "--output", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["trtw", "sensitivity", *typed])
    result = trtw("sensitivity", *typed)
    assert result.exit_code == 0, result.output
    found = Sensitivity.model_validate_json((tmp_path / "run" / "sensitivity.json").read_text())
    assert [group.name for group in found.groups if group.kept] == ["last"] == [found.groups[-1].name]
    said, words, *_ = result.stdout.splitlines()
    assert said == brings(found)
    if text is ONE:
        assert "no gain" in said
        assert not found.advised
        assert "trtw quantize" not in result.stdout
        return
    assert f"; with {', '.join(found.advised)} in fp32, too" in said
    made = {}
    for name, typed in {"advised": words, "plain": " ".join(["trtw", "quantize", *map(str, asked)])}.items():
        output = tmp_path / f"{name}.onnx"
        answer = trtw(*shlex.split(typed)[1:], "--to", "int8", "--output", output)
        assert answer.exit_code == 0, answer.output
        made[name] = output
    noise = {name: _noise_of(model, path) for name, path in made.items()}
    assert found.plain == pytest.approx(noise["plain"], rel=1e-3)
    assert found.kept == pytest.approx(noise["advised"], rel=1e-3)
    assert noise["advised"] < 0.5 * noise["plain"]


def _noise_of(model: Path, made: Path) -> float:
    data = calibration_data(Model.open(model), CalibrationSettings(calibration="random", seed=3))
    inputs = {"x": np.stack([one["x"] for one in islice(data.read(), 4)])}
    with OrtCpuBackend().load(model) as before, OrtCpuBackend().load(made) as after:
        want, got = (one.run(inputs)["y"].astype(float) for one in (before, after))
    return float(((got - want) ** 2).sum() / (want**2).sum())


def test_json_alone_and_noise_is_said(tmp_path: Path, words: list[Any]) -> None:
    words[2] = "random"
    result = trtw("sensitivity", *words, "--json", "--output", tmp_path / "run")
    assert json.loads(result.stdout)["calibrated"] is False
    assert "NOT CALIBRATED" in result.stderr


@pytest.mark.long
def test_a_search_writes_model_evidence_and_page(tmp_path: Path, words: list[Any]) -> None:
    output = tmp_path / "made.onnx"
    asked = ["quantize", *words, "--to", "int8", "--score", "cosine", "--output", output]
    result = trtw(*asked, "--keep-score", 0.001)
    assert result.exit_code == 0, result.output
    assert "cosine on 12 held-out samples: " in result.stdout
    assert "Unchanged: 1 group (chosen by the score)" in result.stdout
    evidence = json.loads((tmp_path / "made.json").read_text())
    assert evidence["search"]["chosen"]["kept"] == 1
    search = tmp_path / "made.search"
    assert json.loads((search / "search.json").read_text())["order"][0] == PLANTED
    page = (search / "report.html").read_text()
    assert "1 of 4 groups kept in fp32, " in page
    assert "of the arithmetic in int8; cosine on 12 held-out samples: 0.99" in page
    assert "(as quantize makes it)" in page
    assert f"Kept in fp32: {PLANTED}." in page
    assert trtw("report", search).exit_code == 0
    failed = trtw(*asked, "--keep-score", 0)
    assert failed.exit_code == 1
    assert "No int8 model is shown to keep cosine within 0: with 3 of 4 groups kept in fp32 the loss" in failed.stderr


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """A detector as yolov10 of one box, as sure as the image is bright, with 16 grey images of that box in `images/`.

    One channel of what the convolution `planted` reads is a thousand times the others, which hold the brightness.
    """
    side, box = 32, [4, 6, 16, 12]
    rows = np.array([[[4, 6, 20, 18, 0, 0]]], np.float32)
    weights: dict[str, Any] = {
        "w0": np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32).reshape(4, 3, 1, 1),
        "wide": np.array([1000, 1, 1, 1], np.float32).reshape(1, 4, 1, 1),
        "w1": np.array([0, 1, 1, 1], np.float32).reshape(1, 4, 1, 1) / 3,
        "w2": np.ones((1, 1, 1, 1), np.float32),
        "axes": np.array([1, 2, 3]),
        "shape": np.array([-1, 1, 1]),
        "rows": rows,
        "sure": np.array([[[0, 0, 0, 0, 1, 0]]], np.float32),
    }
    text = f"""g (float[N,3,{side},{side}] images) => (float[N,1,6] output0) {{
      [first] a = Conv(images, w0)
      b = Mul(a, wide)
      [planted] c = Conv(b, w1)
      [last] d = Conv(c, w2)
      mean = ReduceMean(d, axes) score = Reshape(mean, shape) scores = Mul(score, sure) output0 = Add(rows, scores)
    }}"""
    path = write_onnx(tmp_path / "detector.onnx", text, weights, 18)
    made = onnx.load(path)
    onnx.helper.set_model_props(made, {"family": "yolov10", "names": "['square']"})
    onnx.save(made, path)
    (tmp_path / "images").mkdir()
    truth: dict[str, Any] = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "square"}]}
    for number in range(1, 17):
        cv2.imwrite(str(tmp_path / "images" / f"{number}.png"), np.full((side, side, 3), 40 + 10 * number, np.uint8))
        truth["images"].append({"id": number, "file_name": f"{number}.png", "width": side, "height": side})
        one = {"id": number, "image_id": number, "category_id": 1, "bbox": box, "area": 192, "iscrowd": 0}
        truth["annotations"].append(one)
    (tmp_path / "instances.json").write_text(json.dumps(truth))
    return path


def test_a_detector_keeps_its_ap_on_annotated_images(
    tmp_path: Path, detector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["quantize", detector.name, "--to", "int8", "--calibration", "images/", "--annotations", "instances.json"]
    result = trtw(*asked, "--keep-score", 0.005, "--output", "made.onnx")
    assert result.exit_code == 0, result.output
    assert "AP on 8 held-out images: 1.0000" in result.stdout
    assert "1 of 3 groups kept in fp32, 94.1 % of the arithmetic in int8: AP 0.0000, loss 1.0000" in result.stderr
    document = json.loads((tmp_path / "made.search" / "search.json").read_text())
    assert document["order"][0] == PLANTED
    search = json.loads((tmp_path / "made.json").read_text())["search"]
    assert (search["figure"], search["unit"], search["chosen"]["kept"]) == ("AP", "images", 1)
    with OrtCpuBackend().load(tmp_path / "made.onnx") as session:
        grey = np.full((1, 3, 32, 32), 0.5, np.float32)
        assert session.run({"images": grey})["output0"][0, 0, 4] == pytest.approx(0.5, abs=0.02)


def test_groups_of_a_detector_are_scored_by_ap_on_annotated_images(
    tmp_path: Path, detector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["sensitivity", detector.name, "--calibration", "images", "--annotations", "instances.json", "--worst", 2]
    result = trtw(*asked, "--output", "run")
    assert result.exit_code == 0, result.output
    groups = json.loads((tmp_path / "run" / "sensitivity.json").read_text())["groups"]
    assert (groups[0]["name"], groups[0]["score"]["loss"]) == (PLANTED, 1.0)
    assert groups[1]["score"]["loss"] == 0.0
    assert groups[2]["score"] is None


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--annotations", "absent.json", "--keep-score", "0.1"], "the folder of their images"),
        (["--budget", "5m"], "Pass --keep-score (the allowed loss of the score) with --budget"),
        (["--score", "cosine"], "--keep-score"),
    ],
)
def test_what_a_search_cannot_use_is_refused(tmp_path: Path, words: list[Any], more: list[str], text: str) -> None:
    result = trtw("quantize", *words, "--to", "int8", "--output", tmp_path / "made.onnx", *more)
    assert result.exit_code == 2, result.output
    assert text in result.stderr
