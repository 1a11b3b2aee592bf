"""Models whose inner values leave the range of fp16: every command that scores them fails, and names the tensor."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.in_app import trtw
from tests.onnx_text import write_onnx
from tests.streaming_models import contract_of, convolution, write_contract

from trt_workbench.model.low_precision.cast import cast_model

pytestmark = pytest.mark.usefixtures("blank_pictures")

GROWN = "g (float[N,8] x) => (float[N,4] y) {{ [up] a = MatMul(x, w1) [bend] b = {}(a) [down] y = MatMul(b, w2) }}"


@pytest.fixture
def grown(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """A model of products, the first of which passes 65504 on the samples, and not on small inputs."""
    draw = np.random.default_rng(1)
    weights = {"w1": draw.normal(size=(8, 8)) * 4e2, "w2": draw.normal(size=(8, 4)) * 1e-3}
    np.save(tmp_path / "x.npy", 100 * draw.normal(size=(32, 8)).astype(np.float32))

    def make(operator: str) -> tuple[Path, Path]:
        arrays = {name: one.astype(np.float32) for name, one in weights.items()}
        return write_onnx(tmp_path / "m.onnx", GROWN.format(operator), arrays), tmp_path / "x.npy"

    return make


def decide(model: Path, data: Path, folder: Path, *more: object) -> tuple[Any, dict[str, Any]]:
    result = trtw(
        "decide", model, "--data", data, "--score", "cosine", "--precisions", "fp32,fp16", "--backends", "ort-cpu",
        "--repetitions", 0, "--max-loss", 0.05, *more, "--output", folder,
    )  # fmt: skip
    return result, json.loads((folder / "decision.json").read_text())


def test_decide_fails_what_overflows(grown: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    result, decision = decide(*grown("Relu"), tmp_path / "run")
    assert result.exit_code == 1
    assert "beyond fp16's 65504, a (MatMul up) ranges from " in " ".join(result.output.split())
    row = decision["rows"][1]
    assert (row["state"], row["simulated"], row["score"]) == ("failed", False, None)
    assert "a (MatMul up) ranges from" in row["reason"]


def test_decide_notes_what_is_infinite_inside(grown: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    result, decision = decide(*grown("Sigmoid"), tmp_path / "run")
    assert result.exit_code == 0, result.output
    row = decision["rows"][1]
    assert (row["state"], row["simulated"]) == ("scored", True)
    (note,) = [one for one in decision["notes"] if "internal values are not" in one]
    assert note.startswith(
        "fp16 on ort-cpu: Outputs are finite, but internal values are not: beyond fp16's 65504, a (MatMul"
    )


def test_eval_coco_names_the_layer(coco: Any) -> None:
    coco.write_model()
    model = onnx.load(coco.model)
    large = numpy_helper.from_array(np.eye(3, dtype=np.float16).reshape(3, 3, 1, 1) * np.float16(60000), "large")
    model.graph.initializer.extend([large, numpy_helper.from_array(np.float16(0.5), "half")])
    nodes = [
        helper.make_node("Cast", ["images"], ["low"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Conv", ["low", "large"], ["grown"], name="grow"),
        helper.make_node("Add", ["grown", "grown"], ["twice"], name="twice"),
        helper.make_node("Div", ["twice", "twice"], ["one"], name="divide"),
        helper.make_node("Cast", ["one"], ["same"], to=onnx.TensorProto.FLOAT),
    ]
    model.graph.node[0].input[0] = "same"
    for place, node in enumerate(nodes):
        model.graph.node.insert(place, node)
    onnx.save(model, coco.model)
    result = coco.invoke()
    assert result.exit_code == 1
    assert "beyond fp16's 65504, twice (Add twice) ranges from 0 to" in " ".join(result.stderr.split())


def test_eval_llm_names_the_layer(llm_folder: Callable[[str], Path], tmp_path: Path) -> None:
    torch = pytest.importorskip("safetensors.torch")
    folder, text = tmp_path / "llm", Path(__file__)
    folder.mkdir()
    for file in llm_folder("llama").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    weights = torch.load_file(folder / "model.safetensors")
    for name in weights:
        weights[name] *= 3e4 if "up_proj" in name else 1 / 3e4 if "down_proj" in name else 1
        weights[name] *= 100 if "gate_proj" in name else 1
    torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    result = trtw(
        "eval-llm", folder, "--text", text, "--limit", 100, "--backends", "torch,torch:fp16,ort-cpu,ort-cpu:fp16",
        "--no-report", "--device", "cpu", "--output", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    rows = {(row["backend"], row["precision"]): row for row in metrics["backends"]}
    assert rows["ort-cpu", "fp32"]["failure"] is None
    assert rows["torch", "fp16"]["perplexity"] is None
    assert rows["ort-cpu", "fp16"]["perplexity"] is None
    assert "beyond fp16's 65504, /model/model/layers.0/mlp/" in rows["ort-cpu", "fp16"]["failure"]


@pytest.mark.long
def test_verify_names_the_layer(grown: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    model, data = grown("Relu")
    assert trtw("quantize", model, "--to", "fp16", "-o", tmp_path / "h.onnx").exit_code == 0
    np.savez(tmp_path / "x.npz", x=np.load(data))
    words = ("--backend", "ort-cpu", "--quick", "--inputs", tmp_path / "x.npz", "--output", tmp_path / "run")
    result = trtw("verify", tmp_path / "h.onnx", *words)
    assert result.exit_code == 1
    assert "H.ONNX: WRONG ON ORT-CPU (FP16, SIMULATED)" in result.stdout.upper()
    assert "beyond fp16's 65504, a (MatMul up) ranges from" in " ".join(result.stderr.split())


def test_quantize_writes_nothing_that_overflows_on_random_inputs(tmp_path: Path) -> None:
    weights = {"w1": np.full((8, 8), 6e4, np.float32), "w2": np.full((8, 4), 1e-3, np.float32)}
    model = write_onnx(tmp_path / "m.onnx", GROWN.format("Relu"), weights)
    result = trtw("quantize", model, "--to", "fp16", "-o", tmp_path / "h.onnx")
    assert result.exit_code == 1
    assert "beyond fp16's 65504, a (MatMul up) ranges from" in " ".join(result.stderr.split())
    assert not (tmp_path / "h.onnx").exists()


def test_infer_engine_names_the_layer(grown: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    model, data = grown("Relu")
    assert trtw("quantize", model, "--to", "fp16", "-o", tmp_path / "h.onnx").exit_code == 0
    words = (
        "infer-engine",
        tmp_path / "h.onnx",
        "--backend",
        "ort-cpu",
        "-i",
        f"x={data}",
        "--output",
        tmp_path / "run",
    )
    result = trtw(*words, "--check-finite")
    assert result.exit_code == 1
    assert "beyond fp16's 65504, a (MatMul up) ranges from" in " ".join(result.stderr.split())
    assert "Not timed: the formats are simulated" in " ".join(result.stderr.split())
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["benchmark"], metrics["latency_ms"], metrics["first_run_ms"]) == (None, None, None)


def test_eval_stream_names_the_layer(tmp_path: Path) -> None:
    grown = """huge = Constant<value_float = 30000.0>() tiny = Constant<value_float = 0.001>() a = Mul(whole, huge)
    [up] b = Mul(a, huge) c = Conv(b, w) y = Mul(c, tiny)"""
    plain = convolution(tmp_path, ("y = Conv(whole, w)", grown))
    contract = write_contract(tmp_path / "contract.json", contract_of("convolution"))
    # quantize itself refuses what leaves the range on random inputs
    onnx.save(cast_model(onnx.load(plain), "fp16").model, tmp_path / "h.onnx")
    words = ("--contract", contract, "--backend", "ort-cpu", "--chunks", 4, "--output", tmp_path / "run")
    result = trtw("eval-stream", tmp_path / "h.onnx", "--model", plain, *words)
    assert result.exit_code == 1, result.output
    lanes = json.loads((tmp_path / "run" / "metrics.json").read_text())["lanes"]
    (lane,) = [one for one in lanes if one["mode"] == "closed-loop"]
    assert (lane["precision_ran"]["label"], lane["latency_ms"], lane["first_call_ms"]) == ("fp16 (simulated)", {}, None)
    (gate,) = [one for one in lane["gates"] if one["gate"] == "finite"]
    assert "beyond fp16's 65504, b (Mul up) ranges from" in gate["text"]
    assert "simulated" in result.stdout


def test_verify_names_the_first_tensor_beyond_the_range(
    grown: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    model, data = grown("Relu")
    words = ("--backend", "torch", "--precision", "fp16", "--quick", "--inputs", data, "--output", tmp_path / "run")
    result = trtw("verify", model, *words)
    assert result.exit_code == 1
    document = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert all("beyond fp16's 65504, a (MatMul up) ranges from " in one for one in document["unproven"])
    assert document["verdict"] == "undecided"
