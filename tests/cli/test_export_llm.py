"""export-llm through its command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.in_app import stderr_of, trtw
from tests.texts import held

from trt_workbench.model.opsets import NEWEST_OPSET, OLDEST_OPSET

Folders = Callable[[str], Path]


def test_an_export(llm_folder: Folders, tmp_path: Path) -> None:
    result = trtw(
        "export-llm", llm_folder("llama"), "--output", tmp_path / "out", "--graphs", "logits,static", "--tensorrt", "10"
    )
    assert result.exit_code == 0, result.output
    for text in ("Opset 20", "logits.onnx", "static.onnx", "3x11", str(tmp_path / "out")):
        assert text in result.stdout
    assert "Comparing the static graph with PyTorch" in result.stderr


def test_json(llm_folder: Folders, tmp_path: Path) -> None:
    result = trtw("export-llm", llm_folder("gpt2"), "--output", tmp_path / "out", "--json", "--external-data")
    document = json.loads(result.stdout)
    assert document["opset"] == 17
    assert document["graphs"][0]["external_data"] == "logits.onnx.data"
    assert document["source"]["model_type"] == "gpt2"


@pytest.mark.parametrize(
    "options",
    [
        ("--opset", "17", "--tensorrt", "10"),
        ("--tensorrt", "7"),
        ("--graphs", "decoder"),
        ("--opset", str(NEWEST_OPSET + 1)),
        ("--opset", str(OLDEST_OPSET - 1)),
        ("--graphs", "static", "--cache-length", "65"),
        ("--graphs", "logits,cached", "--batch", "2"),
        ("--cache-length", "32"),
    ],
)
def test_bad_options(llm_folder: Folders, tmp_path: Path, options: tuple[str, ...]) -> None:
    held(stderr_of("export-llm", llm_folder("llama"), "--output", tmp_path / "out", *options))
    assert not (tmp_path / "out").exists()


def test_skipping_the_proof(llm_folder: Folders, tmp_path: Path) -> None:
    result = trtw("export-llm", llm_folder("llama"), "--output", tmp_path / "out", "--skip-proof")
    assert result.exit_code == 0, result.output
    assert "not compared" in result.stdout
    assert "Comparing" not in result.stderr


def test_a_hub_name(tmp_path: Path) -> None:
    held(stderr_of("export-llm", "gpt2", "--output", tmp_path / "out"))
