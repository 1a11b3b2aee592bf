"""`trtw quantize` as a program."""

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from tests.in_app import trtw
from tests.onnx_text import write_onnx

from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.system.embedded import embedded_model

GENERATOR = np.random.default_rng(0)


def run(*words: object) -> tuple[int, str, str]:
    result = trtw("quantize", *words)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(9):
        cv2.imwrite(str(folder / f"{number}.png"), GENERATOR.integers(0, 256, (48, 64, 3), np.uint8))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = "g (float[n,4] x) => (float[n,3] y) { [p] y = MatMul(x, w) }"
    return write_onnx(tmp_path / "m.onnx", text, {"w": GENERATOR.standard_normal((4, 3)).astype(np.float32)}, 11)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", GENERATOR.standard_normal((9, 4)).astype(np.float32))
    return tmp_path / "rows.npy"


def test_the_embedded_detector_from_images(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    code, out, error = run(embedded_model(), "--to", "int8", "--calibration", pictures)
    assert code == 0, error
    made = tmp_path / "tmp" / "quantize" / f"{embedded_model().stem}.int8.onnx"
    assert f"Written: {made}" in out
    assert f"Evidence: {made.with_suffix('.json')}" in out
    assert "Precision: int8+fp32" in out
    assert "Left as it was: 9 groups: depthwise" in out
    assert "Ranges: by mse from 9 samples of 9, seed 0" in out
    with OrtCpuBackend().load(made) as session:
        assert session.run({"images": np.zeros((1, 3, 320, 320), np.float32)})["output0"].shape == (1, 300, 6)


def test_json_is_the_evidence_alone(model: Path, rows: Path, tmp_path: Path) -> None:
    code, out, error = run(model, "--to", "int8", "--calibration", rows, "-o", tmp_path / "o.onnx", "--json")
    assert code == 0, error
    document = json.loads(out)
    assert (document["to"], document["method"], document["calibration"]["samples"]) == ("int8", "mse", 9)
    assert document["output"] == str(tmp_path / "o.onnx")
    assert json.loads((tmp_path / "o.json").read_text())["ranges"] == document["ranges"]


def test_noise_and_a_raised_operator_set_are_said(model: Path, tmp_path: Path) -> None:
    code, out, error = run(model, "--to", "int8", "--calibration", "random", "-o", tmp_path / "o.onnx")
    assert code == 0, error
    assert "Precision: int8 (not calibrated)" in out
    assert "NOT CALIBRATED" in out
    assert "Operator set: 13 (the model has 11)" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--to", "int8"], "pass --calibration"),
        (["--to", "int9", "--calibration", "random"], "int9"),
        (["--to", "int8", "--calibration", "absent"], "does not exist: absent"),
        (["--to", "int8", "--calibration", "random", "--samples", "1"], "8"),
        (["--to", "int8", "--calibration", "random", "--keep", "q"], "no group 'q'"),
        (["--to", "int8", "--calibration", "random", "--family", "yolox"], "takes one image tensor"),
        (["--to", "fp8", "--calibration", "random", "--method", "entropy"], "for fp8"),
    ],
)
def test_bad_usage_is_one_sentence(model: Path, tmp_path: Path, words: list[str], text: str) -> None:
    code, out, error = run(model, *words, "-o", tmp_path / "o.onnx")
    assert code == 2
    assert text in error
    assert not out
    assert not (tmp_path / "o.onnx").exists()


def test_a_folder_that_cannot_be_written_leaves_nothing(model: Path, rows: Path) -> None:
    code, _, error = run(model, "--to", "int8", "--calibration", rows, "-o", "/proc/made/o.onnx")
    assert code == 2
    assert len(error.strip().splitlines()) == 1


def test_a_model_that_is_quantised_is_refused(model: Path, rows: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.onnx", tmp_path / "2.onnx"
    assert run(model, "--to", "int8", "--calibration", rows, "-o", first)[0] == 0
    code, _, error = run(first, "--to", "int8", "--calibration", rows, "-o", second)
    assert (code, "quantised already" in error, second.exists()) == (2, True, False)
    assert len(onnx.load(first).graph.node) == 5
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
