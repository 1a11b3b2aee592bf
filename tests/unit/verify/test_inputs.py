"""What a model is called with: both signs, each channel, the range of calibration or of the user's samples, images."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from tests.faulty_backend import FaultySession
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.backends.measure.inputs import random_inputs
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import BackendFailure, UsageProblem
from trt_workbench.model.narrow_formats import input_ranges
from trt_workbench.model.opened import Model
from trt_workbench.verify.data import within
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified, failed_shapes
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range
from trt_workbench.verify.verdict import far_from_ends, in_words, whole_numbers

ROOT = Path(__file__).parents[3]
IMAGES = "g (float[N,3,8,8] x) => (float[N,3] y) { m = GlobalAveragePool(x) f = Flatten(m) y = MatMul(f, w) }"


@pytest.fixture
def images_model(tmp_path: Path) -> Path:
    """x [N,3,8,8] to y [N,3]."""
    return write_onnx(tmp_path / "images.onnx", IMAGES, {"w": np.eye(3, dtype=np.float32) + 0.3})


def found(model: Path, folder: Path, fault: str = "none", **more: Any) -> Verified:
    folder.mkdir(exist_ok=True)
    return verify(VerifyRequest(model, backend="faulty", options={"fault": fault}, **more), folder)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["negative values", "the last channel"])
def test_images_are_of_both_signs_too(fault: str, images_model: Path, tmp_path: Path) -> None:
    ranges = {"N": Range(1, 2, 3)}
    assert found(images_model, tmp_path / "run", fault, quick=True, ranges=ranges).document["verdict"] == "wrong"


@pytest.mark.long
def test_a_fault_at_a_batch_that_no_rule_names_is_found_and_found_again(images_model: Path, tmp_path: Path) -> None:
    hit = next(seed for seed in range(1, 50) if 11 in found_sizes(images_model, seed))
    result = found(images_model, tmp_path / "run", "only batch 11", seed=hit)
    assert result.document["where"].startswith("only at N=11")
    assert (result.document["sizes_seed"], 11 in result.document["sizes"]["N"]) == (hit, True)


def found_sizes(model: Path, seed: int) -> list[int]:
    from trt_workbench.backends.ort.cpu import OrtCpuBackend
    from trt_workbench.verify.space import cases, model_space

    with OrtCpuBackend().load(model) as session:
        space = model_space(session.inputs, {"x": ("N", 3, 8, 8)}, {})
    return [case.values["N"] for case in cases(space, seed)]


def test_without_a_seed_every_run_draws_other_sizes() -> None:
    seeds = {VerifyRequest(Path("m.onnx")).sizes_seed for _ in range(20)}
    assert len(seeds) == 20
    assert 0 not in seeds
    assert VerifyRequest(Path("m.onnx"), seed=9).sizes_seed == 9


def test_the_range_that_calibration_found_is_drawn(tmp_path: Path) -> None:
    text = """g (float[N,3,4,4] x) => (float[N,3,4,4] y) {
      q = QuantizeLinear(x, scale, zero) d = DequantizeLinear(q, scale, zero) y = Relu(d) }"""
    weights = {"scale": np.float32(2.0), "zero": np.int8(-28)}
    model = Model.open(write_onnx(tmp_path / "qdq.onnx", text, weights))
    ranges = input_ranges(model.proto)
    assert ranges == {"x": (-200.0, 310.0)}
    from trt_workbench.backends.base import TensorSpec

    spec = TensorSpec("x", "float32", (None, 3, 4, 4))
    drawn = random_inputs([spec], {"x": (40, 3, 4, 4)}, 0, "signed", ranges=ranges)["x"]
    assert (drawn.min(axis=(0, 2, 3)) < -290).all()
    assert (drawn.max(axis=(0, 2, 3)) > 290).all()


def test_floats_are_drawn_within_the_users_range_by_channel() -> None:
    rng = np.random.default_rng(0)
    low, high = np.array([-5, 0, 10])[:, None, None], np.array([-4, 1, 20])[:, None, None]
    samples = [
        {"x": rng.uniform(low, high, (1, 3, 9, 9)).astype(np.float32), "ids": np.array([[number, 7]])}
        for number in range(4)
    ]
    drawn = within(samples, samples[2], seed=1)
    assert drawn["ids"] is samples[2]["ids"]
    assert drawn["x"].dtype == np.float32
    for channel, (least, most) in enumerate(((-5, -4), (0, 1), (10, 20))):
        own = drawn["x"][:, channel]
        assert least <= own.min() < own.max() <= most
        assert own.max() - own.min() > 0.8 * (most - least)


@pytest.mark.long
def test_images_are_inputs_as_they_are_of_calibration(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number in range(3):
        picture = np.random.default_rng(number).integers(0, 256, (40, 64, 3), np.uint8)
        cv2.imwrite(str(pictures / f"{number}.png"), picture)
    model = ROOT / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"
    more = {"ranges": {"batch": Range(1, 2, 2)}, "quick": True}
    result = found(model, tmp_path / "run", inputs=(str(pictures),), **more)
    assert result.document["verdict"] == "right"
    assert {row["inputs"] for case in result.document["cases"] for row in case["outputs"]} == {
        "given",
        "given, the next rows",
    }


def test_images_for_what_is_no_detector_are_refused(images_model: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((8, 8, 3), np.uint8))
    with refused(UsageProblem):
        found(images_model, tmp_path / "run", inputs=(str(tmp_path / "a.png"),))


@pytest.mark.parametrize(
    ("metadata", "more", "sizes"),
    [
        ({"task": "classify", "imgsz": "[32, 64]"}, {}, {"h": 32, "w": 64}),
        ({"task": "classify", "imgsz": "[32, 64]"}, {"preparation": Preparation(imgsz=(96, 32))}, {"h": 96, "w": 32}),
        ({"task": "classify", "imgsz": "[32, 64]"}, {"ranges": {"h": Range(64, 64, 64)}}, {"h": 64, "w": 64}),
        ({}, {"ranges": {"h": Range(8, 8, 8)}}, {"h": 8}),
    ],
)
def test_images_have_the_size_that_the_model_says(
    metadata: dict[str, str], more: dict[str, Any], sizes: dict[str, int], tmp_path: Path
) -> None:
    """Vision models run at multiples of their stride alone; other sizes of other models are drawn as ever."""
    nodes = "m = GlobalAveragePool(x) f = Flatten(m) z = MatMul(f, v) y = Softmax<axis=1>(z)"
    text = f"g (float[N,3,h,w] x) => (float[N,12] y) {{ {nodes} }}"
    model = parse_onnx(text, {"v": np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)})
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, tmp_path / "m.onnx")
    cases = found(tmp_path / "m.onnx", tmp_path / "run", quick=True, **more).document["cases"]
    for name, size in sizes.items():
        assert {one["values"][name] for one in cases} == {size}
    assert (len({one["values"]["w"] for one in cases}) == 1) == bool(metadata)


def test_a_family_that_there_is_not_is_refused(tmp_path: Path) -> None:
    model = parse_onnx("g (float[N,3,h,w] x) => (float[N,3] y) { m = GlobalAveragePool(x) y = Flatten(m) }")
    onnx.helper.set_model_props(model, {"imgsz": "64"})
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UsageProblem, match="no detector family called 'yolo8'"):
        found(tmp_path / "m.onnx", tmp_path / "run", quick=True, preparation=Preparation(family="yolo8"))


RNG = np.random.default_rng(0)
WHOLE = {
    "lengths": (
        """g (float[N,T,4] x, int64[N] lengths) => (float[N,3] y) { t = Transpose<perm = [1, 0, 2]>(x)
        n = Cast<to = 6>(lengths) hidden, last = GRU<hidden_size = 3>(t, w, r, , n) y = Squeeze(last, zero) }""",
        {"w": (1, 9, 4), "r": (1, 9, 3)},
    ),
    "ids": (
        "g (int64[N] ids) => (float[N,2] y) { e = Gather(table, ids) y = MatMul(e, v) }",
        {"table": (1000, 8), "v": (8, 2)},
    ),
    "types": (
        """g (int64[N,T] ids, int64[N,T] token_type_ids) => (float[N,T,8] y) {
        a = Gather(table, ids) b = Gather(types, token_type_ids) y = Add(a, b) }""",
        {"table": (1000, 8), "types": (2, 8)},
    ),
    "positions": (
        """g (int64[N,T] ids, int64[N,T] position_ids) => (float[N,T,8] y) {
        a = Gather(table, ids) b = Gather(places, position_ids) y = Add(a, b) }""",
        {"table": (1000, 8), "places": (300, 8)},
    ),
    "frame": ("g (float[N,T,4] x, int64[K] frame) => (float[N,K,4] y) { y = Gather<axis = 1>(x, frame) }", {}),
}  # fmt: skip


def whole(name: str, folder: Path) -> Path:
    text, shapes = WHOLE[name]
    weights = {key: RNG.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    return write_onnx(folder / f"{name}.onnx", text, weights | ({"zero": np.array([0])} if "zero" in text else {}))


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ids", "numbers above 3"),
        ("lengths", "lengths above 3"),
        ("ids", "numbers above 200"),
        ("ids", "the last number"),
        ("types", "types ignored"),
        ("positions", "positions from 0"),
        ("positions", "positions of row 0"),
        ("positions", "numbers above 200"),
        ("frame", "numbers above 3"),
    ],
)
def test_a_fault_of_whole_numbers_is_found(name: str, fault: str, tmp_path: Path) -> None:
    ranges = {} if name == "ids" else {"T": Range(4, 16, 64)}
    model, more = whole(name, tmp_path), {"quick": True, "ranges": {"N": Range(1, 2, 2), **ranges}}
    healthy = found(model, tmp_path / "healthy", **more)
    assert (healthy.document["verdict"], healthy.unproven, failed_shapes(healthy.document)) == ("right", (), ())
    assert found(model, tmp_path / "run", fault, **more).document["verdict"] == "wrong"


def test_a_sequence_of_1_takes_lengths_of_1(tmp_path: Path) -> None:
    result = found(whole("lengths", tmp_path), tmp_path / "run", quick=True)
    assert (result.document["verdict"], result.unproven, failed_shapes(result.document)) == ("right", (), ())
    assert result.document["whole_numbers"] == {"lengths": {"drawn": [1, 64], "takes": [1, 64]}}
    assert result.document["cases_unverified"] == 0


def test_the_reference_is_asked_before_a_backend_whose_failures_are_no_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What neither takes is refused, however the target says so."""
    model = write_onnx(
        tmp_path / "m.onnx", "g (float[N,4] x) => (float[2,2,M] y) { y = Reshape(x, to) }", {"to": [2, 2, -1]}
    )

    def infer(session: Any, inputs: Any) -> Any:
        try:
            return session._inner.run(inputs)
        except UsageProblem as error:
            raise BackendFailure(str(error)) from error

    monkeypatch.setattr(FaultySession, "_infer", infer)
    result = found(model, tmp_path / "run", ranges={"N": Range(1, 2, 3)})
    assert [row["refused"] for row in result.document["cases"]] == [False] * 3
    model = write_onnx(
        tmp_path / "m.onnx", "g (float[N,3] x) => (float[2,2,M] y) { y = Reshape(x, to) }", {"to": [2, 2, -1]}
    )
    result = found(model, tmp_path / "odd", ranges={"N": Range(1, 4, 4)})
    assert [(row["batch"], row["refused"], row["device_failed"]) for row in result.document["cases"]] == [
        (1, True, False), (2, True, False), (3, True, False), (4, False, False),
    ]  # fmt: skip


def test_what_was_not_drawn_near_an_end_is_not_proven() -> None:
    rows = [{"whole_numbers": {"ids": {"drawn": [0, 3], "takes": (0, 999)}, "step": {"drawn": [0, 3], "takes": None}}}]
    numbers = whole_numbers(rows)
    assert far_from_ends(numbers) == ["input ids: only 0 to 3 of 0 to 999 were tried"]
    assert in_words(numbers["step"]) == "0 to 3 (range unknown)"
    rows.append({"whole_numbers": {"ids": {"drawn": [950, 980], "takes": (0, 999)}}})
    assert far_from_ends(whole_numbers(rows)) == []
