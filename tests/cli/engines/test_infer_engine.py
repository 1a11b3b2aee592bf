"""`infer-engine`: arrays in and out, state, checks, measuring."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.engines.common import infer, measuring
from tests.in_app import stderr_of, trtw
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.infer.calls import Caller, CallWay


def test_inputs_by_name_and_in_order_give_the_same_outputs(plan: Path, arrays: dict[str, Path], tmp_path: Path) -> None:
    x, y = np.load(arrays["x"]), np.load(arrays["y"])
    np.savez(tmp_path / "both.npz", y=y, x=x)
    forms = (
        (f"y={arrays['y']}", f"x={arrays['x']}"),
        (arrays["x"], arrays["y"]),
        (tmp_path / "both.npz",),
    )
    for form in forms:
        words = [word for source in form for word in ("-i", source)]
        document = infer(plan, *words)
        outputs = next((Path(document["directory"]) / "outputs").iterdir())
        np.testing.assert_allclose(np.load(outputs / "total.npy"), x + y)
        np.testing.assert_allclose(np.load(outputs / "ratio.npy"), x / y)
        assert document["benchmark"] is None


def test_a_folder_is_streamed_sample_by_sample(plan: Path, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for number in range(5):
        value = np.full((2, 3), number + 1, np.float32)
        np.savez(folder / f"s{number}.npz", x=value, y=value)
    document = infer(plan, "-i", folder)
    run = Path(document["directory"])
    assert document["samples"] == 5
    for number in range(5):
        np.testing.assert_array_equal(np.load(run / "outputs" / f"s{number}" / "total.npy"), 2.0 * (number + 1))
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    assert [record["sample"] for record in records] == [f"s{number}" for number in range(5)]
    assert {path.name for path in run.iterdir()} == {
        "env.json", "metrics.json", "outputs", "records.jsonl", "run.json",
    }  # fmt: skip


def test_an_earlier_run_is_the_reference_of_the_next(plan: Path, tmp_path: Path) -> None:
    first = infer(plan, "--no-bench", "--seed", "3")
    outputs = Path(first["directory"]) / "outputs"
    same = infer(plan, "--no-bench", "--seed", "3", "--expect", outputs)
    assert same["passed"]
    assert same["outputs"]["total"]["max_abs_error"] == 0
    said = stderr_of(
        "infer-engine", plan, "--no-bench", "--seed", "4", "--expect", outputs, "--output", tmp_path / "run", code=1
    )
    held(said)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert not metrics["passed"]
    assert metrics["outputs"]["total"]["mismatches"] == 6
    assert json.loads((tmp_path / "run" / "run.json").read_text())["passed"] is False


def test_tolerances_decide(plan: Path, arrays: dict[str, Path], tmp_path: Path) -> None:
    words = (plan, "-i", arrays["x"], "-i", arrays["y"], "--expect", tmp_path / "want")
    x, y = np.load(arrays["x"]), np.load(arrays["y"])
    (tmp_path / "want").mkdir()
    np.save(tmp_path / "want" / "total.npy", x + y + 0.01)
    np.save(tmp_path / "want" / "ratio.npy", x / y)
    assert infer(*words, "--atol", "0.02")["passed"]
    assert not infer(*words, "--atol", "0.001", "--rtol", "0", code=1)["passed"]
    (tmp_path / "want" / "ratio.npy").unlink()
    held(stderr_of("infer-engine", *words))


def test_nan_and_infinity_fail_the_check(plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "zeros.npz"
    np.savez(file, x=np.array([[0, 1, -1], [1, 1, 1]], np.float32), y=np.zeros((2, 3), np.float32))
    assert infer(plan, "-i", file)["outputs"]["ratio"]["nonfinite"] == 6
    held(stderr_of("infer-engine", plan, "-i", file, "--check-finite", code=1))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-i", "z={x}"), "has no input 'z'"),
        (("-i", "absent.npy"), "does not exist"),
        (("-i", "{x}"), "has 1 array, but the model takes x float32"),
        (("-i", "x={x}", "-i", "x={y}"), "given twice"),
        (("-i", "{wide}", "-i", "{y}"), r"has shape [2, 4]"),
        (("-i", "{double}", "-i", "{y}"), "is float64, the model takes"),
        (("-i", "{big}", "-i", "{y}"), "foreign byte order"),
        (("-i", "{text}", "-i", "{y}"), "Only .npy and .npz files are read"),
        (("-i", "{cut}", "-i", "{y}"), "cannot be read as arrays"),
        (("-i", "{x}", "-i", "{y}", "--shape", "x:2x3"), "--shape is for random inputs"),
        (("--shape", "q:2x3"), "has no input 'q'"),
        (("--shape", "x"), "--shape takes NAME:DIMxDIM"),
        (("--profile", "3"), "Profile 3 does not exist"),
        (("--percentiles", "12,x"), "--percentiles takes numbers"),
        (("--expect", "absent"), "folder of reference outputs does not exist"),
        (("-i", "{x}", "--export-times", "t.json"), "--export-times needs --bench"),
        (("-i", "{x}", "--streams", "2"), "--streams needs --bench"),
        (("--no-bench", "--no-transfers", "--duration", "9"), "--duration needs --bench"),
        (("--rtol", "0.1"), "pass the reference outputs with --expect"),
    ],
)
def test_inputs_that_do_not_fit_are_told(
    plan: Path, arrays: dict[str, Path], tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    x = np.load(arrays["x"])
    special = {"wide": np.zeros((2, 4), np.float32), "double": x.astype(np.float64), "big": x.astype(">f4")}
    files = {**arrays, "text": tmp_path / "notes.txt", "cut": tmp_path / "cut.npy"}
    for name, array in special.items():
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], array)
    files["text"].write_text("text")
    files["cut"].write_bytes(arrays["x"].read_bytes()[:-4])
    assert text in stderr_of("infer-engine", plan, *(word.format_map(files) for word in words))
    assert list((tmp_path / "out").glob("infer-engine/*")) == []


def test_measuring_keeps_every_sample(plan: Path, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    words = measuring(plan, "--streams", "2", "--percentiles", "75", "--export-times", times)
    document = infer(*words)
    measured = document["benchmark"]
    assert measured["queries"] == 200
    assert measured["throughput_qps"] == 2000
    assert measured["latency_ms"]["p50"] == pytest.approx(1.2)
    assert measured["compute_ms"]["p75"] == 1
    assert measured["settings"]["cuda_graph"]
    assert measured["single_calls"]["python"]["end_to_end_ms"]["count"] >= 5
    run = Path(document["directory"])
    kinds = [json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()]
    assert (kinds.count("sample"), kinds.count("query")) == (1, 200)
    assert kinds.count("call") > 100
    exported = json.loads(times.read_text())
    assert len(exported) == 200
    assert exported[0]["endD2hMs"] - exported[0]["startH2dMs"] == pytest.approx(exported[0]["latencyMs"])


def test_measuring_is_shown_to_people(plan: Path) -> None:
    shown = trtw("infer-engine", *measuring(plan, "--no-transfers", "--no-cuda-graph", "--block"))
    assert "Measuring.\n" in shown.stderr
    assert shown.exit_code == 0
    assert "Throughput 1000.0 queries/s" in shown.stdout
    assert "CUDA graph off" in shown.stdout
    assert "too few to claim p95, p99" in shown.stdout


def test_calls_are_measured_in_every_way(tmp_path: Path) -> None:
    text = "pictures (float[n,3,4,5] image, float[n,2] scale) => (float[n,3,4,5] y, float[n,2] z)"
    model = write_onnx(tmp_path / "pictures.onnx", f"{text} {{ y = Sin(image) z = Neg(scale) }}")
    plan = tmp_path / "pictures.plan"
    assert trtw("build-engine", model, "--max-batch", "4", "-o", plan, "--verify", "off").exit_code == 0
    document = infer(*measuring(plan, "--calls", "view,pinned,buffer,numpy,torch"))
    found = document["benchmark"]["user_calls"]
    assert found["left_out"] == {"torch": "PyTorch is absent, or sees no GPU"}
    names = [row["name"] for row in found["rows"]]
    assert names == ["h2d", "compute", "d2h", "view", "view_copy", "pinned", "pinned_out", "buffer", "numpy"]
    called = [row for row in found["rows"] if "above_compute_us" in row]
    assert [row["name"] for row in called] == [name for name in names[3:] if name != "view_copy"]  # not a call
    for row in called:
        above = row["above_compute_us"]
        assert above["low"] <= above["median"] <= above["high"]
        assert row["time_us"]["median"] - 1000 == pytest.approx(above["median"])
        assert row["time_us"]["coverage"] == 0.9375
    lines = (Path(document["directory"]) / "records.jsonl").read_text().splitlines()
    calls = [record for record in map(json.loads, lines) if "round" in record]
    assert {(call["via"], call["round"]) for call in calls} == {
        (via, number) for via in ("events", *names[3:]) for number in range(5)
    }
    shown = trtw("infer-engine", *measuring(plan, "--calls", "pinned,torch")).stdout
    assert "Microseconds of a user's call: median of 5 rounds, 93 % interval" in shown
    assert "note: torch was left out: PyTorch is absent, or sees no GPU." in shown


def test_no_way_is_timed_before_all_were_called(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of PyTorch's is timed on what a call gave, whichever of the two comes first in a round."""

    def ways(self: Caller, runner: Any) -> list[CallWay]:
        called: list[int] = []
        (way,) = self._numpy(runner)
        first = dataclasses.replace(way, call=lambda: called.append(1) or way.call())
        return [first, CallWay("after", "work on what it gave", way.fill, lambda: called[0])]

    monkeypatch.setattr(Caller, "_torch", ways)
    rows = infer(*measuring(plan, "--calls", "torch"))["benchmark"]["user_calls"]["rows"]
    assert [row["name"] for row in rows[3:]] == ["numpy", "after"]


def test_a_call_that_is_wrong_in_one_way_is_not_timed(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_FAULT", "page-locked outputs")
    assert infer(*measuring(plan, "--calls", "numpy"))["passed"]
    held(stderr_of("infer-engine", *measuring(plan, "--calls", "numpy,pinned"), code=1))


def test_calls_that_cannot_be_compared_are_refused(plan: Path) -> None:
    held(stderr_of("infer-engine", plan, "--calls", "numpy,cupy"))


# machines that lack something


def test_a_budget_for_weights_is_bytes_or_auto(plan: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("auto", "0", "1048576"):
        assert infer(plan, "--no-bench", "--weight-streaming-budget", given)["passed"]
    for given in ("-1", "1e9", "some", "9" * 5000):
        held(stderr_of("infer-engine", plan, "--weight-streaming-budget", given))
    monkeypatch.setenv("TRTW_DOUBLE_VERSION", "8.6.0")
    said = stderr_of("infer-engine", model, "--backend", "trt", "--no-bench", "--weight-streaming-budget", "auto")
    held(said)


def test_a_plugin_library_that_is_absent_is_told(plan: Path, tmp_path: Path) -> None:
    held(stderr_of("infer-engine", plan, "--no-bench", "--plugin", tmp_path / "none.so"))
