from pathlib import Path

import pytest
from tests.onnx_text import write_onnx
from tests.unit.backends.small_models import reshaped

from trt_workbench.backends.base import Availability
from trt_workbench.backends.ort import partitions
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.partitions import AssignedGroup, Assignment
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.backends.registry import get_backend
from trt_workbench.engine import native
from trt_workbench.model.partitions import PartitionRequest

TRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"


def test_what_the_runtime_says_counts_and_reasons_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reshaped(tmp_path / "r.onnx")
    groups = (
        AssignedGroup(TRT, (("Sigmoid", "data"), ("Reshape", "flatten"))),
        AssignedGroup(CUDA, (("Unsqueeze", "as_vector"), ("Concat", "new_shape"))),
        AssignedGroup(CPU, (("Shape", "shape_of_x"), ("Gather", "batch_of_x"))),
    )
    monkeypatch.setattr(partitions, "_ask", lambda *_: Assignment(groups))
    for backend in (OrtTrtBackend, OrtCudaBackend):
        monkeypatch.setattr(backend, "availability", lambda _: Availability(ok=True))
    found = get_backend("ort-trt").partitions(PartitionRequest(model))
    assert found.counts() == {CPU: 2, CUDA: 2, TRT: 2}
    by_name = {node.name: node for node in found.nodes}
    assert by_name["data"].subgraph == by_name["flatten"].subgraph
    assert by_name["as_vector"].reason.startswith("unknown")
    on_cuda = get_backend("ort-cuda").partitions(PartitionRequest(model))
    reasons = {node.name: node.reason for node in on_cuda.nodes}
    assert reasons["shape_of_x"].startswith("shape: it computes shapes")


@pytest.mark.usefixtures("doubled_core")
def test_of_a_node_that_tensorrt_leaves_out_its_parser_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "g (float[4] x) => (float[found] y) { [abs] a = Abs(x) [unique] u = Unique(a) [neg] y = Neg(u) }"
    write_onnx(tmp_path / "m.onnx", text)
    groups = (AssignedGroup(TRT, (("Abs", "abs"),)), AssignedGroup(CUDA, (("Unique", "unique"), ("Neg", "neg"))))
    monkeypatch.setattr(partitions, "_ask", lambda *_: Assignment(groups))
    monkeypatch.setattr(OrtTrtBackend, "availability", lambda _: Availability(ok=True))
    found = get_backend("ort-trt").partitions(PartitionRequest(tmp_path / "m.onnx"))
    version = native.load_tensorrt()["version"]
    reasons = {node.name: node.reason for node in found.nodes}
    assert reasons == {
        "abs": "",
        "unique": f"operator: the parser of TensorRT {version} does not import it",
        "neg": "unknown: the runtime does not say why",
    }
    found = get_backend("ort-trt").partitions(PartitionRequest(tmp_path / "m.onnx", exclude=("Neg",)))
    assert found.nodes[2].reason.startswith("excluded: Neg is excluded from TensorRT")
