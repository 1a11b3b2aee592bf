"""`trtw decide` with real candidates, workers and measurements of the embedded detector."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.conftest import DOUBLES
from tests.in_app import stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held
from tests.unit.decide.test_report import decision, row
from typer.testing import Result

from trt_workbench.core.records import read_records
from trt_workbench.decide.report import answer
from trt_workbench.decide.run import DecideRun
from trt_workbench.decide.tried import DraftRow
from trt_workbench.quantize import Candidates
from trt_workbench.vision.scenes import dataset as embedded
from trt_workbench.vision.scenes.scenes import write_dataset


@pytest.fixture(scope="module", autouse=True)
def _few_scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The embedded scenes by their own generator, but as many as these tests look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        patch.setattr(embedded, "HELD_OUT_IMAGES", 8)
        patch.setattr(embedded, "_CALIBRATION_IMAGES", 8)
        yield


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One decision about few images; a runtime that is not here among the others."""
    folder = tmp_path_factory.mktemp("decided") / "run"
    result = trtw(
        "decide", "--limit", 6, "--repetitions", 2, "--samples", 8, "--precisions", "fp32,int8,int8-mixed,fp8",
        "--backends", "ort-cpu,trt", "--max-loss", 1, "--output", folder,
    )  # fmt: skip
    return result, folder


def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    document = json.loads((folder / "decision.json").read_text())
    return {(row["precision"], row["backend"]): row for row in document["rows"]}


@pytest.mark.long
def test_every_row_is_scored_measured_or_has_its_reason(decided: tuple[Result, Path]) -> None:
    result, folder = decided
    assert result.exit_code == 0, result.output
    found = rows(folder)
    assert len(found) == 8
    row = found["fp32", "ort-cpu"]
    assert row["state"] == "measured"
    assert row["speed"]["repetitions"] == 2
    assert row["speed"]["outputs"] == "matched"
    for name in ("fp32", "int8", "fp8"):
        assert found[name, "ort-cpu"]["directory"] == f"scores/{name}/ort-cpu"
        assert (folder / "scores" / name / "ort-cpu" / "predictions.json").is_file()
    assert found["fp32", "ort-cpu"]["score"]["loss"] == 0
    mixed = found["int8-mixed", "ort-cpu"]
    assert mixed["state"] == "does not apply"
    assert "int8-mixed needs a search. The data have 8 samples, 4 in the half" in mixed["reason"]
    assert "int8" in found["int8", "ort-cpu"]["computes_in"]
    assert found["int8", "ort-cpu"]["sha256"] != found["fp32", "ort-cpu"]["sha256"]
    # the convolutions of a file for TensorRT have no QuantizeLinear behind them, without which there are no integers
    for name in ("int8", "fp8"):
        simulated = found[name, "ort-cpu"]
        assert simulated["simulated"]
        assert simulated["score"]
        assert simulated["speed"] is None
    absent = found["int8", "trt"]
    assert absent["state"] == "unavailable"
    assert absent["reason"]


@pytest.mark.long
def test_the_report_is_one_file_and_can_be_drawn_again(decided: tuple[Result, Path]) -> None:
    _, folder = decided
    first = (folder / "report.html").read_bytes()
    assert b"<svg" in first
    assert b"Largest differences" in first or b"Loss of int8 on ort-cpu by class" in first
    (folder / "report.html").unlink()
    assert trtw("report", folder).exit_code == 0
    assert (folder / "report.html").read_bytes() == first


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    for words in (
        ["--precisions", "int8"],
        ["--precisions", "fp32,int9"],
        ["--backends", "ort-cpux"],
        ["--backends", "ort-cpu,openai"],
        ["--backends", "ort-cpu,torch", "--builds", 2],
        ["--budget", "soon"],
        ["--keep", "f2"],
        ["--annotations", tmp_path],
        ["--calibration", tmp_path, "--calibration-annotations", tmp_path / "a"],
        ["--data", tmp_path],
        [tmp_path / "absent.onnx"],
    ):
        held(stderr_of("decide", *words, "--output", tmp_path / "run"))
        assert not (tmp_path / "run").exists()


def test_a_score_that_the_baseline_lacks_is_told_before_anything_is_made(tmp_path: Path) -> None:
    said = stderr_of(
        "decide", "--limit", 2, "--precisions", "fp32,int8", "--backends", "ort-cpu", "--keep", "ece@1",
        "--output", tmp_path / "run",
    )  # fmt: skip
    assert "Making" not in said
    held(said.splitlines()[-1])


@pytest.mark.usefixtures("forked_python")
def test_images_that_the_data_lack_are_left_out_of_the_score(tmp_path: Path) -> None:
    whole = write_dataset(tmp_path, "val", 6, 5)
    for image in sorted((tmp_path / "val").iterdir())[:2]:
        image.unlink()
    words = ("--data", tmp_path / "val", "--annotations", whole, "--precisions", "fp32", "--repetitions", 0)
    result = trtw("decide", "shapes-yolov10", *words, "--backends", "ort-cpu", "--output", tmp_path / "run")
    (said,) = [line for line in result.stderr.splitlines() if line.startswith("Left out: 2 images of the annotations")]
    document = json.loads((tmp_path / "run" / "decision.json").read_text())
    assert document["samples"] == 4
    scored = trtw("eval-coco", "shapes-yolov10", *words[:4], "--backend", "ort-cpu", "--no-report", "--json")
    assert document["rows"][0]["score"]["value"] == json.loads(scored.stdout)["AP"]
    assert said in scored.stderr  # one behaviour, in the same words


def test_without_a_baseline_there_is_nothing_to_decide(tmp_path: Path) -> None:
    """No row is left to be shown, so that the reason is the command's own."""
    said = stderr_of("decide", "--backends", "trt", "--output", tmp_path / "run", code=3)
    assert "fp32 on trt has no score" in said
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A classifier with samples to score and others to calibrate on; one input is far larger than all others."""
    folder = tmp_path_factory.mktemp("classifier")
    generator = np.random.default_rng(5)
    weights = {name: generator.standard_normal((16, 16)).astype(np.float32) for name in ("w", "v")}
    text = "g (float[n,16] x) => (float[n,16] y) { a = MatMul(x, w) r = Relu(a) y = MatMul(r, v) }"
    paths = []
    for name in ("scored.npy", "calibration.npy"):
        samples = generator.standard_normal((64, 16)).astype(np.float32)
        samples[:, 0] *= 100
        np.save(folder / name, samples)
        paths.append(folder / name)
    return write_onnx(folder / "m.onnx", text, weights), paths[0], paths[1]


@pytest.mark.parametrize(
    ("precision", "loss", "code"),
    [
        ("int8", 0.0, 1),
        ("fp8", 0.9, 0),
    ],
)
def test_top1_agreement_is_gated_by_one_command(
    classifier: tuple[Path, Path, Path], tmp_path: Path, precision: str, loss: float, code: int
) -> None:
    """The command of docs/guides/decide.md, without a latency."""
    model, scored, calibration = classifier
    result = trtw(
        "decide", model, "--data", scored, "--calibration", calibration, "--score", "top1", "--precisions",
        f"fp32,{precision}", "--max-loss", loss, "--backends", "ort-cpu", "--repetitions", 0, "--output",
        tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == code, result.output
    assert ("no lower precision keeps top-1 agreement within 0." in result.output) == (code == 1)
    row = rows(tmp_path / "run")[precision, "ort-cpu"]
    assert row["state"] == "scored"
    assert row["speed"] is None
    assert row["simulated"]
    assert "no latency of fp32 on ort-cpu: --repetitions is 0" in result.output
    assert 0 < row["score"]["loss"] < 0.9
    assert not (tmp_path / "run" / "records.jsonl").exists()


@pytest.mark.parametrize(
    ("loss", "high", "badge"), [(0.0, 0.002, "recommended"), (0.1, 0.11, "regression"), (0.1, 0.3, "not proven")]
)
def test_the_badge_is_red_where_the_exit_code_is_1(loss: float, high: float, badge: str) -> None:
    """Amber where the interval of a loss beyond the bound reaches into it."""
    lower = row("fp16", loss, None, meets=loss <= 0.005, certain=loss <= 0.005)
    assert lower.score is not None
    ends = (2 * loss - high, high)
    lower = lower.model_copy(update={"score": lower.score.model_copy(update={"loss_ci95": ends})})
    lower = lower.model_copy(update={"verdict": lower.judged(["AP"], 0.005)})
    made = decision(row("fp32", 0.0, 1.0, meets=True), lower, passed=lower.may_ship(certain=False))
    made = made.model_copy(update={"recommendation": made.recommendation.model_copy(update={"doubts": []})})
    assert (answer(made).verdict, made.reach.passed) == (badge, badge == "recommended")


@pytest.mark.parametrize(
    ("loss", "simulated", "share", "kept"),
    [
        (0.0, False, 0.9, True),
        (0.0, False, None, True),
        (0.0, False, 0.001, False),
        (0.1, False, 0.9, False),
        (0.0, True, 0.9, True),
        (0.0, True, 0.001, False),  # hardly anything is in it
    ],
)
def test_what_may_ship(loss: float, simulated: bool, share: float | None, kept: bool) -> None:
    lower = row("fp8", loss, None, meets=loss <= 0.005, simulated=simulated, low_macs=share)
    assert lower.may_ship(certain=False) == kept


@pytest.mark.long
@pytest.mark.usefixtures("own_processes")
def test_no_lower_precision_within_the_bound_is_exit_code_1(tmp_path: Path) -> None:
    """A budget that is used up at once leaves the baseline alone; the worker starts as a user's does."""
    result = trtw(
        "decide", "--limit", 2, "--precisions", "fp32,fp8", "--backends", "ort-cpu", "--budget", "0.001s",
        "--output", tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    assert "error: Stay with fp32: no lower precision has a score." in result.output
    assert re.search(r"precision on +.*\n.*ort-cpu|precision on ort-cpu", result.output)
    assert re.search(r"(?m)^\W*fp8 .*left out", result.output), "a row of one runtime is a line"
    assert result.output.count("fp8 on ort-cpu") == 1  # in the sentence below the table
    assert "Not tried, as the budget was used up: fp8 on ort-cpu." in result.output
    found = rows(tmp_path / "run")
    assert found["fp32", "ort-cpu"]["state"] == "scored"
    assert found["fp8", "ort-cpu"]["state"] == "left out"


def halved(path: Path) -> Path:
    """Half the scores of a detector whose output has them in the fifth column."""
    model, made = onnx.load(path), path.with_name(f"halved-{path.name}")
    output = model.graph.output[0].name
    last = next(node for node in model.graph.node if output in node.output)
    last.output[list(last.output).index(output)] = "whole"
    scale = np.array([1, 1, 1, 1, 0.5, 1], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(scale, "half_the_score"))
    model.graph.node.append(helper.make_node("Mul", ["whole", "half_the_score"], [output]))
    onnx.save(model, made)
    return made


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_scores_that_sink_keep_ap_and_fail_the_gate_of_f1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Candidates.make
    monkeypatch.setattr(Candidates, "make", lambda self, name: replace(one := made(self, name), path=halved(one.path)))
    result = trtw(
        "decide", "--limit", 8, "--precisions", "fp32,fp16", "--backends", "ort-cpu", "--repetitions", 0,
        "--keep", "AP,f1@0.45,ece@0.45", "--output", tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    lost = "no lower precision keeps AP, f1@0.45 and ece@0.45 within 0.005: fp16 on ort-cpu loses f1@0.45"
    assert lost in result.output.replace("\n", " ")
    row = rows(tmp_path / "run")["fp16", "ort-cpu"]
    assert row["score"]["loss"] <= 0.005
    assert row["score"]["others"]["f1@0.45"]["loss_ci95"][0] > 0.005
    assert row["meets"] is False
    metrics = json.loads((tmp_path / "run" / row["directory"] / "metrics.json").read_text())
    assert metrics["settings"]["threshold"] == 0.45
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(text in page for text in ("Scores as they are used", "f1@0.45", "Kept are AP, f1@0.45, ece@0.45"))


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A line for each build by the double of the native core, which worker processes find."""
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES), prepend=os.pathsep)
    monkeypatch.setenv("TRTW_DOUBLE_LOG", str(tmp_path / "builds"))
    return tmp_path / "builds"


_ROWS = ("--precisions", "fp32", "--backends", "trt", "--repetitions", 2, "--limit", 3)
_OPTIONS = ("--option", "trt:optimization_level=1", "--option", 'trt:tactic_sources=["-CUBLAS"]')


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_what_is_scored_and_timed_is_one_engine_built_with_the_options(builds: Path, tmp_path: Path) -> None:
    """Of 3 images in batches of 2 the last batch is filled, as the engine takes 2 at a time."""
    run = tmp_path / "run"
    result = trtw("decide", *_ROWS, *_OPTIONS, "--batch", 2, "--output", run)
    assert (result.exit_code, "no lower precision was requested" in result.output) == (0, True)
    assert len(builds.read_text().splitlines()) == 1
    asked = {"optimization_level": 1, "tactic_sources": ["-CUBLAS"]}
    assert json.loads((run / "decision.json").read_text())["options"] == {"trt": asked}
    row = rows(run)["fp32", "trt"]
    assert row["state"] == "measured", row["reason"]
    scored = json.loads((run / row["directory"] / "metrics.json").read_text())
    assert scored["settings"]["options"] == asked
    assert scored["provenance"]["manifest"]["options"]["tactic_sources"] == ["-cublas"]
    timed = read_records(run / "records.jsonl")
    assert [one.provenance["plan"] for one in timed] == [scored["provenance"]["plan"]] * 2


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_arrays_too_are_scored_and_timed_on_one_engine(builds: Path, tmp_path: Path) -> None:
    """A dimension beside the batch is dynamic, so that the shapes have to come from the samples."""
    text = "g (float[batch,steps,4] x) => (float[batch,steps,4] y) { y = Relu(x) }"
    model = write_onnx(tmp_path / "m.onnx", text)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((20, 5, 4)).astype(np.float32))
    run = tmp_path / "run"
    result = trtw("decide", model, *_ROWS, "--data", tmp_path / "data.npy", "--output", run)
    assert (result.exit_code, "no lower precision was requested" in result.output) == (0, True)
    assert {row["state"] for row in rows(run).values()} == {"measured"}, rows(run)
    assert len(builds.read_text().splitlines()) == 1


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_intervals_contain_the_spread_of_several_builds(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4")
    model = write_onnx(tmp_path / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32))
    run = tmp_path / "run"
    words = ("--data", tmp_path / "data.npy", "--precisions", "fp32,fp16", "--backends", "trt,ort-cpu")
    result = trtw("decide", model, *words, "--builds", 3, "--repetitions", 1, "--output", run)
    processes = builds.read_text().splitlines()
    assert len(processes) == 6
    assert len(set(processes[1:])) == 1  # all but the baseline's first share a process
    found = rows(run)
    assert {key: row["state"] for key, row in found.items()}[("fp16", "trt")] == "measured", found["fp16", "trt"]
    for precision in ("fp32", "fp16"):
        speed = found[precision, "trt"]["speed"]
        assert speed["repetitions"] == 5  # in turns: builds 1, 2, 3, 1, 2
        ends = speed["latency_low_ms"], speed["latency_ms"], speed["latency_high_ms"]
        assert ends == pytest.approx((1.3, 1.5, 1.7))
    assert found["fp32", "ort-cpu"]["speed"]["repetitions"] == 5
    groups = {one["label"]: one for one in json.loads((run / "builds.json").read_text())["groups"]}
    assert set(groups) == {"fp32 on trt", "fp16 on trt"}
    kept = groups["fp16 on trt"]["builds"]
    assert [one["score"] for one in kept["builds"]] == pytest.approx([1.0] * 3)
    assert found["fp16", "trt"]["directory"] == f"scores/fp16/trt/build-{kept['kept']}"
    assert "3 builds without each other's timings: 1.300 to 1.700 ms" in " ".join(result.output.split())
    assert "Several builds: fp16 on trt" in (run / "report.html").read_text()


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_all_rows_are_compared_with_one_baseline_where_its_first_build_fails(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,0.8,0.8,0.8,0.8,0.8")
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "slow builds")  # of the first build alone
    model = write_onnx(tmp_path / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Neg(x) }")
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32))
    run = tmp_path / "run"
    words = ("--data", tmp_path / "data.npy", "--precisions", "fp32,fp16", "--backends", "trt,ort-cpu")
    trtw("decide", model, *words, "--builds", 3, "--repetitions", 0, "--output", run)
    assert len(builds.read_text().splitlines()) == 6
    assert {key: row["state"] for key, row in rows(run).items()} == {
        ("fp32", "trt"): "scored",
        ("fp16", "trt"): "scored",
        ("fp32", "ort-cpu"): "scored",
        ("fp16", "ort-cpu"): "scored",
    }
    failed = rows(run)["fp32", "trt"]["builds_missing"]
    assert failed.startswith("no results of 1 (")
    assert failed.count("no results") == 1


@pytest.mark.usefixtures("builds")
def test_builds_of_a_row_that_cannot_be_made_did_not_fail(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = (*relu(tmp_path), "--precisions", "fp32,int8", "--backends", "trt", "--repetitions", 0, "--builds", 2)
    trtw("decide", *words, "--output", run)
    assert rows(run)["int8", "trt"]["state"] == "does not apply"
    (group,) = (one for one in json.loads((run / "builds.json").read_text())["groups"] if one["label"] == "int8 on trt")
    assert [one["reason"] for one in group["builds"]["builds"]] == [None, None]


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_a_build_that_computes_in_something_else_is_named(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "2.2,1.2,1.0:FP32,1.4,2.1,2.3")  # fp32 1, fp16 1 to 3, fp32 2 and 3
    model = write_onnx(tmp_path / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Abs(x) }")
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32))
    run = tmp_path / "run"
    words = ("--data", tmp_path / "data.npy", "--precisions", "fp32,fp16", "--backends", "trt")
    result = trtw("decide", model, *words, "--builds", 3, "--output", run)
    assert len(builds.read_text().splitlines()) == 6
    found = rows(run)["fp16", "trt"]
    assert found["state"] == "measured"
    assert found["builds_missing"] == "no results of 2 (trt computes it in fp32, not fp16)"
    decision = json.loads((run / "decision.json").read_text())
    said = " ".join(result.output.split())
    (doubt,) = (one for one in decision["recommendation"]["doubts"] if found["builds_missing"] in one)
    (note,) = (one for one in decision["notes"] if found["builds_missing"] in one)
    held(doubt, note)
    assert doubt in said
    assert note in said
    group = json.loads((run / "builds.json").read_text())["groups"][1]
    assert [one["reason"] for one in group["builds"]["builds"]] == [None, "trt computes it in fp32, not fp16", None]
    held(next(line for line in result.output.splitlines() if "2 of 3 builds" in line))
    assert " failed " in said
    assert 'title="trt computes it in fp32, not fp16"' in (run / "report.html").read_text()


@pytest.mark.parametrize(
    "option",
    [
        "trt:optimisation_level=1",
        "trt:optimization_level=9",
        "ort-trt:device_id=1",
        "trt:precision=fp16",
        "trt:force=true",
        "optimization_level=1",
        "trt:device",
    ],
)
def test_an_option_that_no_runtime_takes_is_refused_before_anything_is_made(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    said = stderr_of("decide", "--backends", "trt", "--option", option, "--output", tmp_path / "run")
    held(" ".join(said.split()))
    assert not any(tmp_path.iterdir())


def relu(folder: Path) -> tuple[object, ...]:
    """A model of arrays with its data."""
    model = write_onnx(folder / "m.onnx", "g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    np.save(folder / "data.npy", np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32))
    return (model, "--data", folder / "data.npy")


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_what_is_done_is_not_done_again(builds: Path, tmp_path: Path) -> None:
    words = (*relu(tmp_path), "--backends", "trt", "--repetitions", 1)
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    trtw("decide", *words, "--precisions", "fp32", "--output", first)
    assert len(builds.read_text().splitlines()) == 1
    shutil.copytree(first, second)
    words = (*words, "--precisions", "fp32,fp16")
    trtw("decide", *words, "--output", second)
    found = rows(second)
    assert set(found) == {("fp32", "trt"), ("fp16", "trt")}
    assert {row["state"] for row in found.values()} == {"measured"}
    assert len(builds.read_text().splitlines()) == 2
    assert not list((second / "logs").glob("score-fp32-trt.log"))  # taken from the first run
    assert " s, of the last part" in (second / "report.html").read_text()
    before = [one for one in read_records(first / "records.jsonl") if one.runtime == "trt-fp32"]
    assert before[0] in read_records(second / "records.jsonl")
    shutil.copytree(first, third)
    trtw("decide", *words, "--seed", 1, "--batch", 2, "--output", third)  # asked for in another way
    assert len(list((third / "logs").glob("score-*.log"))) == 2
    why = "Rows of the earlier run are done again, from fp32 on trt on: the model, its data or an option is another."
    assert why in json.loads((third / "decision.json").read_text())["notes"]
    row = first / "scores" / "fp32" / "trt" / "row.json"
    document = json.loads(row.read_text())
    document["here"]["versions"]["onnx"] = "1.0"
    row.write_text(json.dumps({**document, "asked": "0"}))
    trtw("decide", *words, "--repetitions", 0, "--output", first)
    held(next(one for one in json.loads((first / "decision.json").read_text())["notes"] if "again" in one))


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_builds_are_spread_over_several_runs(builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt loses nothing of an earlier run, and what was measured on an engine that is gone is not mixed."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setenv("TRTW_DOUBLE_BUILDS", "1.2,1.0,1.4,1.3")
    words = (*relu(tmp_path), "--precisions", "fp32,fp16", "--backends", "trt", "--repetitions", 4, "--builds", 2)
    run, answered, done, overdue = tmp_path / "run", DecideRun._answered, list[str](), False

    def interrupted(self: DecideRun, one: DraftRow, *more: Any, late: bool) -> dict[str, Any] | None:
        if len(done) == at:
            raise KeyboardInterrupt
        done.append(one.runtime)
        return answered(self, one, *more, late=late or overdue)

    monkeypatch.setattr(DecideRun, "_answered", interrupted)
    at = 3
    ended = trtw("decide", *words, "--output", run)
    assert (ended.exit_code, f"continue with `… --output {run}`" in ended.stderr) == (130, True)
    at = 7  # all rows are there
    trtw("decide", *words, "--output", run)
    assert len(builds.read_text().splitlines()) == 4
    whole, records = (run / "builds.json").read_text(), (run / "records.jsonl").read_text()
    at = 8
    assert trtw("decide", *words, "--output", run).exit_code == 130
    assert sorted((run / "records.jsonl").read_text()) == sorted(records)
    assert len(list((run / "scores").glob("*/trt/build-*/row.json"))) == 4
    shutil.rmtree(tmp_path / "out" / "engines")
    at, overdue = -1, True  # what is there takes none of the budget
    trtw("decide", *words, "--output", run)
    overdue = False
    assert len(builds.read_text().splitlines()) == 4  # nothing was built again
    first, second = (json.loads(text)["groups"] for text in (whole, (run / "builds.json").read_text()))
    assert [one["builds"] for one in second] == [one["builds"] for one in first]
    assert len(read_records(run / "records.jsonl")) == 16
    assert {row["state"] for row in rows(run).values()} == {"measured"}
    lines = [one for one in records.splitlines() if "build-2" not in one or '"repetition": 3' not in one]
    (run / "records.jsonl").write_text("\n".join(lines) + "\n")
    trtw("decide", *words, "--output", run)
    assert len(builds.read_text().splitlines()) == 6  # build 2 of each row lacks a latency
    for one in read_records(run / "records.jsonl"):
        precision, number = one.runtime.split("-")[1], one.runtime[-1]
        row = json.loads((run / "scores" / precision / "trt" / f"build-{number}" / "row.json").read_text())
        assert one.provenance["plan_sha256"] == row["answer"]["provenance"]["plan_sha256"]
