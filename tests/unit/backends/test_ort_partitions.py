from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.onnx_text import write_onnx
from tests.unit.backends.small_models import reshaped

from trt_workbench.backends.base import Availability
from trt_workbench.backends.ort import partitions
from trt_workbench.backends.ort.cuda import OrtCudaBackend
from trt_workbench.backends.ort.partitions import AssignedGroup, Assignment
from trt_workbench.backends.ort.trt import OrtTrtBackend
from trt_workbench.backends.registry import get_backend
from trt_workbench.core.errors import DeviceFailure
from trt_workbench.engine import native
from trt_workbench.model.partitions import PartitionRequest

TRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_onnx(
        tmp_path / "m.onnx", "g (float[4] x) => (float[found] y) { [abs] a = Abs(x) [unique] y = Unique(a) }"
    )


def parser(refuses: Callable[[list[str]], list[str]]) -> Callable[[str], Any]:
    return lambda _: refuses


def test_the_parser_is_asked_where_it_can_be(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_tensorrt", lambda: {"version": "11.1.0"})
    monkeypatch.setattr(native, "require", parser(lambda names: [name for name in names if name == "Abs"]))
    found = get_backend("ort-trt").partitions(PartitionRequest(model, predict=True))
    assert found.source == "predicted"
    assert "parser of TensorRT 11.1.0" in found.basis
    # it refuses Abs and takes Unique, whatever the documents say
    assert [(node.operator, node.provider) for node in found.nodes] == [("Abs", CUDA), ("Unique", TRT)]


def test_without_the_parser_the_documents_decide(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, Any]:
        raise DeviceFailure("no GPU")

    monkeypatch.setattr(native, "load_tensorrt", fail)
    found = get_backend("ort-trt").partitions(PartitionRequest(model, predict=True))
    assert "neither TensorRT nor ONNX Runtime was asked" in found.basis
    assert [(node.operator, node.provider) for node in found.nodes] == [("Abs", TRT), ("Unique", CUDA)]


def test_strings_are_not_predicted_as_tensorrts(tmp_path: Path) -> None:
    text = "g (string[4] x) => (string[4] y) { [first] a = Identity(x) [second] y = Identity(a) }"
    write_onnx(tmp_path / "m.onnx", text)
    found = get_backend("ort-trt").partitions(PartitionRequest(tmp_path / "m.onnx", predict=True))
    assert {(node.provider, node.reason) for node in found.nodes} == {
        (CUDA, "dtype: TensorRT has no strings (release 10.15)")
    }
    assert found.subgraphs[0].inputs == ({"name": "x", "dtype": "string", "shape": [4], "size_bytes": None},)


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
    assert found.source == "assigned"
    assert found.counts() == {CPU: 2, CUDA: 2, TRT: 2}
    by_name = {node.name: node for node in found.nodes}
    assert by_name["data"].subgraph == by_name["flatten"].subgraph
    assert by_name["as_vector"].reason.startswith("unknown")
    on_cuda = get_backend("ort-cuda").partitions(PartitionRequest(model))
    reasons = {node.name: node.reason for node in on_cuda.nodes}
    assert reasons["shape_of_x"].startswith("shape: it computes shapes")


def test_a_parser_that_was_asked_is_named_with_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its word on operators counts, that of the table on what it does not say."""
    text = "g (float[4] x) => (float[4] y, float[4] z) { [one] y = Abs(x) [two] z = Bernoulli(x) }"
    write_onnx(tmp_path / "m.onnx", text)
    parser = partitions._Parser("8.6.1", frozenset({"Abs"}))
    monkeypatch.setattr(partitions, "_asked_parser", lambda _: parser)
    found = get_backend("ort-trt").partitions(PartitionRequest(tmp_path / "m.onnx", predict=True))
    reason = "operator: TensorRT's parser here does not import it (release 8.6.1)"
    assert [node.reason for node in found.nodes] == [reason, ""]
    assert found.basis.endswith("operators by the parser of TensorRT 8.6.1 here; ONNX Runtime was not asked")
