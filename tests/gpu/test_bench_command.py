"""`trtw bench` on a real GPU: every point's outputs are compared, and what others do to the card is recorded."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.backends.registry import availability
from trt_workbench.backends.trt.backend import TrtBackend
from trt_workbench.core.records import read_records

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (TrtBackend().availability(), availability("ort-cpu")):
        if not found.ok:
            pytest.skip(f"{found.reason} {found.fix}")
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


def write_network(path: Path, side: int | tuple[str, str] = 16) -> Path:
    """Two convolutions and a mean of images [batch, 3, side, side], or of sides that are named."""
    sides = (side, side) if isinstance(side, int) else side
    draw = np.random.default_rng(0)
    weights = {"first": draw.standard_normal((8, 3, 3, 3)) / 5, "second": draw.standard_normal((8, 8, 3, 3)) / 8}
    nodes = [
        helper.make_node("Conv", ["images", "first"], ["inner"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["inner"], ["positive"]),
        helper.make_node("Conv", ["positive", "second"], ["maps"], kernel_shape=[3, 3]),
        helper.make_node("GlobalAveragePool", ["maps"], ["means"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, *sides])
    means = helper.make_tensor_value_info("means", TensorProto.FLOAT, ["batch", 8, 1, 1])
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", [images], [means], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_outputs_are_those_of_the_reference_at_every_batch_and_precision(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    # TensorRT 8.6 builds a whole detector for minutes
    options = "{optimization_level: 0, tactic_sources: [[-CUBLAS, -CUBLAS_LT, -CUDNN]]}"
    config.write_text(
        "repetitions: 3\nmeasure: {warmup_ms: 20, duration_s: 0.1}\n"
        f"models: {{net: {{path: {write_network(tmp_path / 'net.onnx')}}}}}\n"
        f"runtimes: [{{backend: trt, precision: [fp32, fp16], options: {options}}}, "
        f"{{backend: trt, name: trt-two-slots, concurrency: 2, options: {options}}}]\n"
        "scenarios:\n"
        "  arrays: {kind: arrays, batch: [1, 2, 3]}\n"
    )
    run = tmp_path / "run"
    result = CliRunner().invoke(app, ["bench", str(config), "--output", str(run), "--json"])
    records = read_records(run / "records.jsonl")
    found = {(one.work, one.runtime): one.outputs for one in records}
    disturbed = [[one.work, one.runtime, one.repetition, one.unstable, one.telemetry] for one in records]
    # shown where it fails: how far each point is from the reference, and what disturbed it
    seen = json.dumps([{" on ".join(key): outputs for key, outputs in found.items()}, disturbed], indent=1)
    assert result.exit_code == 0, f"{result.output}\n{seen}"
    assert {one.status for one in records} == {"ok"}
    assert len(found) == 3 * 3
    assert {outputs["state"] for outputs in found.values() if outputs} <= {"matched", "far"}, seen
    assert all(
        outputs["state"] == "matched" for (_, runtime), outputs in found.items() if outputs and "16" not in runtime
    )
    for one in records:
        assert one.verification is not None
        assert one.verification["verdict"].startswith("right"), one.verification
        assert one.verification["allowed"] is False
        assert one.telemetry is not None
        assert one.telemetry["cpu_wait_share"] is None or 0 <= one.telemetry["cpu_wait_share"] <= 1
        assert one.telemetry["gpu_other_processes"] is None or one.telemetry["gpu_other_processes"] >= 0
        assert one.p50_interval_ms is not None
        assert one.latency_ms is not None
        assert one.p50_interval_ms[0] <= one.latency_ms["p50"] * 1.05


def test_the_size_of_the_images_is_one_that_the_engine_was_built_for(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    model = write_network(tmp_path / "net.onnx", ("height", "width"))
    options = "{optimization_level: 0, tactic_sources: [[-CUBLAS, -CUBLAS_LT, -CUDNN]]}"
    config.write_text(
        f"repetitions: 1\nmeasure: {{warmup_ms: 5, duration_s: 0.02}}\nmodels: {{net: {{path: {model}}}}}\n"
        f"runtimes: [{{backend: trt, options: {options}}}]\n"
        "scenarios: {arrays: {kind: arrays, batch: [1, 2], imgsz: [24, 16]}}\n"
    )
    result = CliRunner().invoke(app, ["bench", str(config), "--output", str(tmp_path / "run"), "--json"])
    assert result.exit_code == 0, result.output
    assert {one.status for one in read_records(tmp_path / "run" / "records.jsonl")} == {"ok"}


def test_chunks_of_streams_are_measured_beside_ort_cuda(tmp_path: Path) -> None:
    """One engine for four streams: states on the device, its closed loop compared with that on the processor."""
    if not (found := availability("ort-cuda")).ok:
        pytest.skip(f"{found.reason} {found.fix}")
    config = tmp_path / "bench.yaml"
    config.write_text(
        "repetitions: 3\nmeasure: {warmup_ms: 50, duration_s: 0.2}\n"
        "models: {encoder: {embedded: streaming-encoder}}\n"
        "runtimes: [{backend: trt}, {backend: ort-cuda}]\n"
        "scenarios: {chunks: {kind: stream, batch: 4}}\n"
    )
    run = tmp_path / "run"
    result = CliRunner().invoke(app, ["bench", str(config), "--output", str(run), "--json"])
    records = read_records(run / "records.jsonl")
    seen = json.dumps([[one.runtime, one.status, one.error, one.outputs, one.split_ms] for one in records], indent=1)
    assert result.exit_code == 0, f"{result.output}\n{seen}"
    assert {one.status for one in records} == {"ok"}, seen
    assert {one.outputs["state"] for one in records if one.outputs} == {"matched"}, seen
    parts = {one.runtime: set(one.split_ms or {}) for one in records}
    assert parts["trt"] == {"host_to_device_ms", "compute_ms", "device_to_host_ms", "host_ms"}, seen
    assert parts["ort-cuda"] == {"inference_ms", "state_ms", "host_ms"}, seen
