import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.small_models import reshaped
from tests.unit.backends.test_ort_assignment import assignment_of

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.backend import LoadRequest
from trt_workbench.backends.ort.common import session_config
from trt_workbench.backends.ort.gpu import SESSION_OPTIONS, load_gpu_session, shape_keys
from trt_workbench.backends.ort.partitions import AssignedGroup, Assignment
from trt_workbench.backends.ort.rewrites import assigned_graph, optimised_model
from trt_workbench.core.errors import CheckFailed
from trt_workbench.model.opened import Model
from trt_workbench.model.proto import operator_name
from trt_workbench.model.shape_nodes import shape_nodes

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def plan_of(model: Path) -> LoadRequest:
    """As on a GPU, with the one provider that every machine has: each node is outside the one that was asked for."""
    extra = {name: option.default for name, option in SESSION_OPTIONS.items()}
    return LoadRequest("ort-cuda", Model.open(model), Model.open(model), ((CPU, {}),), (CUDA,), extra)


def transposed(path: Path) -> Path:
    """A Shape behind a Transpose, for which ONNX Runtime puts a Gather, and a Gather of data."""
    graph = """g (float[a,b,c] x) => (float[a,2,c] y, float[a,c,b] zeros) <int64[2] picked = {1, 0}> {
      [turn] t = Transpose<perm = [0, 2, 1]>(x) [data] s = Sigmoid(t)
      [shape] shape = Shape(s) [zeros] zeros = ConstantOfShape(shape)
      [back] back = Transpose<perm = [0, 2, 1]>(s) [pick] y = Gather<axis = 1>(back, picked)
    }"""
    return write_onnx(path, graph)


def test_nodes_that_the_runtime_made_are_judged_by_what_they_compute(tmp_path: Path) -> None:
    model = transposed(tmp_path / "m.onnx")
    graph = onnx.load(model).graph
    names = {node for group in assignment_of(model, "ORT_ENABLE_ALL").groups for node in group.nodes}
    made = [key for key in names if key[0] == "Gather" and key[1] != "pick"]
    assert made, "ONNX Runtime no longer makes a Gather here"
    assert not shape_nodes(graph).intersection(made)
    assignment = assignment_of(model, "ORT_ENABLE_ALL")
    assert shape_keys(ort, plan_of(model), graph, assignment).issuperset(made)
    # the Gather of data is named, the one of the shape is not
    with refused(CheckFailed) as caught:
        load_gpu_session(plan_of(model), SessionOptions())
    assert f"Gather {made[0][1]} on" not in str(caught.value)


def test_names_of_the_file_cost_no_second_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reshaped(tmp_path / "m.onnx")
    monkeypatch.setattr("trt_workbench.backends.ort.gpu.assigned_graph", lambda *_: pytest.fail("loaded again"))
    outside = Assignment((AssignedGroup(CUDA, (("Sigmoid", "data"),)), AssignedGroup(CPU, (("Shape", "shape_of_x"),))))
    assert shape_keys(ort, plan_of(model), onnx.load(model).graph, outside) == shape_nodes(onnx.load(model).graph)


@pytest.mark.parametrize("level", ["disable", "all"])
def test_the_graph_has_the_assignments_names_and_no_large_weights(tmp_path: Path, level: str) -> None:
    graph = "g (float[n,4096] x) => (float[n,1024] y) { [multiply] y = MatMul(x, w) }"
    model = write_onnx(tmp_path / "m.onnx", graph, {"w": np.zeros((4096, 1024), np.float32)})
    document = onnx.load(model)
    onnx.save(document, model, save_as_external_data=True, location="m.data", size_threshold=0)
    read = assigned_graph(ort, model, level)
    assert [node.name for node in read.node] == ["multiply"]
    assert read.ByteSize() < 10_000


def test_a_model_that_the_cpu_cannot_load_has_no_graph(tmp_path: Path) -> None:
    write_onnx(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = com.example.NoSuchOperator(x) }")
    assert assigned_graph(ort, tmp_path / "m.onnx", "all") is None


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "opt"])
@pytest.mark.parametrize("kind", ["logits", "static"])
def test_shape_nodes_of_language_models_are_known_by_the_runtimes_names(
    llm_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, kind: str
) -> None:
    from trt_workbench.llm.export import ExportSettings, exported_graph
    from trt_workbench.model.llm_directory import examine_llm_directory

    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    settings = dataclasses.replace(ExportSettings(), prove=False)
    model = exported_graph(examine_llm_directory(llm_folder(family)), kind, settings).path  # type: ignore[arg-type]
    graph = assigned_graph(ort, model, "all")
    written = {(operator_name(node), node.name) for node in graph.node}
    for level in ("ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"):
        assigned = {node for group in assignment_of(model, level).groups for node in group.nodes}
        assert assigned == written
    named = {(operator_name(node), node.name) for node in onnx.load(model).graph.node}
    made = {key for key in written - named if key[0] == "Gather"}
    # in these two ONNX Runtime writes no such node of its own
    assert made or family in {"gpt2", "opt"}
    keys = shape_nodes(graph)
    assert made <= keys
    # the embedding reads tokens, and nothing with weights is taken for a shape
    embeddings = {key for key in written if key[0] == "Gather" and key not in keys}
    assert embeddings
    assert not {key for key in keys if key[0] in {"Gemm", "LayerNormalization", "Softmax"}}


def wide(path: Path, size: int) -> Path:
    weights = {"w": np.ones((size, size), np.float32)}
    return write_onnx(path, f"g (float[1,{size}] x) => (float[1,{size}] y) {{ y = MatMul(x, w) }}", weights)


def test_a_graph_is_read_without_its_weights(tmp_path: Path) -> None:
    model = wide(tmp_path / "m.onnx", 16)  # of 1 KiB
    read = optimised_model(ort, "all", lambda config: ort.InferenceSession(model, config, providers=[CPU]))
    assert read is not None
    assert [weight.data_location for weight in read.graph.initializer] == [onnx.TensorProto.EXTERNAL]


def _peak_bytes(model: Path, read: bool) -> int:
    """Return how far the memory of a fresh process grows while it makes a session, to read the graph or to run it."""

    def memory(name: str) -> int:
        return 1024 * int(re.findall(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[0])

    def load(config: ort.SessionOptions) -> None:
        ort.InferenceSession(model, config, providers=[CPU])

    before = memory("VmRSS")
    if read:
        optimised_model(ort, "all", load)
    else:
        load(session_config(ort, SessionOptions(threads=1), "all", allow_spinning=False)[0])
    return memory("VmHWM") - before


def test_weights_are_not_packed_for_a_graph_that_is_only_read(tmp_path: Path, processes: Any) -> None:
    model = wide(tmp_path / "m.onnx", 2048)
    with processes.Pool(1, maxtasksperchild=1) as fresh:
        read, run = (fresh.apply(_peak_bytes, (model, read)) for read in (True, False))
    assert read - run < 0.5 * model.stat().st_size
