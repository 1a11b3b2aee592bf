"""`trtw sensitivity` and `trtw quantize --keep-score`: tables, files, pages and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_hostile_input import trtw
from tests.unit.decide.planted import PLANTED, planted_data, planted_model


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
    (tmp_path / "run" / "report.html").unlink()
    assert trtw("report", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text() == page


def test_json_alone_and_noise_is_said(tmp_path: Path, words: list[Any]) -> None:
    words[2] = "random"
    result = trtw("sensitivity", *words, "--json", "--output", tmp_path / "run")
    assert json.loads(result.stdout)["calibrated"] is False
    assert "NOT CALIBRATED" in result.stderr


def test_a_search_writes_model_evidence_and_page(tmp_path: Path, words: list[Any]) -> None:
    output = tmp_path / "made.onnx"
    asked = ["quantize", *words, "--to", "int8", "--score", "cosine", "--output", output]
    result = trtw(*asked, "--keep-score", 0.001)
    assert result.exit_code == 0, result.output
    assert "cosine on 12 held-out samples: " in result.stdout
    assert "Left as it was: 1 group: chosen by the score" in result.stdout
    evidence = json.loads((tmp_path / "made.json").read_text())
    assert evidence["search"]["chosen"]["kept"] == 1
    search = tmp_path / "made.search"
    assert json.loads((search / "search.json").read_text())["order"][0] == PLANTED
    assert "1 of 4" in (search / "report.html").read_text()
    assert trtw("report", search).exit_code == 0
    failed = trtw(*asked, "--keep-score", 0)
    assert failed.exit_code == 1
    assert "Nothing in int8 keeps cosine within 0: with 3 of 4 groups left alone the loss is" in failed.stderr


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--annotations", "absent.json", "--keep-score", "0.1"], "the folder of their images"),
        (["--keep-score", "0.1", "--score", "cosine", "--profile", "absent"], "absent"),
        (["--score", "cosine"], "--keep-score"),
    ],
)
def test_what_a_search_cannot_use_is_refused(tmp_path: Path, words: list[Any], more: list[str], text: str) -> None:
    result = trtw("quantize", *words, "--to", "int8", "--output", tmp_path / "made.onnx", *more)
    assert result.exit_code == 2, result.output
    assert text in result.stderr
