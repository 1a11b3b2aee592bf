"""`trtw partitions` as a program."""

import json
from collections.abc import Callable
from pathlib import Path

import onnxruntime as ort
import pytest
from tests.in_app import json_of, stderr_of, stdout_of
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import held

TRT, CPU = "TensorrtExecutionProvider", "CPUExecutionProvider"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Conv, Relu, then a Unique and a Mul; nodes without names."""
    import numpy as np

    text = "g (float[1,1,8,8] x) => (float[found] y) { c = Conv(x, w) r = Relu(c) u = Unique(r) y = Mul(u, two) }"
    weights = {"w": np.ones((2, 1, 3, 3), np.float32), "two": np.array(2, np.float32)}
    return write_onnx(tmp_path / "m.onnx", text, weights)


def test_the_runtime_is_asked(model: Path, tmp_path: Path) -> None:
    document = json_of("partitions", model, "--backend", "ort-cpu", "--output", tmp_path / "run")
    assert document["nodes_by_provider"] == {CPU: 4}
    assert document["fallen_out"] == []
    assert [part["nodes"] for part in document["subgraphs"]] == [4]
    assert json.loads((tmp_path / "run" / "partitions.json").read_text())["nodes"] == document["nodes"]
    assert document["subgraphs"][0]["outputs"][0]["name"] == "y"


def test_for_people_there_is_a_table(model: Path, tmp_path: Path) -> None:
    printed = stdout_of("partitions", model, "--backend", "ort-cpu", "--output", tmp_path / "run")
    assert printed.startswith("CPUExecutionProvider (onnxruntime ")
    assert "Unique" in printed
    assert "Run directory:" in printed


@pytest.mark.skipif(TRT in ort.get_available_providers(), reason="this ONNX Runtime has the TensorRT provider")
def test_without_the_provider_the_error_names_the_library(model: Path, gpus: Callable[..., None]) -> None:
    gpus("9.0")
    held(stderr_of("partitions", model, code=3))


@pytest.mark.parametrize(
    "words",
    [
        ["--backend", "trt"],
        ["--backend", "ort-cpu", "--exclude", "Relu"],
        ["--backend", "ort-cuda", "--min-subgraph-size", "5"],
        ["--exclude", "Rellu"],
    ],
)
def test_what_does_not_fit_is_refused(model: Path, words: list[str]) -> None:
    held(stderr_of("partitions", model, *words))


@pytest.mark.parametrize("external", [False, True])
def test_nodes_without_names_keep_their_weights_wherever_these_are(tmp_path: Path, external: bool) -> None:
    import numpy as np
    import onnx

    made = parse_onnx("g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }", {"w": np.ones((64, 64), np.float32)})
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=external, location="w.bin")
    document = json_of("partitions", tmp_path / "m.onnx", "--backend", "ort-cpu", "--output", tmp_path / "run")
    assert document["nodes_by_provider"] == {CPU: 1}
