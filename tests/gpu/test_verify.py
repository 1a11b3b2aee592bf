"""`verify` on TensorRT: the step graphs that TensorRT 8.6 gets wrong are found, the product's form of them is right."""

import json
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
from tests.fault_patterns import vit_block

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.device_arrays import uploader
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.core.environment import installed_packages
from trt_workbench.engine import native
from trt_workbench.engine.manifest import read_manifest
from trt_workbench.verify.isolation import verified_apart
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.outcome import Verified
from trt_workbench.verify.run import verify
from trt_workbench.verify.settings import Range

pytestmark = pytest.mark.gpu
SLOTS = 16


@pytest.fixture(autouse=True)
def _tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = TrtBackend().availability()
    if not found.ok:
        pytest.skip(f"{found.reason} {found.fix}")
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def quick_request(model: Path, precision: str = "fp32") -> VerifyRequest:
    return VerifyRequest(target=model, precision=precision, options=fast(), quick=True)


def verified(model: Path, precision: str = "fp32") -> Verified:
    folder = model.parent / "run"
    folder.mkdir()
    return verify(quick_request(model, precision), folder)


def fast() -> dict[str, Any]:
    """Options for short builds: cuBLAS and cuDNN take seconds to load, and neither fault nor its absence needs them."""
    known = set(native.require("option_names")()["tactic_sources"]) & {"cublas", "cublas_lt", "cudnn"}
    return {"optimization_level": 0, "tactic_sources": [f"-{name}" for name in sorted(known)]}


def step_graph(llm_folder: Callable[[str], Path], family: str, path: Path, batch: int | None = 2) -> Path:
    """Export the graph for single tokens of a small random model; None leaves the batch dynamic."""
    from trt_workbench.backends.torch.llm_model import load_causal_lm
    from trt_workbench.llm.graph import export_graph
    from trt_workbench.model.llm_directory import examine_llm_directory

    model: Any = load_causal_lm(examine_llm_directory(llm_folder(family)))
    export_graph(model, "step", path, cache_length=SLOTS, batch=batch)
    return path


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_step_graphs_with_a_mask_for_each_row_are_found_wrong(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.load_tensorrt()["version"].startswith("8.6"):
        pytest.skip("the fault is known of TensorRT 8.6")
    from trt_workbench.llm import graphs

    # as before the product's way around: a mask [B,1,1,K] instead of one for all
    monkeypatch.setattr(graphs, "_mask_of_all", graphs._mask)
    folder = tmp_path / "run"
    folder.mkdir()
    found = verified_apart(quick_request(step_graph(llm_folder, family, tmp_path / "step.onnx")), folder)
    assert found.document["verdict"] == "wrong"
    assert any("row 1 of 2 is wrong, the others right" in text for text in found.failures), found.failures


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_the_fault_of_step_graphs_is_bisected_to_a_few_nodes(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.load_tensorrt()["version"].startswith("8.6"):
        pytest.skip("the fault is known of TensorRT 8.6")
    from trt_workbench.llm import graphs

    monkeypatch.setattr(graphs, "_mask_of_all", graphs._mask)
    model = step_graph(llm_folder, family, tmp_path / "step.onnx")
    code, document = command(model, "--bisect", "--bisect-seconds", "400")
    assert code == 1
    found, folder = document["bisect"], model.parent / "run" / "bisect"
    report = (folder / "report.md").read_text() if found["nodes"] else found["reason"]
    print(json.dumps(found, indent=2))  # noqa: T201 - what is left of a search that was cut off
    assert found["nodes"], (found, report)
    assert len(found["nodes"]) <= 10, (found, report)
    if found["crash"]:
        return  # a script that crashes proves no difference
    expected = arrays(folder / "expected")
    for there, is_right in ((arrays(folder / "actual"), False), (on_cpu(folder / "minimal.onnx"), True)):
        apart = {
            name: float(np.abs(there[name].astype(float) - want.astype(float)).max()) for name, want in expected.items()
        }
        assert (max(apart.values()) < 1e-3) == is_right, (apart, report)
    if installed_packages().get("tensorrt", "").startswith("8.6"):
        ran = subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True, check=False)
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert "largest difference" in ran.stdout


def command(model: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run `trtw verify` in a process of its own, as wrong engines can kill the CUDA context of theirs."""
    options = [f"{name}={json.dumps(value)}" for name, value in fast().items()]
    program = [sys.executable, "-c", "from trt_workbench.main import main; main()", "verify", str(model), "--quick"]
    program += [word for option in options for word in ("--option", option)]
    program += ["--output", str(model.parent / "run"), "--json", *words]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode in (0, 1), (ran.returncode, ran.stderr[-3000:])
    assert ran.stdout, ran.stderr[-3000:]
    return ran.returncode, json.loads(ran.stdout)


def on_cpu(model: Path) -> dict[str, Any]:
    inputs = arrays(model.parent / "inputs")
    with OrtCpuBackend().load(model) as session:
        return dict(session.run({spec.name: inputs[spec.name].astype(spec.dtype) for spec in session.inputs}))


def arrays(folder: Path) -> dict[str, Any]:
    return {unquote(file.stem): np.load(file) for file in folder.glob("*.npy")}


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_step_graphs_as_the_product_writes_them_are_right(
    family: str, llm_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    found = verified(step_graph(llm_folder, family, tmp_path / "step.onnx"))
    assert found.failures == ()
    assert found.document["verdict"] == "right"


@pytest.mark.parametrize("family", ["llama", "opt"])
@pytest.mark.parametrize("batch", [2, None])
def test_step_graphs_that_are_wrong_are_fixed(
    family: str,
    batch: int | None,
    llm_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not native.load_tensorrt()["version"].startswith("8.6"):
        pytest.skip("the fault is known of TensorRT 8.6")
    from trt_workbench.llm import graphs

    monkeypatch.setattr(graphs, "_mask_of_all", graphs._mask)
    model = step_graph(llm_folder, family, tmp_path / "step.onnx", batch)
    dims = () if batch else ("--dim", "batch=1:4:8")
    code, document = command(model, *dims, "--fix")
    if batch is None and code == 0 and "fix" not in document:
        pytest.skip("TensorRT is right with a dynamic batch")
    assert document["verdict"] == "wrong"
    print(json.dumps(document["fix"], indent=2))  # noqa: T201 - which ways are right is what a person wants to know
    assert code == 0, document["fix"]
    plan = Path(document["directory"], "fix", "step-fixed.plan")
    manifest = read_manifest(plan)
    assert manifest is not None
    assert manifest.way_around is not None
    assert manifest.way_around.name == document["fix"]["chosen"]
    rng = np.random.default_rng(7)
    with TrtBackend().load(plan, SessionOptions()) as engine, OrtCpuBackend().load(model) as reference:
        assert {spec.name for spec in engine.outputs} == {spec.name for spec in reference.outputs}
        for size in (batch,) if batch else range(1, 9):
            for start in (0, 5, SLOTS - 1):
                inputs = {
                    spec.name: rng.standard_normal([dim or size for dim in spec.shape]).astype(np.float32)
                    for spec in reference.inputs
                    if spec.dtype == "float32"
                }
                inputs["input_ids"] = rng.integers(0, 300, (size, 1))
                inputs["start"] = np.array([start])
                want = reference.run(inputs)
                got = engine.run({spec.name: inputs[spec.name].astype(spec.dtype) for spec in engine.inputs})
                for name, array in want.items():
                    np.testing.assert_allclose(got[name], array, atol=2e-3, rtol=2e-3, err_msg=f"{name} at {size}")
                tokens = got["logits"].argmax(-1)[..., None]
                chosen = np.take_along_axis(want["logits"], tokens, -1)[..., 0]
                np.testing.assert_allclose(chosen, want["logits"].max(-1), atol=2e-3)  # the same, or a tie


def test_rows_are_split_on_the_device(tmp_path: Path) -> None:
    model = tmp_path / "block.onnx"
    vit_block(model)
    extra = {**fast(), "max_batch": 2}
    x = np.random.default_rng(0).standard_normal((5, 17, 64)).astype(np.float32)
    with TrtBackend().load(model, SessionOptions(extra={**extra, "rows": 2})) as engine:
        (found,) = engine.run({"x": x}).values()
        assert engine.record()["rows"] == 2
    with OrtCpuBackend().load(model) as reference:
        (want,) = reference.run({"x": x}).values()
    np.testing.assert_allclose(found, want, atol=1e-3)


def test_an_fp16_engine_of_a_vision_transformers_block_is_right_within_fp16(tmp_path: Path) -> None:
    vit_block(tmp_path / "block.onnx")
    found = verified(tmp_path / "block.onnx", "fp16")
    assert found.failures == ()
    assert found.document["verdict"] in ("right", "right within fp16")  # as TensorRT may choose kernels of fp32


def test_every_other_way_to_run_an_engine_agrees(tmp_path: Path) -> None:
    path = loop(tmp_path / "loop.onnx")
    folder = tmp_path / "run"
    folder.mkdir()
    options = {**fast(), "state": {"h_next": "h"}}
    found = verify(VerifyRequest(target=path, options=options), folder)
    assert found.failures == ()
    assert found.unproven == ()
    assert found.document["verdict"] == "right"
    ways = {way["way"]: way for way in found.document["ways"]}
    assert {way["reason"] for way in ways.values()} == {""}
    device = "arrays on the device" if uploader(0) else "outputs on the device"
    assert set(ways) == {
        "a second session",
        "4 calls at once",
        "without a CUDA graph",
        "transfers outside of the graph",
        device,
        "state on the device",
    }
    assert {one["output"] for one in ways[device]["findings"]} == {"y", "h_next"}
    assert {one["output"] for one in ways["state on the device"]["findings"]} == {"y"}


def test_every_profile_of_an_engine_is_verified_beside_a_record(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    vit_block(path)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    ranges = {"N": Range(1, 2, 3)}
    recorded = verify(VerifyRequest(path, backend="ort-cpu", ranges=ranges, quick=True, record=True), first)
    assert recorded.failures == ()
    profiles = ["x:1x17x64/1x17x64/2x17x64", "x:2x17x64/3x17x64/3x17x64"]
    options = {**fast(), "profiles": profiles}
    found = verify(VerifyRequest(target=path, reference=str(first), options=options, quick=True), second)
    assert found.failures == ()
    assert found.document["reference"] == "record of ort-cpu"
    assert {(case["batch"], case["profile"]) for case in found.document["cases"]} == {(1, 0), (2, 0), (2, 1), (3, 1)}
    assert {case["verdict"] for case in found.document["cases"]} == {"right"}


def loop(path: Path) -> Path:
    """x and h [2,64] to y = x w + h and h_next = tanh(y) [2,64]."""
    weights = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32) / 8
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "h"], ["y"]),
        helper.make_node("Tanh", ["y"], ["h_next"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 64]) for n in ("x", "h", "y", "h_next")]
    graph = helper.make_graph(nodes, "loop", values[:2], values[2:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
