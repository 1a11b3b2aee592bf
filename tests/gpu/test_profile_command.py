"""`trtw profile` on a real GPU: layers of real engines, two precisions, and kernels by Nsight Compute."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.profile.nsight import NCU, NSYS, Tool, find_tool

pytestmark = pytest.mark.gpu
NODES = {"first_conv", "first_relu", "second_conv", "pool"}
Profiled = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _needs_tensorrt() -> None:
    found = TrtBackend().availability()
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions of 256 channels on images [8, 3, 64, 64], so much work that fp16 wins on a busy GPU, too."""
    rng = np.random.default_rng(7)
    weights = {"w1": (256, 3, 3, 3), "w2": (256, 256, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["images", "w1"], ["c1"], pads=[1, 1, 1, 1], name="first_conv"),
        helper.make_node("Relu", ["c1"], ["r1"], name="first_relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], name="second_conv"),
        helper.make_node("GlobalAveragePool", ["c2"], ["pooled"], name="pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [8, 3, 64, 64])],
        [helper.make_tensor_value_info("pooled", TensorProto.FLOAT, [8, 256, 1, 1])],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 10, name)
            for name, shape in weights.items()
        ],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def profiled(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiled:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))

    def run(*words: object) -> dict[str, Any]:
        given = ["profile", model, "--backend", "trt", *words, "--json"]
        result = CliRunner().invoke(app, [str(word) for word in given], catch_exceptions=False)
        if "ERR_NVGPUCTRPERM" in result.stderr:
            pytest.skip("the GPU's performance counters may not be read here")
        assert result.exit_code == 0, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    return run


def test_every_node_of_the_model_is_in_a_layer_with_a_time(profiled: Profiled) -> None:
    side = profiled()["sides"]["target"]
    timed = [one for one in side["operations"] if one["median_ms"]]
    assert {node for one in timed for node in one["onnx_nodes"]} == NODES
    assert all(one["operator"] for one in timed)
    assert sum(one["share"] for one in timed) == pytest.approx(1)
    assert side["sum_ms"] >= 0.5 * side["own_ms"] > 0


def test_two_precisions_meet_in_the_same_nodes(profiled: Profiled) -> None:
    document = profiled("--against", "fp16")
    sides = document["sides"]
    assert (sides["target"]["precision"], sides["against"]["precision"]) == ("fp32", "fp16")
    for group in document["difference"]:
        assert group["only_in"] is None or not set(group["onnx_nodes"]) & NODES
    types = {kind for one in sides["against"]["operations"] for kind in (*one["input_types"], *one["output_types"])}
    assert "fp16" in types


@pytest.mark.long
@pytest.mark.parametrize("tool", [NCU, NSYS], ids=lambda tool: tool.command)
def test_kernels_belong_to_layers(tool: Tool, profiled: Profiled) -> None:
    try:
        find_tool(tool)
    except ComponentMissing as missing:
        pytest.skip(str(missing))
    kernels = profiled(f"--{tool.command}", "--launches", 8, "--iterations", 2)["sides"]["target"]["kernels"]
    assert kernels
    assert all(kernel["total_ms"] > 0 for kernel in kernels)
    assert {node for kernel in kernels for node in kernel["onnx_nodes"]} & NODES
