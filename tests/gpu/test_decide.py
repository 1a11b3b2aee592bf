"""A whole decision on a real GPU: engines built, verified, scored and measured beside ONNX Runtime."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.core.records import read_records
from trt_workbench.core.workspace import ENCODER, embedded_model

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900), pytest.mark.usefixtures("tensorrt", "own_output")]


def test_a_decision_about_the_embedded_detector(tmp_path: Path) -> None:
    backends = ["trt", *(["ort-cuda"] if OrtCudaBackend().availability().ok else []), "ort-cpu"]
    words = [
        "decide", "--no-search", "--limit", "20", "--repetitions", "3", "--samples", "16",
        "--precisions", "fp32,fp16,int8", "--backends", ",".join(backends), "--max-loss", "0.05",
        "--output", str(tmp_path / "run"), "--option", "trt:optimization_level=0",  # builds in seconds
    ]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    rows = {(row["precision"], row["backend"]): row for row in document["rows"]}
    assert len(rows) == 3 * len(backends)
    engines = [rows[precision, "trt"] for precision in ("fp32", "fp16", "int8")]
    assert [row["state"] for row in engines] == ["measured"] * 3, [row["reason"] for row in engines]
    records = read_records(tmp_path / "run" / "records.jsonl")
    for row in engines:  # one engine is scored and timed
        scored = json.loads((tmp_path / "run" / row["directory"] / "metrics.json").read_text())
        timed = {one.provenance["plan"] for one in records if one.runtime == f"trt-{row['precision']}"}
        assert timed == {scored["provenance"]["plan"]}
    assert all(row["speed"]["outputs"] in ("matched", "far") for row in engines)  # compared, that is
    assert all(row["speed"]["memory_bytes"] for row in engines)
    assert "fp16" in rows["fp16", "trt"]["computes_in"]
    assert "int8" in rows["int8", "trt"]["computes_in"]
    # the engine's own file, which holds kernels beside the weights
    assert all(row["size_bytes"] != rows["fp32", "ort-cpu"]["size_bytes"] for row in engines)
    assert abs(rows["fp32", "trt"]["score"]["loss"]) < 0.005
    assert abs(rows["fp16", "trt"]["score"]["loss"]) < 0.02
    # which is the fastest depends on what else the machine does
    measured = {(row["precision"], row["backend"]) for row in document["rows"] if row["state"] == "measured"}
    assert (document["recommendation"]["precision"], document["recommendation"]["backend"]) in measured
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_decision_about_the_embedded_encoder_by_its_words(tmp_path: Path) -> None:
    backends = ["trt", *(["ort-cuda"] if OrtCudaBackend().availability().ok else []), "ort-cpu"]
    words = [
        "decide", str(embedded_model(ENCODER)), "--no-search", "--limit", "16", "--repetitions", "3",
        "--precisions", "fp32,fp16,int8", "--backends", ",".join(backends), "--max-loss", "0.05",
        "--keep", "WER,token_error_rate", "--output", str(tmp_path / "run"),
        "--option", "trt:optimization_level=0",
    ]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    rows = {(row["precision"], row["backend"]): row for row in document["rows"]}
    for precision in ("fp32", "fp16"):
        row = rows[precision, "trt"]
        assert row["state"] == "measured", row["reason"]
        assert row["speed"]["outputs"] == "matched"  # of streams with their states
        assert row["score"]["value"] < 0.05
        assert abs(row["score"]["loss"]) < 0.02
        assert row["score"]["others"]["token_error_rate"]["value"] < 0.02
    int8 = rows["int8", "trt"]
    assert int8["score"] is None or int8["score"]["loss"] < 0.05, int8["score"]
    assert int8["score"] or int8["reason"]  # TensorRT may have no kernel for one of its convolutions
