"""The rows of a decision before anything is scored."""

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import held, refused

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.decide import run as decide_run
from trt_workbench.decide.run import DecideRun
from trt_workbench.decide.settings import DecideSettings
from trt_workbench.decide.subject import Subject, subject_of
from trt_workbench.decide.tried import DraftRow, builds_left_out, left_out
from trt_workbench.model.opened import Model
from trt_workbench.quantize.scores import ResampledScore
from trt_workbench.quantize.settings import CalibrationSettings
from trt_workbench.quantize.task import Likeness


def test_a_format_that_does_not_apply_does_so_on_every_runtime_whatever_its_words(tmp_path: Path) -> None:
    """The message names the file, `budget.onnx`; nothing was left out for a budget."""
    weights = {"w": np.ones((7, 5), np.float32)}  # too small for blocks of 16
    model = write_onnx(tmp_path / "budget.onnx", "g (float[n,7] x) => (float[n,5] y) { y = MatMul(x, w) }", weights)
    calibration = CalibrationSettings()
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    notes: list[str] = []
    run = DecideRun(subject, DecideSettings(), tmp_path, lambda *_: None, notes.append)
    run._unavailable = {}
    rows = [DraftRow("nvfp4", "ort-cpu"), DraftRow("nvfp4", "trt")]
    run._make(rows)
    assert [row.state for row in rows] == ["does not apply"] * 2
    assert all("budget.onnx" in (row.reason or "") for row in rows)
    assert notes == ["Making nvfp4"]
    assert run.left_out == []


def test_where_no_runtime_can_serve_what_the_last_one_lacks_is_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_onnx(tmp_path / "m.onnx", "g (float[n,7] x) => (float[n,7] y) { y = Relu(x) }")
    calibration = CalibrationSettings()
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, DecideSettings(), tmp_path, lambda *_: None, lambda _: None)
    monkeypatch.setattr(decide_run, "unavailable_backends", lambda names, *_: {n: ComponentMissing(n) for n in names})
    with pytest.raises(ComponentMissing, match=r"^ort-cpu$"):
        run.run()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_cast_that_leaves_all_in_fp32_does_not_apply(tmp_path: Path, precision: str) -> None:
    nodes = "s = Mul(x, x) m = ReduceMean<axes=[1]>(s) q = Sqrt(m) y = Div(x, q)"
    model = write_onnx(tmp_path / "m.onnx", f"g (float[n,7] x) => (float[n,7] y) {{ {nodes} }}")
    calibration = CalibrationSettings()
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, DecideSettings(), tmp_path, lambda *_: None, lambda _: None)
    run._unavailable = {}
    row = DraftRow(precision, "ort-cpu")
    run._make([row])
    assert (row.state, (row.reason or "")[: len(precision) + 16]) == ("does not apply", f"No node becomes {precision}")


@pytest.mark.parametrize(("batch", "asked", "timed"), [("4", 1, 4), ("4", 2, 2), ("n", 1, 1), ("n", 2, 2), ("1", 1, 1)])
def test_a_fixed_batch_is_what_is_timed(tmp_path: Path, batch: str, asked: int, timed: int) -> None:
    model = write_onnx(tmp_path / "m.onnx", f"g (float[{batch},7] x) => (float[{batch},7] y) {{ y = Relu(x) }}")
    calibration = CalibrationSettings()
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, DecideSettings(batch=asked), tmp_path, lambda *_: None, lambda _: None)
    run._fit_batch()
    assert run.settings.batch == timed
    assert len(run.notes) == (timed != asked)


def test_where_time_is_short_every_precision_is_scored_on_one_runtime_first(tmp_path: Path) -> None:
    calibration = CalibrationSettings()
    model = write_onnx(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = Abs(x) }")
    asked = DecideSettings(budget=1e-9)
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, asked, tmp_path, lambda *_: None, lambda _: None)
    rows = [DraftRow("fp32", "trt", path=model, build=2)]  # losses are relative to the first
    for name in ("fp16", "int8"):
        rows += [DraftRow(name, "trt", path=model, build=number) for number in (1, 2)]
        rows.append(DraftRow(name, "torch", path=model))
    scores = ResampledScore(0.3, np.zeros(1), "", 1)
    late: list[str] = []
    for one in rows:
        one.fail = lambda *_, one=one: late.append(one.label)  # type: ignore[method-assign]
    done = DraftRow("fp32", "trt", scores=scores)
    run._score(rows, [done, *rows])
    builds = [f"{name} on trt, build {number}" for number in (1, 2) for name in ("fp16", "int8")]
    assert late == [*builds, "fp32 on trt, build 2", "fp16 on torch", "int8 on torch"]


def test_no_build_is_begun_that_may_leave_no_time_for_its_latency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration = CalibrationSettings()
    model = write_onnx(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = Abs(x) }")
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, DecideSettings(budget=3600), tmp_path, lambda *_: None, lambda _: None)
    lateness: dict[str, bool] = {}

    def answered(one: DraftRow, *_: object, late: bool) -> None:
        lateness[one.label] = late

    monkeypatch.setattr(run, "_answered", answered)
    rows = [DraftRow("fp16", "trt", path=model, build=1), DraftRow("fp16", "torch", path=model)]
    done = DraftRow("fp32", "trt", scores=ResampledScore(0.3, np.zeros(1), "", 1))
    for slowest_s, expected in ((0.0, False), (4000.0, True)):
        run._slowest_s = slowest_s
        run._score(rows, [done, *rows])
        assert lateness == {"fp16 on trt, build 1": expected, "fp16 on torch": False}


def test_a_model_that_changes_meanwhile_is_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibration, text = CalibrationSettings(), "g (float[1] x) => (float[1] y) { y = Abs(x) }"
    model = write_onnx(tmp_path / "m.onnx", text)
    subject = Subject(Model.open(model), Likeness(Model.open(model), calibration), calibration)
    run = DecideRun(subject, DecideSettings(precisions=("fp32",)), tmp_path, lambda *_: None, lambda _: None)

    def score(*_: object) -> None:
        write_onnx(model, text.replace("Abs", "Neg"))

    monkeypatch.setattr(run, "_score", score)
    monkeypatch.setattr(run, "_measure", lambda _: [])
    with refused(UsageProblem):
        run.run()
    assert not (tmp_path / "decision.json").exists()


def test_what_was_left_out_is_one_sentence() -> None:
    rows = [DraftRow(name, backend) for name in ("fp16", "int8", "int8-mixed") for backend in ("trt", "torch")]
    for one in rows[1:]:
        one.fail("left out", "the budget was used up before it was scored")
    held(*left_out(rows))
    builds = [DraftRow("int8", "trt", build=number) for number in range(1, 5)]
    assert builds_left_out(builds) == []
    for one in builds[1:]:
        one.fail("left out", "the budget was used up before it was scored")
    assert builds_left_out(builds) == ["3 of 4 builds of int8 on trt were left out, as the budget was used up."]
    assert builds_left_out(builds[1:]) == []  # which the other sentence says
    assert left_out(rows[:1]) == []


@pytest.mark.parametrize(("factor", "state"), [(1.0, None), (1 / 2.4, None), (1 / 255, "failed")])
def test_calibration_data_of_another_normalisation_are_refused_or_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, state: str | None
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    shapes = {"w": (4, 3, 3, 3), "v": (4, 4, 1, 1)}
    weights = {name: np.random.default_rng(0).standard_normal(one).astype(np.float32) for name, one in shapes.items()}
    text = "g (float[n,3,8,8] x) => (float[n,4,6,6] y) { a = Conv(x, w) y = Conv(a, v) }"
    model = write_onnx(tmp_path / "m.onnx", text, weights)
    for seed, (name, by) in enumerate((("scored", 1.0), ("calibration", factor))):
        values = np.random.default_rng(seed).uniform(0, 255, (12, 3, 8, 8)) * by
        np.save(tmp_path / f"{name}.npy", values.astype(np.float32))
    asked = DecideSettings(data=tmp_path / "scored.npy", search=False)
    calibration = CalibrationSettings(str(tmp_path / "calibration.npy"))
    run = DecideRun(
        subject_of(model, asked, calibration, lambda _: None), asked, tmp_path, lambda *_: None, lambda _: None
    )
    run._unavailable = {}
    row = DraftRow("int8", "ort-cpu")
    run._make([row])
    assert row.state == state
    assert ("normalised differently" in (row.reason or "")) == (state == "failed")
    assert ("may have been normalised" in " ".join(run.notes)) == (factor == 1 / 2.4)
