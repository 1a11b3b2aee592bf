"""`trtw quantize` as a program."""

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.workspace import embedded_model
from trt_workbench.model.low_precision.evidence import SearchEvidence, SearchPoint

GENERATOR = np.random.default_rng(0)


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


@pytest.mark.long
def test_the_embedded_detector_from_images(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    out = stdout_of("quantize", embedded_model(), "--to", "int8", "--calibration", pictures)
    made = tmp_path / "tmp" / "quantize" / f"{embedded_model().stem}.int8.onnx"
    assert f"Written: {made}" in out
    assert f"Evidence: {made.with_suffix('.json')}" in out
    assert "Precision: int8+fp32" in out
    assert "Unchanged: 9 groups (depthwise)" in out
    assert "Ranges: by mse from 9 samples of 9, seed 0" in out
    with OrtCpuBackend().load(made) as session:
        assert session.run({"images": np.zeros((1, 3, 320, 320), np.float32)})["output0"].shape == (1, 300, 6)


def test_json_is_the_evidence_alone(model: Path, rows: Path, tmp_path: Path) -> None:
    document = json_of("quantize", model, "--to", "int8", "--calibration", rows, "-o", tmp_path / "o.onnx")
    assert (document["to"], document["method"], document["calibration"]["samples"]) == ("int8", "mse", 9)
    assert document["output"] == str(tmp_path / "o.onnx")
    assert json.loads((tmp_path / "o.json").read_text())["ranges"] == document["ranges"]


def test_noise_and_a_raised_operator_set_are_said(model: Path, tmp_path: Path) -> None:
    printed = stdout_of("quantize", model, "--to", "int8", "--calibration", "random", "-o", tmp_path / "o.onnx")
    assert "Precision: int8 (not calibrated)" in printed
    assert "NOT CALIBRATED" in printed
    assert "Operator set: 13 (the model has 11)" in printed


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "int8"],
        ["--to", "int9", "--calibration", "random"],
        ["--to", "int8", "--calibration", "absent"],
        ["--to", "int8", "--calibration", "random", "--samples", "1"],
        ["--to", "int8", "--calibration", "random", "--keep", "q"],
        ["--to", "int8", "--calibration", "random", "--family", "yolox"],
        ["--to", "fp8", "--calibration", "random", "--method", "entropy"],
    ],
)
def test_bad_usage_is_one_sentence(model: Path, tmp_path: Path, words: list[str]) -> None:
    held(stderr_of("quantize", model, *words, "-o", tmp_path / "o.onnx"))
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize(("command", "to"), [("quantize", "int8"), ("sensitivity", "int8"), ("sensitivity", "fp16")])
@pytest.mark.parametrize("tail", ["y = Twist(p)", "y = Reshape(p, three)"])
def test_what_the_runtime_refuses_is_named_as_the_user_knows_it(
    rows: Path, tmp_path: Path, command: str, to: str, tail: str
) -> None:
    """It runs copies, with further outputs, in a folder that is gone by then."""
    text = f"g (float[n,4] x) => (float[n,k] y) {{ [p] p = MatMul(x, w) {tail} }}"
    weights = {"w": np.ones((4, 5), np.float32), "three": np.array([3, -1])}
    model = write_onnx(tmp_path / "m.onnx", text, weights)
    said = stderr_of(command, model, "--to", to, "--calibration", rows, "--output", tmp_path / "o.onnx")
    held(said)
    assert said.rstrip().endswith(f": {model}")
    assert ".onnx" not in said.replace(str(model), "")


def test_a_folder_that_cannot_be_written_leaves_nothing(model: Path, rows: Path) -> None:
    said = stderr_of("quantize", model, "--to", "int8", "--calibration", rows, "-o", "/proc/made/o.onnx")
    assert len(said.strip().splitlines()) == 1


def test_a_model_that_is_quantised_is_refused(model: Path, rows: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.onnx", tmp_path / "2.onnx"
    words = ("--to", "int8", "--calibration", rows, "-o")
    stdout_of("quantize", model, *words, first)
    held(stderr_of("quantize", first, *words, second))
    assert not second.exists()
    assert len(onnx.load(first).graph.node) == 5
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("ends", "samples", "proven"),
    [((-0.001, 0.004), 29, False), ((-0.001, 0.004), 50, True), ((-0.001, 0.0051), 50, False)],
)
def test_a_search_claims_what_its_samples_prove(ends: tuple[float, float], samples: int, *, proven: bool) -> None:
    """The interval that is printed decides, of 30 samples or more."""
    point = SearchPoint(kept=0, low_macs=1, value=0.3, loss=0, loss_ci95=ends, seen_loss=0)
    found = SearchEvidence(
        bound=0.005, figure="AP", unit="images", samples=samples, baseline=0.3, is_error=False,
        weighed_by="arithmetic", chosen=point, curve=(point,), seed=0,
    )  # fmt: skip
    assert ("too few images to prove a loss of at most 0.005" in found.words) is not proven
