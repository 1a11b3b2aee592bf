"""A decision about runs that are there already."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.onnx_text import parse_onnx
from tests.records import repetitions

from trt_workbench.core.documents import append_lines, write_json
from trt_workbench.decide.report import decision_about
from trt_workbench.model.low_precision.evidence import METADATA_KEY, Evidence
from trt_workbench.model.opened import sha256_of

Make = Callable[..., Path]
SETTINGS = {"batch": 1, "workers": 1, "concurrency": 1, "seed": 0, "limit": None}


def label(name: str) -> dict[str, Any]:
    return {"label": name, "text": name, "source": "graph", "shares": {name: 1.0}, "weight_shares": {}}


def evaluation(make: Make, name: str, precision: str, sha256: str, lost: float = 0.0) -> Path:
    model = {"path": f"/models/{name}.onnx", "sha256": sha256, "family": "yolov10", "class_count": 4}
    return make(name, lost, model=model, precision_ran=label(precision), settings={**SETTINGS, "precision": "fp32"})


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    folder = tmp_path / "bench"
    folder.mkdir()
    run = {
        "schema_version": 1,
        "command": "bench",
        "run_id": "20260101T000000Z-000000",
        "started_at": "2026-01-01T00:00:00Z",
    }
    write_json(folder / "run.json", {**run, "status": "complete"})
    write_json(folder / "env.json", {"schema_version": 1, "command_line": ["trtw"]})
    write_json(folder / "config.json", {"schema_version": 1, "title": "t", "repetitions": 9})
    times = {"whole": ("a" * 64, 10.0), "small": ("b" * 64, 5.0), "stranger": ("c" * 64, 1.0)}
    for name, (sha256, ms) in times.items():
        measured = repetitions(name, ms, model_sha256=sha256, group="g", outputs={"state": "matched"})
        append_lines(folder / "records.jsonl", measured)
    return folder


def test_evaluations_and_a_bench_make_a_decision(evaluated: Make, bench: Path, tmp_path: Path) -> None:
    runs = [evaluation(evaluated, "float", "fp32", "a" * 64), evaluation(evaluated, "low", "int8", "b" * 64, 0.02)]
    made = decision_about(runs, [bench], 0.1, tmp_path)
    base, low = made.rows
    assert (base.precision, low.precision) == ("fp32", "int8")
    assert low.directory == "low"
    assert low.speed.latency_ms == pytest.approx(5.02)
    assert low.speed.speed_up == pytest.approx(2, abs=0.01)
    assert low.speed.rank == 1  # the model that nobody evaluated is not among them
    assert made.recommended == low
    assert made.samples == 40


def test_without_a_bench_there_are_scores_alone(evaluated: Make, tmp_path: Path) -> None:
    runs = [evaluation(evaluated, "float", "fp32", "a" * 64), evaluation(evaluated, "low", "int8", "b" * 64, 0.02)]
    made = decision_about(runs, [], 0.1, tmp_path)
    assert [row.state for row in made.rows] == ["scored", "scored"]
    assert made.recommended is None
    assert len(made.notes) == 1
    assert decision_about(runs[1:], [], 0.1, tmp_path) is None


def test_what_is_simulated_is_said_once(evaluated: Make, tmp_path: Path) -> None:
    """It was: ort-cpu only simulates int8+fp32 (simulated)."""
    runs = [
        evaluation(evaluated, "float", "fp32", "a" * 64),
        evaluation(evaluated, "low", "int8 (simulated)", "b" * 64),
    ]
    made = decision_about(runs, [], 0.1, tmp_path)
    assert [row.precision for row in made.rows] == ["fp32", "int8"]


def test_what_is_not_calibrated_is_not_recommended(evaluated: Make, bench: Path, tmp_path: Path) -> None:
    noise = evaluation(evaluated, "low", "int8 (not calibrated)", "b" * 64, 0.02)
    metrics = json.loads((noise / "metrics.json").read_text())
    metrics["precision_ran"]["calibrated"] = False
    (noise / "metrics.json").write_text(json.dumps(metrics))
    made = decision_about([evaluation(evaluated, "float", "fp32", "a" * 64), noise], [bench], 0.1, tmp_path)
    assert not made.rows[1].calibrated
    assert made.rows[1].label == "int8 (not calibrated) on ort-cpu"
    assert made.recommended == made.rows[0]


def test_what_hardly_anything_is_in_is_not_recommended(evaluated: Make, bench: Path, tmp_path: Path) -> None:
    """A candidate tells in its own metadata how much is in the format; another file of that name tells nothing."""
    model = parse_onnx("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    made = Evidence(
        to="int8", calibrated=True, low_macs=0.004, low_weights=0.1, opset=17, source_opset=17, source="m.onnx",
        source_sha256="a" * 64, versions={},
    )  # fmt: skip
    onnx.helper.set_model_props(model, {METADATA_KEY: made.short()})
    path = tmp_path / "low.onnx"
    onnx.save(model, path)
    low = evaluation(evaluated, "low", "int8", "b" * 64)
    metrics = json.loads((low / "metrics.json").read_text())
    metrics["model"]["path"] = str(path)
    runs = [evaluation(evaluated, "float", "fp32", "a" * 64), low]
    for sha256, share, chosen in ((sha256_of(path), 0.004, 0), ("b" * 64, None, 1)):
        metrics["model"]["sha256"] = sha256
        (low / "metrics.json").write_text(json.dumps(metrics))
        records = (bench / "records.jsonl").read_text().replace(sha256_of(path), "b" * 64).replace("b" * 64, sha256)
        (bench / "records.jsonl").write_text(records)
        found = decision_about(runs, [bench], 0.1, tmp_path)
        assert (found.rows[1].low_macs, found.recommended) == (share, found.rows[chosen])


def test_two_files_of_one_precision_keep_their_names(evaluated: Make, tmp_path: Path) -> None:
    runs = [
        evaluation(evaluated, name, precision, sha256 * 64)
        for name, precision, sha256 in (("float", "fp32", "a"), ("x", "int8", "b"), ("y", "int8", "c"))
    ]
    made = decision_about(runs, [], 0.1, tmp_path)
    assert [row.precision for row in made.rows] == ["fp32", "int8 x", "int8 y"]
