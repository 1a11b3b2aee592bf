import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.unit.backends.bound_sessions import CopyingSession, bound, plain

from trt_workbench.backends import ort_slot
from trt_workbench.backends.pinned import PageableHost, PinnedHost
from trt_workbench.errors import ComponentMissing, UsageProblem


def batch(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((size, 4)).astype(np.float32)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_bound_runs_equal_plain_runs_for_every_shape(
    onnx_models: SimpleNamespace, tmp_path: Path, cuda_graph: bool
) -> None:
    model = onnx_models.linear(tmp_path / "m.onnx")
    reference = plain(model)
    with bound(model, cuda_graph=cuda_graph) as session:
        kept = {}
        for size in [1, 3, 1, 2, 5, 3, 1]:
            x = batch(size, size)
            (expected,) = reference.run(None, {"x": x})
            found = session.run({"x": x})["y"]
            np.testing.assert_array_equal(found, expected)
            kept[size] = (found, expected)
        for found, expected in kept.values():  # outputs belong to the caller: later runs leave them alone
            np.testing.assert_array_equal(found, expected)


def test_more_shapes_than_are_kept(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    with bound(onnx_models.linear(tmp_path / "m.onnx")) as session:
        for size in [*range(1, 21), 1]:
            assert session.run({"x": batch(size)})["y"].shape == (size, 3)


def test_large_outputs_and_small_memory(
    onnx_models: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_slot, "_LARGEST_PINNED", 100)
    monkeypatch.setattr(ort_slot, "_KEPT_BYTES", 200)
    model = onnx_models.linear(tmp_path / "m.onnx")
    reference = plain(model)
    with bound(model) as session:
        for size in [1, 20, 3, 20, 2, 1]:
            x = batch(size, size)
            np.testing.assert_array_equal(session.run({"x": x})["y"], reference.run(None, {"x": x})[0])


def test_large_outputs_are_the_sessions_own_memory_where_they_are_lent(
    onnx_models: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_slot, "_LARGEST_PINNED", 100)
    model = onnx_models.linear(tmp_path / "m.onnx")
    expected = plain(model).run(None, {"x": batch(20)})[0]
    with bound(model) as lending, bound(model) as giving:
        lent = [lending.lend({"x": batch(20)})["y"] for _ in range(4)]
        given = [giving.run({"x": batch(20)})["y"] for _ in range(4)]
        assert np.shares_memory(lent[2], lent[3])
        assert not np.shares_memory(given[2], given[3])
        for found in (lent[3], *given):
            np.testing.assert_array_equal(found, expected)


def test_shapes_that_never_come_again_get_no_buffers_for_outputs(
    onnx_models: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, ...]] = []
    array = PageableHost.array
    monkeypatch.setattr(
        PageableHost, "array", lambda host, shape, dtype: made.append(shape) or array(host, shape, dtype)
    )
    with bound(onnx_models.linear(tmp_path / "m.onnx")) as session:
        for size in (1, 2, 3, 3):
            session.lend({"x": batch(size)})
    assert made == [(1, 4), (2, 4), (3, 4), (3, 3)]  # the output of the shape that came again, beside the inputs


def counting(path: Path, onnx_models: SimpleNamespace, operator: str, dims: list[int | str]) -> Path:
    """One float input `x` [n], one output whose length the data say, declared as `dims`."""
    weights = {}
    kind = TensorProto.FLOAT
    if operator == "NonZero":
        nodes, kind = [helper.make_node("NonZero", ["x"], ["y"])], TensorProto.INT64
    elif operator == "Unique":
        nodes = [helper.make_node("Unique", ["x"], ["y"])]
    elif operator == "Compress":
        nodes = [
            helper.make_node("Greater", ["x", "zero"], ["positive"]),
            helper.make_node("Compress", ["x", "positive"], ["y"], axis=0),
        ]
        weights = {"zero": np.float32(0)}
    elif operator == "Range":
        nodes = [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0)]
        nodes.append(helper.make_node("Range", ["zero", "most", "one"], ["y"]))
        weights = {"zero": np.float32(0), "one": np.float32(1)}
    else:  # the shape of what was counted sets another one
        nodes = [
            helper.make_node("Unique", ["x"], ["u"]),
            helper.make_node("Shape", ["u"], ["shape"]),
            helper.make_node("ConstantOfShape", ["shape"], ["y"]),
        ]
    return Path(onnx_models.save(path, nodes, {"x": ("n",)}, {"y": (kind, dims)}, weights))


@pytest.mark.parametrize("operator", ["NonZero", "Unique", "Compress", "Range", "ConstantOfShape"])
@pytest.mark.parametrize("declared", ["found", "n"])
def test_an_output_whose_shape_depends_on_the_data(
    onnx_models: SimpleNamespace, tmp_path: Path, operator: str, declared: str
) -> None:
    # a name that an input has too promises nothing
    dims: list[int | str] = [1, declared] if operator == "NonZero" else [declared]
    model = counting(tmp_path / "m.onnx", onnx_models, operator, dims)
    reference = plain(model)
    rng = np.random.default_rng(0)
    with bound(model) as session:
        assert session.provenance["outputs_of_unknown_shape"] == ["y"]
        kept = []
        for _ in range(30):
            x = rng.integers(0, 5, 6).astype(np.float32)
            (expected,) = reference.run(None, {"x": x})
            kept.append((session.run({"x": x})["y"], expected))
        for found, expected in kept:
            np.testing.assert_array_equal(found, expected, strict=True)
        assert len({found.shape for found, _ in kept}) > 1
    with pytest.raises(UsageProblem, match=r"CUDA graph.*depend on the data: y"):
        bound(model, cuda_graph=True)


@pytest.mark.parametrize("operator", ["NonZero", "Unique"])
def test_inputs_that_are_copied_when_they_are_bound_reach_each_run(
    onnx_models: SimpleNamespace, tmp_path: Path, operator: str
) -> None:
    dims: list[int | str] = [1, "found"] if operator == "NonZero" else ["found"]
    model = counting(tmp_path / "m.onnx", onnx_models, operator, dims)
    reference = plain(model)
    with bound(model, session=CopyingSession(model)) as session:
        for values in ([3, 1, 3, 2, 1, 1, 2, 3], [0, 1, 2], [5, 0, 0, 0, 0, 0, 0, 5], [1, 1, 1]):
            x = np.array(values, np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], reference.run(None, {"x": x})[0], strict=True)


def test_an_input_that_is_read_on_the_host_is_bound_there(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    # every input of this session is read on the CPU, so none needs memory of the device that is not there
    model = counting(tmp_path / "m.onnx", onnx_models, "Unique", ["found"])
    with bound(model, device="cuda") as session:
        assert session.provenance["inputs_read_on_host"] == ["x"]
        for values in ([3, 1, 3], [0, 0, 0], [9, 8, 7]):
            x = np.array(values, np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], np.unique(x))
    linear = onnx_models.linear(tmp_path / "l.onnx")
    with pytest.raises(UsageProblem, match=r"CUDA graph reads no host memory.*: x\."):
        bound(linear, device="cuda", cuda_graph=True)


def test_a_shape_that_is_declared_wrongly_does_no_harm(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    # [a, b] turned into [b, a] has the size of what is declared
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])]
    path = onnx_models.save(tmp_path / "m.onnx", nodes, {"x": ("a", "b")}, {"y": (TensorProto.FLOAT, ("b", "a"))})
    document = onnx.load(path)
    del document.graph.output[0].type.tensor_type.shape.dim[:]
    for name in ("a", "b"):
        document.graph.output[0].type.tensor_type.shape.dim.add(dim_param=name)
    onnx.save(document, path)
    x = np.random.default_rng(0).random((2, 3), np.float32)
    with bound(path) as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run({"x": x})["y"], -x.T, strict=True)


def test_an_output_that_is_an_input_belongs_to_the_caller(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    model = onnx_models.save(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": ("n",)},
        {"y": (TensorProto.FLOAT, ("n",))},
    )
    for device in ("cpu", "cuda"):
        with bound(model, device=device) as session:
            kept = [(session.run({"x": np.full(3, value, np.float32)})["y"], value) for value in range(4)]
        for found, value in kept:
            np.testing.assert_array_equal(found, np.full(3, value, np.float32))


def test_lent_outputs_are_the_sessions_and_others_the_callers(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path / "m.onnx")
    with bound(model) as session:
        name, output = session.inputs[0].name, session.outputs[0].name
        first = session.run({name: batch(2)})[output]  # the first run tells the shapes
        expected, owned = first.copy(), session.run({name: batch(2)})[output]
        lent = session.lend({name: batch(2)})[output]
        np.testing.assert_array_equal(lent, expected)
        again = session.lend({name: batch(2, seed=1)})[output]
        assert np.shares_memory(lent, again)
        for mine in (first, owned):
            assert not np.shares_memory(mine, again)
            np.testing.assert_array_equal(mine, expected)


def test_runs_from_several_threads(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path / "m.onnx")
    reference = plain(model)
    wrong: list[int] = []
    with bound(model, concurrency=2) as session:

        def work(seed: int) -> None:
            for index in range(50):
                x = batch(1 + (seed + index) % 3, seed * 100 + index)
                if not np.array_equal(session.run({"x": x})["y"], reference.run(None, {"x": x})[0]):
                    wrong.append(index)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_closed_session_says_so(onnx_models: SimpleNamespace, tmp_path: Path) -> None:
    session = bound(onnx_models.linear(tmp_path / "m.onnx"))
    session.close()
    session.close()
    with pytest.raises(UsageProblem, match="closed"):
        session.run({"x": batch(1)})


def test_page_locked_memory_without_cuda_names_the_library() -> None:
    with pytest.raises(ComponentMissing, match=r"libcudart\.so\.99"):
        PinnedHost(99)
