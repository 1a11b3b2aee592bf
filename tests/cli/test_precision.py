"""What a model computes in, as every command tells it: read from the graph or the engine, whatever was asked for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from tests.in_app import trtw
from tests.in_onnxruntime import Samples
from typer.testing import Result

from trt_workbench.core.records import read_records

pytestmark = pytest.mark.usefixtures("blank_pictures")

FP16, FP32, INT8 = (f"Row major linear {name}" for name in ("FP16", "FP32", "Int8 format"))
MIXED = "int8+fp16 (67 % of layers int8, 33 % fp16)"


def make(coco: Any, kind: str) -> None:
    """Put a convolution that changes nothing before the detector, and bring the model into a precision."""
    coco.write_model()
    model = onnx.load(coco.model)
    eye = numpy_helper.from_array(np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "eye")
    model.graph.initializer.append(eye)
    model.graph.node.insert(0, helper.make_node("Conv", ["images", "eye"], ["same"], name="same"))
    model.graph.node[1].input[0] = "same"
    if kind == "fp16":
        metadata = model.metadata_props
        model = convert_float_to_float16(model, keep_io_types=True)
        assert model.metadata_props == metadata
    onnx.save(model, coco.model)
    if kind == "int8":
        shape = (1, 3, coco.side, coco.side)
        images = Samples([{"images": np.full(shape, level, np.float32)} for level in (0, 0.5, 1)])
        quantize_static(coco.model, coco.model, images, op_types_to_quantize=["Conv"])
        quantised = onnx.load(coco.model)
        helper.set_model_props(quantised, {entry.key: entry.value for entry in model.metadata_props})
        onnx.save(quantised, coco.model)


def run(*words: object) -> Result:
    result = trtw(*words)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.long(but=1)
@pytest.mark.parametrize("kind", ["fp32", "fp16", "int8"])
def test_eval_coco_and_its_reports(coco: Any, kind: str) -> None:
    make(coco, kind)
    result = coco.invoke()
    assert result.exit_code == 0, result.output
    label = {"fp16": "fp16 (simulated)"}.get(kind, kind)
    assert f"Precision: {label} (requested: fp32)" in result.stdout
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert metrics["AP"] == pytest.approx(1.0)
    ran = metrics["precision_ran"]
    source = "graph" if kind == "fp16" else "optimised graph"
    assert (ran["label"], ran["shares"], ran["source"]) == (label, {kind: 1.0}, source)
    # times of what is simulated say nothing about it
    assert (metrics["latency_ms"] is None, metrics["images_per_s"] is None) == (kind == "fp16",) * 2
    assert metrics["provenance"]["precision_ran"] == ran
    assert metrics["settings"]["precision"] == "fp32"
    assert (
        f"It computes in {label}, read from the {source}; fp32 was requested."
        in (coco.output / "report.html").read_text()
    )
    run("report", coco.output, "--output", coco.root / "overview")
    assert f"| model.onnx | ort-cpu | {label} |" in (coco.root / "overview" / "overview.md").read_text()


@pytest.mark.parametrize("backend", ["torch:fp32", "torch:bf16", "torch:fp16"])
def test_a_backend_that_holds_the_graph_in_another_type(coco: Any, backend: str) -> None:
    pytest.importorskip("torch")
    make(coco, "fp32")
    name, precision = backend.split(":")
    result = coco.invoke("--no-report", "--json", "--backend", name, "--precision", precision, "--conf", "0.01")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["precision_ran"]["label"] == precision


def layers(path: Path, *inputs: str) -> str:
    found = [{"Name": f"l{i}", "LayerType": "Conv", "Inputs": [{"Format/Datatype": t}]} for i, t in enumerate(inputs)]
    path.write_text(json.dumps({"Layers": found}))
    return str(path)


@pytest.mark.long(but=1)
@pytest.mark.usefixtures("doubled_core")
@pytest.mark.parametrize(
    ("told", "label", "text"),
    [
        ((INT8, INT8, FP16), "int8+fp16", MIXED),
        ((FP32,), "fp32", "fp32"),
        (None, "fp16 or fp32, not reported", "fp16 or fp32, not reported (no layers to judge by)"),
    ],
)
def test_an_engine_says_what_its_layers_compute_in(
    coco: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: tuple[str, ...] | None,
    label: str,
    text: str,
) -> None:
    if told:
        monkeypatch.setenv("TRTW_DOUBLE_LAYERS", layers(tmp_path / "layers.json", *told))
    monkeypatch.setenv("TRTW_DOUBLE_VERSION", "8.6.0")  # where fp16 is a permission, not a type of the graph
    result = coco.invoke("--backend", "trt", "--precision", "fp16")
    assert result.exit_code == 0, result.output
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert (metrics["precision_ran"]["label"], metrics["precision_ran"]["text"]) == (label, text)
    assert metrics["settings"]["precision"] == "fp16"
    assert f"Precision: {text}" in result.stdout
    directory = tmp_path / "infer"
    words = ("--backend", "trt", "--precision", "fp16", "--no-bench", "--output", directory)
    assert f"Precision: {text}" in run("infer-engine", coco.model, *words).stdout
    assert json.loads((directory / "metrics.json").read_text())["provenance"]["precision_ran"]["label"] == label


def test_bench_its_report_and_the_overview(coco: Any, tmp_path: Path) -> None:
    files = {}
    for kind in ("fp32", "fp16", "int8"):
        make(coco, kind)
        files[kind] = coco.model.rename(tmp_path / f"{kind}.onnx")
    config, directory = tmp_path / "bench.yaml", tmp_path / "run"
    config.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, slices: 2}\n"
        f"models: {{float: {{path: {files['fp32']}}}, half: {{path: {files['fp16']}}}, "
        f"quantised: {{path: {files['int8']}}}}}\n"
        "runtimes: [{backend: ort-cpu}]\nscenarios: {s: {kind: arrays}}\n"
    )
    said = trtw("bench", config, "--output", directory)
    assert said.exit_code == 1  # for the point that is refused
    shown = said.stdout
    found = {record.model: record for record in read_records(directory / "records.jsonl")}
    for model, kind in (("float", "fp32"), ("quantised", "int8")):
        assert found[model].provenance["precision_ran"]["label"] == kind
        assert found[model].precision == "fp32"  # what was asked for
        assert found[model].runtime == "ort-cpu"
        assert kind in shown
    assert found["half"].status == "failed"
    assert "It computes in fp16 (simulated): with the format's values, in wider floats." in str(found["half"].error)
    run("report", directory, "--output", tmp_path / "overview")
    for page in (directory / "report.md", tmp_path / "overview" / "overview.md"):
        assert "| ort-cpu | fp16" not in page.read_text()
        assert "| ort-cpu | int8 |" in page.read_text()
    for page in (directory / "report.html", tmp_path / "overview" / "overview.html"):
        assert '<td class="text">fp16' not in page.read_text()
        assert '<td class="text">int8</td>' in page.read_text()


def test_profile_and_its_report(coco: Any, tmp_path: Path) -> None:
    make(coco, "int8")
    directory = tmp_path / "run"
    words = ("--backend", "ort-cpu", "--iterations", 3, "--shape", "images:1x3x32x32")
    run("profile", coco.model, *words, "--output", directory)
    target = json.loads((directory / "run.json").read_text())["sides"]["target"]
    assert target["precision_ran"]["label"] == "int8"
    assert "model.onnx (ort-cpu, int8)" in (directory / "report.html").read_text()
