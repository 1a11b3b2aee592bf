"""The commands on a model as a server runs it: the same scores, faults of the server found, refusals."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.cli.conftest import _forked_workers, _no_unheard_of_artefacts  # noqa: F401 - of every test here
from tests.in_app import json_of, measured, stderr_of, stdout_of, trtw
from tests.texts import held
from tests.unit.backends.small_models import linear
from tests.v2_server import V2Server

from trt_workbench.core.workspace import models_dir
from trt_workbench.vision.scenes import dataset as embedded

pytest.importorskip("tritonclient.http.aio")
pytestmark = [pytest.mark.readers, pytest.mark.usefixtures("blank_pictures")]

DETECTOR = models_dir() / "shapes-yolov10" / "shapes-yolov10.onnx"
BATCHES = ("--dim", "batch=1:2:4")


@pytest.fixture(autouse=True)
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 6)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return linear(tmp_path / "linear.onnx")


@pytest.mark.long
def test_a_detector_has_the_same_boxes_as_served(tmp_path: Path) -> None:
    """Single images in flight at once, which the server puts together."""
    words = ("eval-coco", "--seed", 1)
    server = V2Server(DETECTOR, wait_s=0.02)
    with server.running() as url:
        found = json_of(*words, "--backend", "v2", "--url", url, "--concurrency", 4, "--output", tmp_path / "v2")
    expected = json_of(*words, "--backend", "ort-cpu", "--output", tmp_path / "cpu")
    boxes = [(tmp_path / run / "predictions.json").read_bytes() for run in ("v2", "cpu")]
    assert boxes[0] == boxes[1]
    assert found["AP"] == expected["AP"] > 0.5
    assert found["provenance"]["url"] == url
    assert found["settings"]["concurrency"] == 4
    assert server.merged


def test_predict_takes_a_server_too(tmp_path: Path) -> None:
    picture = tmp_path / "grey.png"
    cv2.imwrite(str(picture), np.full((64, 64, 3), 128, np.uint8))
    with V2Server(DETECTOR).running() as url:
        stdout_of("predict", DETECTOR, picture, "--backend", "v2", "--url", url, "--output", tmp_path / "run")
    assert (tmp_path / "run" / "predict.json").is_file()


def test_a_served_model_is_verified_within_the_batches_of_the_server(model: Path) -> None:
    with V2Server(model, wait_s=0.005, most=5).running() as url:
        found = json_of("verify", model, "--backend", "v2", "--url", url)
    assert found["verdict"] == "right"
    assert found["sizes"] == {"batch": [1, 2, 3, 4, 5]}
    assert [way["way"] for way in found["ways"]] == ["single rows at once", "a second session", "4 calls at once"]
    assert all(not way["reason"] for way in found["ways"])


@pytest.mark.parametrize("quick", ["--quick", "--full"])
def test_rows_that_dynamic_batching_mixes_up_are_found(model: Path, tmp_path: Path, quick: str) -> None:
    """Every call alone is right, so that a server shows it only under load."""
    with V2Server(model, wait_s=0.02, fault="rows rotated").running() as url:
        words = ("verify", model, "--backend", "v2", "--url", url, quick, *BATCHES, "--output", tmp_path / "run")
        said = _wrong(*words)
    assert "single rows at once" in said
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert {row["verdict"] for row in document["cases"]} == {"right"}
    assert all(", single rows at once: " in text or ", 4 calls at once: " in text for text in document["failures"])


def _wrong(*words: object) -> str:
    result = trtw(*words)
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.mark.long
def test_rows_in_the_wrong_order_within_one_batch_are_found_and_named(model: Path) -> None:
    with V2Server(model, fault="reversed batch").running() as url:
        said = _wrong("verify", model, "--backend", "v2", "--url", url, *BATCHES, "--seed", 1)
    held(said.split("Full report")[0].splitlines()[-1])


def test_a_server_that_ends_during_verify_is_no_wrong_model(model: Path) -> None:
    with V2Server(model, fault="dies").running() as url:
        result = trtw("verify", model, "--backend", "v2", "--url", url, *BATCHES)
    assert result.exit_code == 4, result.output
    assert "does not answer" in result.stderr


def test_a_server_that_resets_calls_at_once_is_not_called_right(model: Path, tmp_path: Path) -> None:
    """Every call alone is right; how it answers many at once was not seen."""
    with V2Server(model, wait_s=0.02, fault="resets").running() as url:
        result = trtw("verify", model, "--backend", "v2", "--url", url, "--quick", "--output", tmp_path / "run")
    assert result.exit_code == 4, result.output
    assert "linear.onnx: UNDECIDED on v2" in result.stdout
    assert "linear.onnx is not proven correct: single rows at once: it could not run: " in result.stderr
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert {row["verdict"] for row in document["cases"]} == {"right"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["passed"] is False
    assert '<span class="pill doubt">not proven</span>' in (tmp_path / "run" / "report.html").read_text()


def test_nothing_that_takes_the_model_apart_is_tried_on_a_server(model: Path) -> None:
    for option in ("--bisect", "--fix"):
        held(stderr_of("verify", model, "--backend", "v2", "--url", "http://localhost:1", option))


@pytest.mark.long
def test_bench_measures_a_server_at_each_concurrency(tmp_path: Path, model: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.05, min_iterations: 4, slices: 2}\n"
        f"models: {{linear: {{path: {model}}}}}\n"
        "runtimes: [{backend: v2, concurrency: [1, 4]}]\n"
        "scenarios: {requests: {kind: arrays}}\n"
    )
    run = tmp_path / "run"
    server = V2Server(model, slow_s=0.01)
    with server.running() as url:
        stdout_of("bench", config, "--url", url, "--output", run)
    records = measured(run)
    assert {(one.status, one.outputs and one.outputs["state"]) for one in records} == {("ok", "matched")}
    in_work = {one.runtime: (one.items_per_s or 0) * one.latency_ms["mean"] / 1000 for one in records}
    assert in_work["v2 concurrency=4"] > 2 * in_work["v2 concurrency=1"]
    assert json.loads((run / "config.json").read_text())["runtimes"][0]["options"]["url"] == url


def test_bench_needs_a_server_where_one_is_named_and_the_other_way_round(tmp_path: Path) -> None:
    held(stderr_of("bench", "served", "--output", tmp_path / "run"))
    held(stderr_of("bench", "smoke", "--url", "http://localhost:1", "--output", tmp_path / "run"))


def test_a_server_is_missing_before_anything_is_written(tmp_path: Path, model: Path) -> None:
    for words in (("eval-coco", DETECTOR), ("verify", model)):
        said = stderr_of(*words, "--backend", "v2", "--output", tmp_path / "run", "--url", "http://127.0.0.1:9", code=3)
        assert "error: No server answers (" in said
    held(stderr_of("eval-coco", "--backend", "v2"))
    held(stderr_of("eval-coco", "--backend", "ort-cpu", "--url", "http://127.0.0.1:9"))
    held(stderr_of("eval-coco", "--backend", "v2", "--url", "http://127.0.0.1:9", "--option", "url=http://[::1]:9"))
    assert not (tmp_path / "run").exists()
