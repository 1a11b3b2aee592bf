"""`verify` on TensorRT: the step graphs that TensorRT 8.6 gets wrong are found, the product's form of them is right."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort_cpu import OrtCpuBackend
from trt_workbench.backends.trt import TrtBackend
from trt_workbench.engine import native
from trt_workbench.system.environment import installed_packages
from trt_workbench.verify.bisect import bisect
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.reproduction import write_bisected
from trt_workbench.verify.run import Verified, verify

pytestmark = pytest.mark.gpu
SLOTS = 16


@pytest.fixture(autouse=True)
def _tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = TrtBackend().availability()
    if not found.ok:
        pytest.skip(f"{found.reason} {found.mend}")
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def quick_request(model: Path, precision: str = "fp32") -> VerifyRequest:
    # cuBLAS and cuDNN take seconds to load, and neither the fault nor its absence needs them
    known = set(native.require("option_names")()["tactic_sources"]) & {"cublas", "cublas_lt", "cudnn"}
    fast = {"optimization_level": 0, "tactic_sources": [f"-{name}" for name in sorted(known)]}
    return VerifyRequest(target=model, precision=precision, options=fast, quick=True)


def verified(model: Path, precision: str = "fp32") -> Verified:
    folder = model.parent / "run"
    folder.mkdir()
    return verify(quick_request(model, precision), folder)


def step_graph(llm_folder: Callable[[str], Path], family: str, path: Path) -> Path:
    """Export the graph for single tokens of a small random model, for a batch of 2."""
    from trt_workbench.onnxtools.export_llm import export_graph
    from trt_workbench.onnxtools.export_llm_model import load_causal_lm
    from trt_workbench.onnxtools.llm_directory import examine_llm_directory

    model: Any = load_causal_lm(examine_llm_directory(llm_folder(family)))
    export_graph(model, "step", path, cache_length=SLOTS, batch=2)
    return path


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_step_graphs_with_a_mask_for_each_row_are_found_wrong(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.load_tensorrt()["version"].startswith("8.6"):
        pytest.skip("the fault is known of TensorRT 8.6")
    from trt_workbench.onnxtools import export_llm_graphs as graphs

    # as before the product's way around: a mask [B,1,1,K] instead of one for all
    monkeypatch.setattr(graphs, "_mask_of_all", graphs._mask)
    found = verified(step_graph(llm_folder, family, tmp_path / "step.onnx"))
    assert found.document["verdict"] == "wrong"
    assert any("row 1 of 2 is wrong, the others right" in text for text in found.failures), found.failures


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_the_fault_of_step_graphs_is_bisected_to_a_few_nodes(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.load_tensorrt()["version"].startswith("8.6"):
        pytest.skip("the fault is known of TensorRT 8.6")
    from trt_workbench.onnxtools import export_llm_graphs as graphs

    monkeypatch.setattr(graphs, "_mask_of_all", graphs._mask)
    model = step_graph(llm_folder, family, tmp_path / "step.onnx")
    request, run = quick_request(model), tmp_path / "run"
    found = bisect(request, verified(model), run, seconds=400)
    write_bisected(request, found, run)
    report = (run / "bisect" / "report.md").read_text() if found.nodes else found.reason
    assert 1 <= len(found.nodes) <= 10, (found, report)
    assert found.complete
    folder = run / "bisect"
    for backend, options, is_right in ((TrtBackend(), request.options, False), (OrtCpuBackend(), {}, True)):
        with backend.load(folder / "minimal.onnx", SessionOptions(extra=options)) as session:
            inputs = arrays(folder / "inputs")
            outputs = session.run({spec.name: inputs[spec.name].astype(spec.dtype) for spec in session.inputs})
        apart = {name: float(np.abs(outputs[name] - want).max()) for name, want in arrays(folder / "expected").items()}
        assert (max(apart.values()) < 1e-3) == is_right, (backend.name, apart, report)
    if installed_packages().get("tensorrt", "").startswith("8.6"):
        ran = subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True, check=False)
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert "largest difference" in ran.stdout


def arrays(folder: Path) -> dict[str, Any]:
    return {unquote(file.stem): np.load(file) for file in folder.glob("*.npy")}


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_step_graphs_as_the_product_writes_them_are_right(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    found = verified(step_graph(llm_folder, family, tmp_path / "step.onnx"))
    assert found.failures == ()
    assert found.document["verdict"] == "right"


def test_an_fp16_engine_of_a_vision_transformers_block_is_right_within_fp16(tmp_path: Path) -> None:
    found = verified(vit_block(tmp_path / "block.onnx"), "fp16")
    assert found.failures == ()
    assert found.document["verdict"] == "right within fp16"


def vit_block(path: Path, tokens: int = 10, width: int = 64, heads: int = 4) -> Path:
    """x [N,T,C] through attention and two linear layers, each after a layer norm and added to its input."""
    rng = np.random.default_rng(3)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(value: Any, dtype: Any = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(constants)}"))
        return constants[-1].name

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [f"t{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def linear(x: str, fan_in: int, fan_out: int) -> str:
        weights = constant(rng.standard_normal((fan_in, fan_out)) / np.sqrt(fan_in))
        return node("Add", node("MatMul", x, weights), constant(rng.standard_normal(fan_out) / 10))

    def norm(x: str) -> str:
        centred = node("Sub", x, node("ReduceMean", x, axes=[-1]))
        variance = node("ReduceMean", node("Mul", centred, centred), axes=[-1])
        return node("Div", centred, node("Sqrt", node("Add", variance, constant(1e-5))))

    def of_heads(x: str, perm: list[int]) -> str:
        shape = constant([0, 0, heads, width // heads], np.int64)
        return node("Transpose", node("Reshape", linear(x, width, width), shape), perm=perm)

    x = norm("x")
    scores = node("MatMul", of_heads(x, [0, 2, 1, 3]), of_heads(x, [0, 2, 3, 1]))
    share = node("Softmax", node("Mul", scores, constant((width // heads) ** -0.5)), axis=-1)
    mixed = node("Transpose", node("MatMul", share, of_heads(x, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    x = node("Add", "x", linear(node("Reshape", mixed, constant([0, 0, width], np.int64)), width, width))
    wide = node("Relu", linear(norm(x), width, 2 * width))
    nodes.append(helper.make_node("Add", [x, linear(wide, 2 * width, width)], ["y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", tokens, width]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "block", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
