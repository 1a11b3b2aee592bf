"""Sensitivity: the noise of each group alone; a planted one comes first, and formats without ranges need none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.quantize.planted import PLANTED, planted_data, planted_model

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.quantize.calibrate import calibrate
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.data import calibration_data
from trt_workbench.quantize.document import Sensitivity
from trt_workbench.quantize.held_out import scorer_of, with_scores
from trt_workbench.quantize.sensitivity import measure_sensitivity
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings, ScoreSettings


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return planted_model(tmp_path / "m.onnx")


@pytest.fixture
def data(tmp_path: Path) -> CalibrationSettings:
    return planted_data(tmp_path)


def measured(model: Path, data: CalibrationSettings, **placement: object) -> Sensitivity:
    settings = PlacementSettings(**placement)  # type: ignore[arg-type]
    return measure_sensitivity(Model.open(model), "int8", calibrate(Model.open(model), data), data, settings)


def test_the_planted_group_makes_nearly_all_noise(model: Path, data: CalibrationSettings) -> None:
    found = measured(model, data)
    assert found.groups[0].name == PLANTED
    assert found.groups[0].noise > 100 * found.groups[1].noise > 0
    # noise adds up, which is what ranking one group at a time rests on
    assert np.isclose(sum(group.noise for group in found.groups), found.noise, rtol=0.3)
    assert found.sqnr_db == pytest.approx(-10 * np.log10(found.noise))
    assert sum(group.macs_share for group in found.groups) == pytest.approx(1)
    assert found.tensors == ["z"]


def test_shares_are_of_the_arithmetic_that_a_candidate_counts(tmp_path: Path) -> None:
    """A product with its constant first is no group, and arithmetic all the same."""
    text = "g (float[n,8,8] x) => (float[n,8,8] y) { [left] a = MatMul(w, x) [right] y = MatMul(a, w) }"
    model = write_onnx(tmp_path / "m.onnx", text, {"w": np.eye(8, dtype=np.float32)})
    data = CalibrationSettings(calibration="random")
    shares = [group.macs_share for group in measured(model, data).groups]
    assert shares == [pytest.approx(0.5)]
    assert (
        make_candidate(Model.open(model), "int8", tmp_path / "m.int8.onnx", calibration=data).evidence.low_macs
        == shares[0]
    )


def test_a_weight_that_layers_share_counts_once_in_the_whole(tmp_path: Path) -> None:
    text = (
        "g (float[n,8] x) => (float[n,2] y) { [one] a = MatMul(x, w) [two] b = MatMul(a, w) [last] y = MatMul(b, v) }"
    )
    arrays = {"w": np.eye(8, dtype=np.float32), "v": np.ones((8, 2), np.float32)}
    model = write_onnx(tmp_path / "m.onnx", text, arrays)
    shares = {one.name: one.weights_share for one in measured(model, CalibrationSettings(calibration="random")).groups}
    assert shares == pytest.approx({"one": 64 / 80, "two": 64 / 80, "last": 16 / 80})


def test_it_is_the_same_again(model: Path, data: CalibrationSettings) -> None:
    first, second = (measured(model, data).model_copy(update={"wall_s": 0.0}) for _ in range(2))
    assert first == second


def test_what_is_left_alone_is_not_tried(model: Path, data: CalibrationSettings) -> None:
    found = measured(model, data, keep=("planted", "fir*"))
    assert found.left_out == {"planted": "requested", "first": "requested"}
    assert {group.name for group in found.groups} == {"second", "last"}
    with refused(UsageProblem):
        measured(model, data, keep=("*",))


def test_a_half_precision_needs_no_ranges(model: Path, data: CalibrationSettings) -> None:
    found = measure_sensitivity(Model.open(model), "fp16", None, data, PlacementSettings())
    assert len(found.groups) == 4
    assert all(0 < group.noise < 1e-5 for group in found.groups)
    assert (found.method, found.data_sha256) == (None, None)


def test_the_worst_is_scored_on_the_other_half(model: Path, data: CalibrationSettings, tmp_path: Path) -> None:
    ranges, scored_half = (set(calibration_data(Model.open(model), data, half).names) for half in (0, 1))
    assert len(ranges) == len(scored_half) == 12
    assert not ranges & scored_half
    calibrated = calibrate(Model.open(model), data, half=0)
    found = measure_sensitivity(Model.open(model), "int8", calibrated, data, PlacementSettings(), half=0)
    scorer = scorer_of(Model.open(model), data, ScoreSettings(score="cosine"), tmp_path)
    scored = with_scores(found, calibrated, data, PlacementSettings(), scorer, 2)
    assert [group.score is not None for group in scored.groups] == [True, True, False, False]
    first, second = (group.score for group in scored.groups[:2])
    assert first is not None
    assert first.loss > 0.01 > second.loss > 0
    assert (scored.figure, scored.scored, scored.baseline) == ("cosine", 12, 1.0)


def test_a_copy_that_the_runtime_refuses_is_named_by_what_it_is(
    model: Path, data: CalibrationSettings, tmp_path: Path
) -> None:
    scorer = scorer_of(Model.open(model), data, ScoreSettings(score="cosine"), tmp_path)

    def refuse(path: Path, *rest: Any) -> Any:
        if path != model:
            raise UsageProblem(f"ONNX Runtime cannot load the model: {path}")
        return scorer.score(path, *rest)

    refusing: Any = SimpleNamespace(score=refuse)
    calibrated = calibrate(Model.open(model), data, half=0)
    found = measure_sensitivity(Model.open(model), "int8", calibrated, data, PlacementSettings(), half=0)
    with refused(UsageProblem):
        with_scores(found, calibrated, data, PlacementSettings(), refusing, 2)


def test_a_group_that_quantize_keeps_anyway_is_not_advised(tmp_path: Path) -> None:
    """The command that the page proposes makes another graph than the one without it."""
    text = """g (float[n,4,8,8] x) => (float[n,4,8,8] y) {
        [first] a = Conv<pads = [1,1,1,1]>(x, w) r = Relu(a) [inner] b = Conv<pads = [1,1,1,1]>(r, w)
        s = Relu(b) [last] y = Conv<pads = [1,1,1,1]>(s, w) }"""
    model = write_onnx(
        tmp_path / "m.onnx", text, {"w": np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype("f4")}
    )
    data = CalibrationSettings(calibration="random")
    found = measured(model, data)
    made: dict[str, set[str]] = {}
    for name in ("", *(group.name for group in found.groups)):
        output = tmp_path / f"made-{name}.onnx"
        placement = PlacementSettings(keep=(name,) if name else ())
        make_candidate(Model.open(model), "int8", output, calibration=data, placement=placement)
        graph = onnx.load(output).graph
        plain = {tensor.name for tensor in graph.initializer}
        made[name] = {one.name for one in graph.node if one.op_type == "Conv" and one.input[1] not in plain}
    for group in found.groups:
        assert (made[group.name] == made[""]) == bool(group.kept)
    assert {bool(group.kept) for group in found.groups} == {True, False}
