"""Calibration data: which samples are taken, and which data are refused."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workspace import embedded_model
from trt_workbench.model.opened import Model
from trt_workbench.quantize.data import calibration_data, data_hash
from trt_workbench.quantize.settings import CalibrationSettings

GENERATOR = np.random.default_rng(0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = "g (float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }"
    return write_onnx(tmp_path / "m.onnx", text, {"w": np.ones((4, 3), np.float32)})


def settings(data: object, **more: Any) -> CalibrationSettings:
    return CalibrationSettings(calibration=str(data), **more)


def arrays(path: Path, rows: int, columns: int = 4, dtype: Any = np.float32) -> Path:
    np.save(path, np.repeat(np.arange(rows, dtype=dtype)[:, None], columns, axis=1))
    return path


def test_samples_are_drawn_from_all_files_by_seed(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in "abc":
        arrays(data / f"{name}.npy", 20)
    first, again, other = (
        calibration_data(Model.open(model), settings(data, samples=12, seed=seed)) for seed in (1, 1, 2)
    )
    assert first.names == again.names != other.names
    assert (len(first.names), first.available, first.random) == (12, 60, False)
    assert {Path(name.split()[0]).stem for name in first.names} == set("abc")
    for name, sample in zip(first.names, first.read(), strict=True):
        assert sample["x"].tolist() == [float(name.split()[-1])] * 4


def test_more_than_there_are_means_all(model: Path, tmp_path: Path) -> None:
    assert len(calibration_data(Model.open(model), settings(arrays(tmp_path / "a.npy", 9))).names) == 9


@pytest.mark.parametrize("rows", [7, 1, 0])
def test_too_few_are_refused(model: Path, tmp_path: Path, rows: int) -> None:
    with refused(UsageProblem):
        calibration_data(Model.open(model), settings(arrays(tmp_path / "a.npy", rows)))


@pytest.mark.parametrize(
    ("shape", "output", "axis"),
    [
        ("9,n,4", "9,n,4", 1),
        ("t,batch_size,4", "t,batch_size,4", 1),
        ("t,m,4", "m,4", 1),  # the output begins with it, and has no time
        ("t,4,m", "m,4", 2),
        ("1,batch,4", "batch,4", 1),
        ("n,t,4", "n,t,4", None),
        ("8,t,4", "8,t,4", None),  # of a fixed batch
        ("1,n,4", "1,n,4", None),  # points of a cloud
        ("1,s,4", "s,4", None),  # a tagger of one text, whose output has lost the 1
        ("m,t,4", "t,m,4", None),
        ("n,4", "n,4", None),
    ],
)
def test_a_batch_that_is_not_first_is_refused(tmp_path: Path, shape: str, output: str, axis: int | None) -> None:
    """Rows of such an array are steps in time, each of all samples."""
    path = write_onnx(tmp_path / "m.onnx", f"g (float[{shape}] x) => (float[{output}] y) {{ y = Relu(x) }}")
    data = tmp_path / "a.npy"
    np.save(data, np.ones([int(dim) if dim in "489" else 9 for dim in shape.split(",")], np.float32))
    if axis is None:
        assert calibration_data(Model.open(path), settings(data)).available >= 8
        return
    with refused(UsageProblem):
        calibration_data(Model.open(path), settings(data))
    assert calibration_data(Model.open(path), settings("random")).random


@pytest.mark.parametrize(("columns", "dtype"), [(5, np.float32), (4, np.float64)])
def test_samples_that_do_not_fit_are_refused(model: Path, tmp_path: Path, columns: int, dtype: Any) -> None:
    with refused(UsageProblem):
        calibration_data(Model.open(model), settings(arrays(tmp_path / "a.npy", 9, columns, dtype)))


def test_no_data_is_no_calibration(model: Path) -> None:
    with refused(UsageProblem):
        calibration_data(Model.open(model), CalibrationSettings())


def images(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        cv2.imwrite(str(folder / f"{number}.png"), GENERATOR.integers(0, 256, (40, 50, 3), np.uint8))
    return folder


def test_images_are_prepared_as_for_inference(tmp_path: Path) -> None:
    data = calibration_data(Model.open(embedded_model()), settings(images(tmp_path / "i", 8)))
    sample = next(data.read())["images"]
    assert sample.shape == (3, 320, 320)
    assert 0 <= sample.min() < sample.max() <= 1


def test_images_are_for_models_of_one_input(tmp_path: Path) -> None:
    text = "g (float[1,3,8,8] a, float[1,3,8,8] b) => (float[1,3,8,8] y) { y = Add(a, b) }"
    with refused(UsageProblem):
        calibration_data(Model.open(write_onnx(tmp_path / "two.onnx", text)), settings(images(tmp_path / "i", 8)))


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (255.0, False), (1 / 255, False), (-1.0, False)])
def test_arrays_of_another_normalisation_are_refused(tmp_path: Path, factor: float, fits: bool) -> None:
    batch = GENERATOR.random((8, 3, 320, 320), np.float32) * np.float32(factor)
    np.save(tmp_path / "a.npy", batch)
    if fits:
        assert len(calibration_data(Model.open(embedded_model()), settings(tmp_path / "a.npy")).names) == 8
    else:
        with refused(UsageProblem):
            calibration_data(Model.open(embedded_model()), settings(tmp_path / "a.npy"))


def test_noise_has_the_range_of_pixels(model: Path) -> None:
    for of, name, shape in ((embedded_model(), "images", (3, 320, 320)), (model, "x", (4,))):
        data = calibration_data(Model.open(of), settings("random", samples=9, seed=3))
        assert (data.random, data.available, len(data.names)) == (True, 0, 9)
        first, second, *_ = (sample[name] for sample in data.read())
        assert first.shape == shape
        assert not np.array_equal(first, second)
        np.testing.assert_array_equal(first, next(data.read())[name])
        assert first.dtype == np.float32


def test_a_text_becomes_windows_of_tokens(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the environment that has transformers, too
    folder = Path("models/tiny-lm").resolve()
    text = (
        "g (int64[n,s] input_ids, int64[n,s] attention_mask) => (int64[n,s] y) { y = Add(input_ids, attention_mask) }"
    )
    model = write_onnx(tmp_path / "m.onnx", text)
    asked = settings(folder / "held-out.txt", tokenizer=folder, window=16, samples=10)
    data = calibration_data(Model.open(model), asked)
    samples = list(data.read())
    assert len(samples) == 10 < data.available
    for sample in samples:
        assert sample["input_ids"].shape == sample["attention_mask"].shape == (16,)
        assert sample["attention_mask"].tolist() == [1] * 16
    with refused(UsageProblem):
        calibration_data(
            Model.open(write_onnx(tmp_path / "x.onnx", "g (float[1] x) => (float[1] y) { y = Abs(x) }")), asked
        )


def test_noise_for_an_input_without_a_batch_is_refused(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "scalar.onnx", "g (float x) => (float y) { y = Neg(x) }", {})
    with refused(UsageProblem):
        calibration_data(Model.open(model), CalibrationSettings(calibration="random"))


@pytest.mark.parametrize("data", ["random", "a.npy"])
def test_a_model_of_no_rows_takes_no_sample(tmp_path: Path, data: str) -> None:
    text = "g (float[0,4] x) => (float[0,3] y) { y = MatMul(x, w) }"
    empty = write_onnx(tmp_path / "empty.onnx", text, {"w": np.ones((4, 3), np.float32)})
    with refused(UsageProblem):
        calibration_data(Model.open(empty), settings(data if data == "random" else arrays(tmp_path / data, 20)))


def test_noise_for_images_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    text = "g (float[N,3,H,W] images) => (float[N,10,6] output0) { output0 = Identity(w) }"
    path = write_onnx(tmp_path / "d.onnx", text, {"w": np.ones((1, 10, 6), np.float32)})
    asked = settings("random", family="yolov10", imgsz=(2**31 - 32, 2**31 - 32))
    with refused(UsageProblem):
        calibration_data(Model.open(path), asked)


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_lines_are_the_samples_and_targets_that_they_name(model: Path, tmp_path: Path) -> None:
    rows = GENERATOR.standard_normal((10, 4)).astype(np.float32)
    masks = GENERATOR.integers(0, 2**16, (10, 3, 5), np.uint16)
    for place, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        np.save(tmp_path / f"{place}.npy", row)
        cv2.imwrite(str(tmp_path / f"{place}.png"), mask)
    made = [
        {
            "x": f"{place}.npy" if place % 2 else row.tolist(),
            "mask": f"{place}.png",
            "text": f"word {place}",
            "n": place,
        }
        for place, row in enumerate(rows)
    ]
    data = calibration_data(Model.open(model), settings(lines(tmp_path / "a.jsonl", *made)))
    assert np.array_equal([one["x"] for one in data.read()], rows)
    targets = data.targets(None)
    assert all(np.array_equal(one["mask"], mask) for one, mask in zip(targets, masks, strict=True))
    assert [(str(one["text"]), int(one["n"])) for one in targets] == [(f"word {at}", at) for at in range(10)]
    before = data_hash(model, settings(tmp_path / "a.jsonl"))
    cv2.imwrite(str(tmp_path / "3.png"), masks[4])
    assert data_hash(model, settings(tmp_path / "a.jsonl")) != before


@pytest.mark.parametrize("family", [{}, {"normalize": "imagenet", "resize": "stretch", "channel_order": "bgr"}])
def test_images_of_lines_are_prepared_as_for_inference(tmp_path: Path, family: dict[str, str]) -> None:
    """Those of a model of no known family as the user says."""
    text = "g (float[n,3,8,16] x) => (float[n,8,16] y) { y = ReduceMean<axes=[1], keepdims=0>(x) }"
    path = write_onnx(tmp_path / "m.onnx", text) if family else embedded_model()
    folder, model = images(tmp_path / "i", 8), Model.open(path)
    data = lines(folder / "a.jsonl", *({"file_name": f"{place}.png", "target": place} for place in range(8)))
    found = [next(iter(one.values())) for one in calibration_data(model, settings(data, **family)).read()]
    assert len(found) == 8
    if not family:
        alone = calibration_data(model, settings(folder))
        assert all(np.array_equal(*pair) for pair in zip(found, (one["images"] for one in alone.read()), strict=True))
        return
    pixels = cv2.resize(cv2.imread(str(folder / "3.png")), (16, 8), interpolation=cv2.INTER_LINEAR) / 255
    mean, std = np.array([0.406, 0.456, 0.485]), np.array([0.225, 0.224, 0.229])
    assert found[3] == pytest.approx(((pixels - mean) / std).transpose(2, 0, 1), abs=0.02)
    with refused(UsageProblem):
        calibration_data(model, settings(data, normalize="imagenet"))


@pytest.mark.parametrize(
    "line",
    [
        {"x": "absent.npy", "t": 1},
        {"y": [1, 2, 3, 4], "t": 1},
        {"x": [1, 2, 3], "t": 1},
        {"x": "text", "t": 1},
        {"x": [1, 2, 3, 4]},
        {"x": [1, 2, 3, 4], "other": 1},
        {"x": [1, 2, 3, 4], "t": [1, [2, 3]]},
        {"x": [1, 2, 3, 4], "t": "broken.png"},
        {"x": [1e999, 2, 3, 4], "t": 1},
        [1, 2],
    ],
)
def test_a_line_that_does_not_fit_is_named(model: Path, tmp_path: Path, line: Any) -> None:
    (tmp_path / "broken.png").write_text("no image")
    rows = [{"x": [1, 2, 3, 4], "t": 1}] * 8
    with refused(UsageProblem):
        data = calibration_data(Model.open(model), settings(lines(tmp_path / "a.jsonl", *rows, line)))
        list(data.read())
        data.targets(None)
