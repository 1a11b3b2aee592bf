"""`trtw bench MODEL`: the matrix of one model file, without a configuration."""

from pathlib import Path

import pytest
from tests.in_app import json_of, stderr_of, trtw
from tests.onnx_text import write_onnx

TWICE = "twice (float[batch, side] x) => (float[batch, side] y) { y = Add(x, x) }"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx(tmp_path_factory.mktemp("model") / "my twice.onnx", TWICE)


def points(*words: object) -> list[str]:
    found: list[str] = json_of("bench", *words, "--dry-run")
    return found


def test_backends_precisions_and_sizes_are_the_matrix(model: Path) -> None:
    words = ("--backends", "ort-cpu,torch", "--precisions", "fp32,bf16", "--batch", "1,8", "--dim", "side=4")
    labels = {(label.split("/")[1].split()[1], label.split("/")[2]) for label in points(model, *words)}
    assert labels == {(batch, one) for batch in ("b1", "b8") for one in ("ort-cpu", "torch", "torch-bf16")}


def test_a_precision_that_a_backend_refuses_is_said(model: Path) -> None:
    result = trtw("bench", model, "--backends", "ort-cpu,torch", "--precisions", "fp16", "--dim", "side=4", "--dry-run")
    assert result.exit_code == 0
    assert "note: Backend ort-cpu runs a model only in the precision of its export" in result.stderr
    assert "ort-cpu" in stderr_of("bench", model, "--backends", "ort-cpu", "--precisions", "fp16")


def test_backends_that_nobody_named_are_left_out_where_they_cannot_serve() -> None:
    result = trtw("bench", "shapes-yolov10", "--only", "*ort-cpu", "--dry-run")
    assert result.stdout.split() == ["arrays/shapes-yolov10", "b1/ort-cpu"]
    assert "trt" in trtw("bench", "shapes-yolov10", "--dry-run").stdout


@pytest.mark.parametrize("words", [["--batch", "0"], ["--batch", "1,x"], ["--dim", "side=0"], ["--backends", ","]])
def test_a_size_or_a_name_that_is_none_is_refused(model: Path, words: list[str]) -> None:
    assert words[0] in stderr_of("bench", model, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backends", "ort-cpu,tort"], "There is no backend called 'tort'; did you mean trt or torch?"),
        (["--backends", "ort-cpu", "--dim", "sied=4"], "The model has no dynamic dimension sied; its inputs: x "),
        (["--backends", "ort-cpu"], "The size of dimension side of input x float32 [?, ?] is unknown; set it"),
        (["--backends", "ort-cpu", "--precisions", "fp32,fp17"], "There is no precision 'fp17'; did you mean fp16"),
        (["--backends", "ort-cpu", "--precisions", "fp32,fp17,fp31"], "There is no precision 'fp17'"),  # the first one
        (["--backends", "ort-cpu", "--precisions", "fp32,fp31,fp17"], "There is no precision 'fp31'"),
    ],
)
def test_a_wrong_name_is_refused_next_to_right_ones(model: Path, words: list[str], said: str) -> None:
    """It was a note, and the rest was measured with exit code 0."""
    assert said in stderr_of("bench", model, *words, "--dry-run")


def test_a_configuration_says_its_matrix_itself() -> None:
    assert "Leave out --backends" in stderr_of("bench", "smoke", "--batch", "2")
