"""Candidates: calibrated on data, written whole, with evidence; what cannot be made is refused in one sentence."""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.quantize.making import GENERATOR, TEXT, made, write

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.low_precision.evidence import METADATA_KEY, Evidence
from trt_workbench.model.opened import Model
from trt_workbench.quantize import calibrate as calibration_module
from trt_workbench.quantize import candidates
from trt_workbench.quantize.calibrate import calibrate
from trt_workbench.quantize.candidates import make_candidate
from trt_workbench.quantize.sensitivity import measure_sensitivity
from trt_workbench.quantize.settings import CalibrationSettings, PlacementSettings


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(tmp_path / "m.onnx")


@pytest.fixture
def data(tmp_path: Path) -> CalibrationSettings:
    np.save(tmp_path / "a.npy", GENERATOR.standard_normal((10, 20, 6, 6)).astype(np.float32))
    return CalibrationSettings(calibration=str(tmp_path / "a.npy"))


def test_a_candidate_has_its_evidence_inside_and_beside_it(model: Path, data: CalibrationSettings) -> None:
    candidate = made(model, data)
    whole = Evidence.model_validate_json((model.parent / "m.int8.json").read_bytes())
    assert whole == candidate.evidence
    assert whole.kept == {"deep": "depthwise", "end": "it makes an output"}
    assert whole.calibrated
    assert whole.ranges.keys() == {"x", "r"}
    assert (whole.method, whole.calibration.samples, whole.calibration.available) == ("mse", 10, 10)
    metadata = {entry.key: entry.value for entry in onnx.load(candidate.path).metadata_props}
    inside = Evidence.model_validate_json(metadata[METADATA_KEY])
    assert inside == whole.model_copy(update={"ranges": {}, "kept": {}})
    precision = read_precision(Model.open(candidate.path))
    assert precision.label == "int8+fp32"
    assert precision.shares == {"int8": 0.5, "fp32": 0.5}
    macs = {"w0": 20 * 20 * 9, "w1": 20 * 9, "w2": 20 * 20 * 9, "w3": 400}
    assert whole.low_macs == pytest.approx((macs["w0"] + macs["w2"]) / sum(macs.values()))


@pytest.mark.parametrize("method", ["max", "entropy", "percentile", "mse"])
def test_one_run_over_the_data_serves_every_method(model: Path, data: CalibrationSettings, method: str) -> None:
    found = calibrate(Model.open(model), data)
    ranges = made(model, found, method=method).evidence.ranges
    largest = float(np.abs(np.load(str(data.calibration))).max())
    assert ranges["x"].largest == pytest.approx(largest)
    assert ranges["x"].threshold == ranges["x"].largest if method == "max" else ranges["x"].threshold <= largest


@pytest.mark.parametrize("to", ["int8", "fp8"])
def test_it_runs_and_is_near_the_float_model(model: Path, data: CalibrationSettings, to: str) -> None:
    candidate = made(model, data, to, method="max")
    feed = {"x": np.load(str(data.calibration))}
    options = {"graph_optimization_level": "basic"}
    results = []
    for path in (model, candidate.path):
        with OrtCpuBackend().load(path, SessionOptions(extra=options)) as session:
            results.append(session.run(feed)["z"])
    assert 0 < np.linalg.norm(results[1] - results[0]) / np.linalg.norm(results[0]) < (0.03 if to == "int8" else 0.08)


def test_noise_is_labelled_wherever_the_model_goes(model: Path) -> None:
    candidate = made(model, CalibrationSettings(calibration="random"))
    assert not candidate.evidence.calibrated
    with OrtCpuBackend().load(candidate.path) as session:
        ran = session.record()["precision_ran"]
    assert ran["label"] == "int8+fp32 (simulated, not calibrated)"
    assert not ran["calibrated"]


def test_groups_are_kept_by_name_and_by_pattern(model: Path, data: CalibrationSettings) -> None:
    kept = made(model, data, keep=("fir*",), keep_sensitive=False).evidence.kept
    assert kept == {"first": "requested"}
    with refused(UsageProblem):
        made(model, data, keep=("secnd",))
    with refused(UsageProblem):
        made(model, data, keep=("*",))


def test_a_layer_that_makes_nan_is_named_with_the_sample(tmp_path: Path) -> None:
    path = write(tmp_path / "nan.onnx", text=TEXT.replace("[abs] c2 = Abs(c)", "[abs] c2 = Neg(c)"))
    np.save(tmp_path / "b.npy", np.ones((9, 20, 6, 6), np.float32))
    with refused(UsageProblem):
        made(path, CalibrationSettings(calibration=str(tmp_path / "b.npy")))


def test_a_sample_that_holds_nan_is_named_and_not_the_model(model: Path) -> None:
    samples = np.ones((10, 20, 6, 6), np.float32)
    samples[7, 0, 0, 0] = np.nan
    np.save(model.with_name("b.npy"), samples)
    with refused(UsageProblem):
        made(model, CalibrationSettings(calibration=str(model.with_name("b.npy"))))


def test_an_older_operator_set_is_raised(tmp_path: Path, data: CalibrationSettings) -> None:
    candidate = made(write(tmp_path / "old.onnx", opset=11), data)
    assert onnx.load(candidate.path).opset_import[0].version == 13
    assert onnx.load(made(write(tmp_path / "m17.onnx"), data, "fp8").path).opset_import[0].version == 19


def test_what_is_quantised_already_is_refused(model: Path, data: CalibrationSettings) -> None:
    first = made(model, data)
    with refused(UsageProblem):
        make_candidate(Model.open(first.path), "int8", model.with_name("again.onnx"), calibration=data)


def test_a_model_with_nothing_to_quantise_is_refused(tmp_path: Path, data: CalibrationSettings) -> None:
    path = write_onnx(tmp_path / "abs.onnx", "g (float[n,4] x) => (float[n,4] y) { y = Abs(x) }")
    with refused(UsageProblem):
        made(path, data)


def test_a_cast_needs_no_products(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "abs.onnx", "g (float[n,4] x) => (float[n,4] y) { y = Abs(x) }")
    candidate = make_candidate(Model.open(path), "fp16", tmp_path / "half.onnx")
    assert {node.op_type for node in onnx.load(candidate.path).graph.node} == {"Cast", "Abs"}


def test_weights_of_another_type_are_refused(tmp_path: Path, data: CalibrationSettings) -> None:
    text = "g (float16[n,4] x) => (float16[n,3] y) { [p] y = MatMul(x, w) }"
    path = write_onnx(tmp_path / "half.onnx", text, {"w": np.ones((4, 3), np.float16)})
    with refused(UsageProblem):
        made(path, data)


def test_entropy_is_no_method_for_fp8(model: Path, data: CalibrationSettings) -> None:
    with refused(UsageProblem):
        made(model, data, "fp8", method="entropy")


def test_the_output_is_never_the_model(model: Path, data: CalibrationSettings) -> None:
    with refused(UsageProblem):
        make_candidate(Model.open(model), "int8", model, calibration=data)
    with refused(UsageProblem):
        make_candidate(Model.open(model), "int8", model.with_suffix(".plan"), calibration=data)


def test_without_room_nothing_is_written(
    model: Path, data: CalibrationSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(candidates, "write_json", full)
    before = sorted(model.parent.iterdir())
    with pytest.raises(OSError, match="No space left"):
        made(model, data)
    assert sorted(model.parent.iterdir()) == before


def test_memory_is_bounded_by_going_over_the_data_in_parts(
    model: Path, data: CalibrationSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = calibrate(Model.open(model), data)
    monkeypatch.setattr(calibration_module, "_MOST_BYTES", 1)
    steps: list[tuple[int, int]] = []
    parts = calibrate(Model.open(model), data, lambda done, total: steps.append((done, total)))
    assert steps[-1] == (40, 40)
    assert parts.evidence == whole.evidence
    for name, histogram in whole.histograms.items():
        np.testing.assert_array_equal(parts.histograms[name].counts, histogram.counts)


def test_a_fixed_batch_takes_every_sample(tmp_path: Path, data: CalibrationSettings) -> None:
    fixed = write(tmp_path / "fixed.onnx", text=TEXT.replace("float[n,", "float[4,"))
    values = np.load(str(data.calibration))
    values[7, 0, 0, 0] = 99.0  # in the incomplete last batch: 10 samples, batches of 4
    values[9, 0, 0, 0] = 100.0
    np.save(str(data.calibration), values)
    found = calibrate(Model.open(fixed), data)
    assert found.histograms["x"].largest == 100.0
    assert found.evidence.samples == 10


def test_a_sample_counts_once_in_an_incomplete_batch(model: Path, data: CalibrationSettings) -> None:
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(model).graph.initializer}
    text = TEXT.replace("float[n,", "float[4,")
    fixed = write_onnx(model.with_name("fixed.onnx"), text, weights)  # 10 samples, batches of 4
    whole, found = calibrate(Model.open(model), data), calibrate(Model.open(fixed), data)
    assert found.histograms.keys() == whole.histograms.keys()
    for name, histogram in whole.histograms.items():
        assert found.histograms[name].values == histogram.values
    np.testing.assert_array_equal(found.histograms["x"].counts, whole.histograms["x"].counts)


@pytest.mark.parametrize(
    "shape",
    ["Transpose<perm=[1,0,2]>(a)", "Reshape(a, flat)", "Reshape(b, flat)"],
    ids=["time first", "flat", "flat, time first"],
)
def test_a_sample_counts_once_wherever_the_batch_lies(tmp_path: Path, shape: str) -> None:
    """Ten samples in batches of four: of the last batch half is filled."""
    text = f"""g (float[n,4,6] x) => (float[k] z) {{
      a = MatMul(x, w0) b = Transpose<perm=[1,0,2]>(a) s = {shape} m = MatMul(s, w1) z = Reshape(m, all)
    }}"""
    weights = {name: GENERATOR.standard_normal((6, 6)).astype(np.float32) for name in ("w0", "w1")}
    weights |= {"flat": np.array([-1, 6]), "all": np.array([-1])}
    np.save(tmp_path / "a.npy", GENERATOR.standard_normal((10, 4, 6)).astype(np.float32))
    settings = CalibrationSettings(calibration=str(tmp_path / "a.npy"))
    used = {name: value for name, value in weights.items() if f"{name})" in text}
    made = [write_onnx(tmp_path / f"{n}.onnx", text.replace("[n,", f"[{n},"), used) for n in ("n", 4)]
    whole, found = (calibrate(Model.open(path), settings).histograms for path in made)
    assert whole["s"].values == 10 * 4 * 6
    assert found["s"].values == whole["s"].values
    assert np.abs(found["s"].counts - whole["s"].counts).sum() <= 4  # a value on the edge of a bin


def test_arithmetic_is_counted_by_the_shapes_of_the_data(tmp_path: Path) -> None:
    """What the graph alone does not tell, and what it leaves open: 64 would stand for the 5 columns."""
    text = """g (float[n,t,16] x) => (float[k,3] z) {
      [first] a = MatMul(x, w0)
      top = ReduceMax<keepdims=0>(a) whole = Cast<to=7>(top) none = Mul(whole, nought) shape = Add(none, wanted)
      r = Reshape(a, shape) s = Squeeze(r)
      [second] z = MatMul(s, w1)
    }"""
    weights: dict[str, Any] = {"w0": np.eye(16, dtype=np.float32), "w1": np.ones((4, 3), np.float32)}
    weights |= {"nought": np.array(0), "wanted": np.array([-1, 4, 1])}
    path = write_onnx(tmp_path / "m.onnx", text, weights, 17)
    np.save(tmp_path / "a.npy", GENERATOR.standard_normal((8, 5, 16)).astype(np.float32))
    settings = CalibrationSettings(calibration=str(tmp_path / "a.npy"))
    first, second = 5 * 16 * 16, 5 * 4 * 4 * 3
    assert made(path, settings, keep=("first",)).evidence.low_macs == pytest.approx(second / (first + second))
    assert made(path, settings, keep=("second",)).evidence.low_macs == pytest.approx(first / (first + second))
    found = measure_sensitivity(
        Model.open(path), "int8", calibrate(Model.open(path), settings), settings, PlacementSettings()
    )
    assert {one.name: one.macs_share for one in found.groups}["second"] == pytest.approx(second / (first + second))


def test_the_data_hash_follows_the_data(model: Path, data: CalibrationSettings) -> None:
    first, again = (calibrate(Model.open(model), data).evidence.data_sha256 for _ in range(2))
    np.save(str(data.calibration), np.load(str(data.calibration)) * np.float32(1.001))
    assert first == again != calibrate(Model.open(model), data).evidence.data_sha256


def test_ranges_of_another_model_are_refused(model: Path, tmp_path: Path, data: CalibrationSettings) -> None:
    with refused(UsageProblem):
        made(write(tmp_path / "other.onnx"), calibrate(Model.open(model), data))


def test_evidence_is_json(model: Path, data: CalibrationSettings) -> None:
    document = json.loads((made(model, data).path.with_suffix(".json")).read_text())
    assert document["schema_version"] == 1
    assert document["source"] == "m.onnx"
    assert document["versions"]["onnxruntime"] == onnxruntime.__version__
    assert set(document["versions"]) == {"trt-workbench", "onnx", "onnxruntime", "numpy"}


def test_a_module_of_another_package_has_a_version(
    monkeypatch: pytest.MonkeyPatch, model: Path, data: CalibrationSettings
) -> None:
    """onnxruntime-gpu brings onnxruntime, and has its version."""
    for installed, version in (({"onnxruntime-gpu": "1.31.1"}, "1.31.1"), ({}, "unknown")):
        found = {"onnx": "1", "numpy": "2", **installed}
        monkeypatch.setattr("trt_workbench.quantize.candidates.installed_packages", found.copy)
        assert made(model, data).evidence.versions["onnxruntime"] == version


PRODUCTS = """g (float[n,128] x) => (float[n,64] y) {
  [up] a = MatMul(x, w0)
  [act] b = Relu(a)
  [down] y = MatMul(b, w1)
}"""


@pytest.mark.parametrize(
    ("to", "label"),
    [
        ("fp16", "fp16"),
        ("bf16", "bf16"),
        ("mxfp8", "mxfp8"),
        ("nvfp4", "nvfp4"),
        ("int4-weights", "fp32, int4 weights"),
    ],
)
def test_formats_that_need_no_data(tmp_path: Path, to: Any, label: str) -> None:
    arrays = {"w0": GENERATOR.standard_normal((128, 256)), "w1": GENERATOR.standard_normal((256, 64))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    candidate = made(write_onnx(tmp_path / "m.onnx", PRODUCTS, arrays), None, to, keep_sensitive=False)
    assert read_precision(Model.open(candidate.path)).label == label
    evidence = candidate.evidence
    assert (evidence.calibrated, evidence.method, evidence.ranges, evidence.kept) == (True, None, {}, {})
    assert (evidence.low_weights, evidence.low_macs) == (1.0, 0.0 if to == "int4-weights" else 1.0)
    kept = made(tmp_path / "m.onnx", None, to, keep=("down",), keep_sensitive=False).evidence
    assert kept.kept == {"down": "requested"}
    assert kept.low_weights == pytest.approx(2 / 3)
    with refused(UsageProblem):
        made(tmp_path / "m.onnx", None, to, method="max")


def test_what_has_no_form_in_blocks_is_left_alone(model: Path) -> None:
    with refused(UsageProblem):
        made(model, None, "mxfp8")


def test_an_operator_set_that_cannot_be_raised_is_refused(tmp_path: Path) -> None:
    text = """g (float[n,2] x, float[n,4] s) => (float[n,3] y, float[n,4] b) {
      [p] y = MatMul(x, w)
      b = BatchNormalization<spatial=0>(s, v, v, v, v)
    }"""
    arrays = {"w": np.ones((2, 3), np.float32), "v": np.ones(4, np.float32)}
    path = write_onnx(tmp_path / "old.onnx", text, arrays, 8)
    with refused(UsageProblem):
        made(path, CalibrationSettings(calibration="random"))


def test_samples_that_the_model_does_not_run_on_are_named(tmp_path: Path) -> None:
    """A table of 16 positions: noise has 64."""
    text = "g (float[n,steps,3] x) => (float[n,steps,4] y) { a = Add(x, places) [last] y = MatMul(a, w) }"
    arrays = {"places": np.ones((16, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    path = write_onnx(tmp_path / "m.onnx", text, arrays)
    with refused(UsageProblem) as caught:
        made(path, CalibrationSettings(calibration="random"))
    assert str(caught.value).endswith(str(path))  # not that of a copy
    np.save(tmp_path / "samples.npy", np.ones((8, 5, 3), np.float32))
    with refused(UsageProblem):
        made(path, CalibrationSettings(calibration=str(tmp_path / "samples.npy")))


def test_a_tensor_that_the_operator_set_renames_is_quantised(tmp_path: Path) -> None:
    """ONNX's converter makes a Resize of Upsample and a longer way of Softmax, whose results have other names.

    Behind them weights alone were quantised, and the evidence said that everything was.
    """
    text = """g (float[n,3,4,4] x) => (float[n,4,8,8] y, float[n,4,8,8] s) {
      [first] a = Conv<pads=[1,1,1,1]>(x, w0)
      u = Upsample(a, twice)
      [second] b = Conv(u, w1)
      [fused] y = Add(b, u)
      p = Softmax<axis=1>(y)
      [third] s = MatMul(p, w2)
    }"""
    arrays = {"twice": np.array([1, 1, 2, 2], np.float32)} | {
        name: GENERATOR.standard_normal(shape).astype(np.float32)
        for name, shape in {"w0": (4, 3, 3, 3), "w1": (4, 4, 1, 1), "w2": (8, 8)}.items()
    }
    path = write_onnx(tmp_path / "m.onnx", text, arrays, 9)
    candidate = made(path, CalibrationSettings(calibration="random"), keep_sensitive=False)
    assert candidate.evidence.ranges.keys() == {"x", "u", "p"}
    assert read_precision(Model.open(candidate.path)).label == "int8 (not calibrated)"
    graph = onnx.load(candidate.path).graph
    makers = {name: node.op_type for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type in ("Conv", "MatMul"):
            assert [makers[name] for name in node.input] == ["DequantizeLinear"] * 2
        if node.name == "fused":  # with the convolution, in int8
            assert [makers[name] for name in node.input] == ["Conv", "DequantizeLinear"]
    with OrtCpuBackend().load(candidate.path) as session:
        session.run({"x": np.ones((2, 3, 4, 4), np.float32)})


def test_ranges_of_zeros_alone_are_told(model: Path) -> None:
    np.save(model.with_name("zeros.npy"), np.zeros((8, 20, 6, 6), np.float32))
    notes = made(model, CalibrationSettings(calibration=str(model.with_name("zeros.npy")))).evidence.notes
    assert any(note.startswith("Always 0 in the calibration data") and "x" in note for note in notes)
