"""`trtw decide` with real candidates, workers and measurements of the embedded detector."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trt_workbench.bench.config import RepetitionSettings
from trt_workbench.cli.app import app
from trt_workbench.decide import run as decide_run
from trt_workbench.evaluate import embedded


def trtw(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module", autouse=True)
def _few_scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The embedded scenes by their own generator, but as many as these tests look at; latencies of few calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        patch.setattr(embedded, "HELD_OUT_IMAGES", 8)
        patch.setattr(embedded, "_CALIBRATION_IMAGES", 8)
        patch.setattr(decide_run, "_MEASURE", RepetitionSettings(warmup_ms=1, duration_s=0.02, min_iterations=2))
        yield


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One decision about few images; a runtime that is not here among the others."""
    folder = tmp_path_factory.mktemp("decided") / "run"
    result = trtw(
        "decide", "--limit", 6, "--repetitions", 2, "--samples", 8, "--precisions", "fp32,int8-mixed,fp8",
        "--backends", "ort-cpu,trt", "--max-loss", 1, "--output", folder,
    )  # fmt: skip
    return result, folder


def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    document = json.loads((folder / "decision.json").read_text())
    return {(row["precision"], row["backend"]): row for row in document["rows"]}


def test_every_row_is_scored_measured_or_has_its_reason(decided: tuple[Result, Path]) -> None:
    result, folder = decided
    assert result.exit_code == 0, result.output
    found = rows(folder)
    assert len(found) == 6
    for name in ("fp32", "int8-mixed"):
        row = found[name, "ort-cpu"]
        assert row["state"] == "measured"
        assert row["speed"]["repetitions"] == 2
        assert row["speed"]["outputs"] == "matched"
        assert row["directory"] == f"scores/{name}/ort-cpu"
        assert (folder / row["directory"] / "predictions.json").is_file()
    assert found["fp32", "ort-cpu"]["score"]["loss"] == 0
    assert "There was no search for int8-mixed: The calibration data hold 8 samples, 4 in the half" in result.output
    assert "int8" in found["int8-mixed", "ort-cpu"]["computes_in"]
    assert found["int8-mixed", "ort-cpu"]["sha256"] != found["fp32", "ort-cpu"]["sha256"]
    simulated = found["fp8", "ort-cpu"]
    assert simulated["simulated"]
    assert simulated["score"]
    assert simulated["speed"] is None
    absent = found["int8-mixed", "trt"]
    assert absent["state"] == "unavailable"
    assert absent["reason"]


def test_the_report_is_one_file_and_can_be_drawn_again(decided: tuple[Result, Path]) -> None:
    _, folder = decided
    first = (folder / "report.html").read_bytes()
    assert b"<svg" in first
    assert b"Where they differ most" in first or b"What int8-mixed on ort-cpu loses" in first
    (folder / "report.html").unlink()
    assert trtw("report", folder).exit_code == 0
    assert (folder / "report.html").read_bytes() == first


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    for words, text in (
        (["--precisions", "int8"], "measured from fp32"),
        (["--precisions", "fp32,int9"], "no precision 'int9'"),
        (["--backends", "ort-cpux"], "ort-cpux"),
        (["--budget", "soon"], "90s, 30m or 2h"),
        (["--annotations", tmp_path], "without --data"),
        (["--data", tmp_path], "holds no .npy, .npz or image file"),
        ([tmp_path / "absent.onnx"], "does not exist"),
    ):
        result = trtw("decide", *words, "--output", tmp_path / "run")
        assert result.exit_code == 2, result.output
        assert text in result.output
        assert not (tmp_path / "run").exists()


def test_without_a_baseline_there_is_nothing_to_decide(tmp_path: Path) -> None:
    """No row is left to be shown, so that the reason is the command's own."""
    result = trtw("decide", "--backends", "trt", "--output", tmp_path / "run")
    assert result.exit_code == 3, result.output
    assert "fp32 on trt has no score" in result.output
    assert not (tmp_path / "run").exists()


def test_no_lower_precision_within_the_bound_is_exit_code_1(tmp_path: Path) -> None:
    """A budget that is used up at once leaves the baseline alone."""
    result = trtw(
        "decide", "--limit", 2, "--precisions", "fp32,fp8", "--backends", "ort-cpu", "--budget", "0.001s",
        "--output", tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    assert "No lower precision that ran for real keeps AP within 0.005" in result.output
    found = rows(tmp_path / "run")
    assert found["fp32", "ort-cpu"]["state"] == "scored"
    assert found["fp8", "ort-cpu"]["state"] == "left out"
