from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from tests.texts import refused
from tests.unit.backends.small_models import linear

from trt_workbench.backends.ort import bound
from trt_workbench.backends.ort.partitions import (
    RECORD_ENTRY,
    AssignedGroup,
    Assignment,
    check_assignment,
    read_assignment,
)
from trt_workbench.core.errors import CheckFailed, ComponentMissing
from trt_workbench.model.shape_nodes import shape_nodes

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
MIXED = Assignment(
    (
        AssignedGroup(CUDA, (("Conv", "a"), ("Relu", "b"))),
        AssignedGroup(CPU, (("NonMaxSuppression", "nms"),)),
        AssignedGroup(CPU, (("Gather", "dim"),)),
    )
)


def assignment_of(model: Path, level: str = "ORT_DISABLE_ALL") -> Assignment:
    config = ort.SessionOptions()
    config.add_session_config_entry(RECORD_ENTRY, "1")
    config.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    return read_assignment(ort.InferenceSession(model, config, providers=[CPU]))


def test_a_shape_computation_on_the_cpu_is_no_fallback_and_data_is() -> None:
    shapes = frozenset({("Gather", "dim")})
    with refused(CheckFailed) as caught:
        check_assignment(MIXED, (CUDA,), shapes, allow_fallback=False, model=Path("m.onnx"))
    assert "dim" not in str(caught.value)
    record = check_assignment(MIXED, (CUDA,), shapes, allow_fallback=True, model=Path("m.onnx"))
    assert record == {
        "nodes_by_provider": {CPU: 2, CUDA: 2},
        "shape_nodes_on_cpu": 1,
        "fallback_nodes": [{"provider": CPU, "operator": "NonMaxSuppression", "name": "nms"}],
        "allow_fallback": True,
    }


def test_a_provider_that_took_nothing_fails() -> None:
    only_shapes = Assignment((AssignedGroup(CPU, (("Gather", "dim"),)),))
    with refused(CheckFailed):
        check_assignment(only_shapes, (CUDA,), frozenset({("Gather", "dim")}), allow_fallback=False, model=Path("m"))


def test_a_length_that_grows_by_a_size_is_no_data() -> None:
    """The state of a streaming encoder: ONNX Runtime keeps this arithmetic on the CPU, where the size is."""
    graph = onnx.parser.parse_graph("""
        grow (float[B, T, 8] chunk, int64[B] filled, int64[B, T] tokens) => (int64[B] next, bool[B, T] mask) {
            shape = Shape <start = 1, end = 2> (chunk)
            capacity = Constant <value_int = 70> ()
            longer = Add (filled, shape)
            next = Min (longer, capacity)
            twice = Add (filled, filled)
            moved = Add (tokens, shape)
            mask = Less (tokens, longer)
        }
    """)
    for node in graph.node:
        node.name = node.output[0]
    assert {name for _, name in shape_nodes(graph)} == {"shape", "capacity", "longer", "next"}


@pytest.mark.parametrize(
    ("name", "use"),
    [("get_provider_graph_assignment_info", read_assignment), ("get_input_memory_infos", bound._read_on_host)],
)
def test_a_method_that_an_older_onnx_runtime_lacks_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, use: Callable[[ort.InferenceSession], object]
) -> None:
    """As 1.21 does, which a chosen stack may hold."""
    session = ort.InferenceSession(linear(tmp_path / "m.onnx"), providers=[CPU])
    monkeypatch.delattr(next(kind for kind in type(session).__mro__ if name in vars(kind)), name)
    with refused(ComponentMissing):
        use(session)
