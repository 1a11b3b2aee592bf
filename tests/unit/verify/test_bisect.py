"""A fault in a graph is found to the nodes that make it, and the part that is written out shows it by itself."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attention_model import attention_model
from tests.graph_fault_backend import GraphFaultBackend

from trt_workbench.backends import registry
from trt_workbench.verify.bisect import Bisected, bisect
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.reproduction import write_bisected
from trt_workbench.verify.run import verify

Search = Callable[..., Bisected]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry._BACKENDS, "graph-fault", registry._Entry("tests.graph_fault_backend", "GraphFaultBackend")
    )
    monkeypatch.setattr(GraphFaultBackend, "loaded", 0)


@pytest.fixture
def search(tmp_path: Path) -> Search:
    model = attention_model(tmp_path / "model.onnx")

    def run(fault: str, **more: object) -> Bisected:
        request = VerifyRequest(target=model, backend="graph-fault", options={"fault": fault}, quick=True)
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "failures", ignore_errors=True)
        found = bisect(request, verify(request, folder), folder, **more)  # type: ignore[arg-type]
        write_bisected(request, found, folder)
        return found

    return run


@pytest.mark.parametrize(
    ("fault", "operators", "form", "hides"),
    [
        ("single", ["Softmax"], "folded", False),
        ("masked attention", ["Add", "Softmax", "MatMul"], "folded", True),
        ("transposed reshape", ["Reshape", "Transpose"], "folded", True),
        ("computed shape", ["Reshape"], "fixed", False),
        ("only dynamic", ["Softmax"], "dynamic", False),
    ],
)
def test_the_fault_is_found_to_its_pattern(
    fault: str, operators: list[str], form: str, hides: bool, search: Search
) -> None:
    found = search(fault)
    assert found
    assert list(found.operators) == operators
    assert (found.form, found.marking_hides, found.complete) == (form, hides, True)
    assert found.case == "N=2"
    assert found.trials <= 100
