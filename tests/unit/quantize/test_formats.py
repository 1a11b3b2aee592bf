"""Candidates in formats that need no calibration data: their evidence, what is left alone, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.low_precision.evidence import METADATA_KEY, Evidence
from trt_workbench.model.opened import Model
from trt_workbench.quantize.candidates import Candidate, evidence_path, make_candidate
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings

RNG = np.random.default_rng(0)
MIXED = """g (float[N,16,8,8] x) => (float[N,10] y) {
  [conv] a = Conv<pads=[1,1,1,1]>(x, w0) [pool] p = GlobalAveragePool(a) [flat] f = Flatten(p)
  [hidden] h = MatMul(f, w1) [act] r = Relu(h) [logits] y = MatMul(r, w2)
}"""
SHAPES = {"w0": (32, 16, 3, 3), "w1": (32, 64), "w2": (64, 10), "w3": (4, 2, 3, 3), "w4": (4, 4, 1, 1)}


def made(folder: Path, to: Any, text: str = MIXED, opset: int = 17, **placement: Any) -> Candidate:
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items() if name in text}
    model = write_onnx(folder / "m.onnx", text, arrays, opset)
    output = folder / f"m.{to}.onnx"
    return make_candidate(Model.open(model), to, output, placement=PlacementSettings(**placement))


@pytest.mark.parametrize("to", ["mxfp8", "nvfp4", "int4-weights"])
def test_blocks_beside_convolutions(tmp_path: Path, to: Any) -> None:
    candidate = made(tmp_path, to)
    evidence = candidate.evidence
    assert (evidence.calibrated, evidence.calibration, evidence.method) == (True, None, None)
    assert evidence.kept == {"conv": f"{to} has no convolutions", "logits": "it makes an output"}
    assert evidence.low_weights == pytest.approx(32 * 64 / (32 * 16 * 9 + 32 * 64 + 64 * 10))
    inside = Evidence.model_validate_json(Model.open(candidate.path).facts.metadata[METADATA_KEY])
    assert (inside.to, inside.low_weights) == (to, evidence.low_weights)
    assert evidence_path(candidate.path).is_file()
    whole = made(tmp_path, to, keep_sensitive=False).evidence
    assert whole.kept == {"conv": f"{to} has no convolutions"}


@pytest.mark.parametrize(("to", "opset"), [("fp16", 17), ("bf16", 22)])
def test_sixteen_bits_take_everything(tmp_path: Path, to: Any, opset: int) -> None:
    candidate = made(tmp_path, to)
    assert read_precision(Model.open(candidate.path)).label == to
    assert (candidate.evidence.kept, candidate.evidence.low_macs, candidate.evidence.opset) == ({}, 1.0, opset)
    kept = made(tmp_path, to, keep=("hidden",))
    assert kept.evidence.kept == {"hidden": "requested"}
    assert read_precision(Model.open(kept.path)).shares["fp32"] == pytest.approx(1 / 3)


def test_a_product_alone_is_not_left_alone(tmp_path: Path) -> None:
    candidate = made(tmp_path, "nvfp4", "g (float[2,32] x) => (float[2,64] y) { [only] y = MatMul(x, w1) }")
    assert candidate.evidence.kept == {}


@pytest.mark.parametrize("to", ["mxfp8", "nvfp4", "int4-weights"])
def test_convolutions_alone_have_no_form(tmp_path: Path, to: Any) -> None:
    text = "g (float[1,16,8,8] x) => (float[1,32,8,8] y) { [conv] y = Conv<pads=[1,1,1,1]>(x, w0) }"
    with refused(UsageProblem):
        made(tmp_path, to, text)
    assert not (tmp_path / f"m.{to}.onnx").exists()


def test_data_that_nothing_needs_are_noted(tmp_path: Path) -> None:
    made(tmp_path, "fp16")
    given = CalibrationSettings(calibration="images")
    candidate = make_candidate(Model.open(tmp_path / "m.onnx"), "nvfp4", tmp_path / "n.onnx", calibration=given)
    held(*candidate.evidence.notes)


GROUPED = """g (float[1,4,8,8] x) => (float[1,4,8,8] y) {
  [one] a = Conv<group=2, pads=[1,1,1,1]>(x, w3) [two] y = Conv(a, w4)
}"""


@pytest.mark.usefixtures("doubled_core")
@pytest.mark.parametrize(
    ("version", "to", "placement", "noted"),
    [
        ("11.2.1.2", "fp16", {}, True),
        ("11.2.1.2", "fp16", {"keep": ("one",)}, False),
        ("11.2.1.2", "bf16", {}, False),
        ("10.16.1.11", "fp16", {}, False),
    ],
)
def test_grouped_convolutions_that_the_tensorrt_here_does_not_build_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, to: str, placement: dict[str, Any], noted: bool
) -> None:
    monkeypatch.setenv("TRTW_DOUBLE_VERSION", version)
    notes = [note for note in made(tmp_path, to, GROUPED, **placement).evidence.notes if "grouped" in note]
    if noted:
        held(*notes)
    else:
        assert notes == []
