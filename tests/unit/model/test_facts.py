from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_text import parse_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

WEIGHTS = numpy_helper.from_array(np.ones(4, np.float32), "weights")


def external(location: str, name: str = "weights", **place: int | str) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **place}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder: Path, weights: onnx.TensorProto = WEIGHTS, *more: onnx.NodeProto) -> Path:
    folder.mkdir(exist_ok=True)
    model = parse_onnx("g (float[4] x) => (float[4] y) { y = Add(x, weights) }")
    model.graph.initializer.append(weights)
    model.graph.node.extend(more)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def is_refused(path: Path) -> None:
    with refused(UsageProblem):
        Model.open(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.99])
def test_a_truncated_model_is_refused(tmp_path: Path, part: float) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    is_refused(path)


@pytest.mark.parametrize("data", [b"", b"version https://git-lfs.github.com/"])
def test_what_the_file_is_instead_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    is_refused(path)


def test_absent_files_and_folders_are_refused(tmp_path: Path) -> None:
    is_refused(tmp_path / "absent.onnx")
    is_refused(tmp_path)


class TestExternalData:
    def test_it_is_found_from_another_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = saved(tmp_path / "model", external("weights.bin", length=16))
        (path.parent / "weights.bin").write_bytes(bytes(16))
        monkeypatch.chdir(tmp_path)
        assert Model.open(path.relative_to(tmp_path)).external_files == (Path("model/weights.bin"),)

    def test_missing_is_refused(self, tmp_path: Path) -> None:
        is_refused(saved(tmp_path, external("weights.bin")))

    @pytest.mark.parametrize("place", [{"length": 17}, {"offset": 8, "length": 16}, {"offset": 17}])
    def test_too_short_is_refused(self, tmp_path: Path, place: dict[str, int]) -> None:
        path = saved(tmp_path, external("weights.bin", **place))
        (tmp_path / "weights.bin").write_bytes(bytes(16))
        is_refused(path)

    @pytest.mark.parametrize("place", [{"offset": -8, "length": 16}, {"length": -1}, {"offset": "x"}])
    def test_impossible_places_are_refused(self, tmp_path: Path, place: dict[str, int | str]) -> None:
        path = saved(tmp_path, external("weights.bin", **place))
        (tmp_path / "weights.bin").write_bytes(bytes(16))
        is_refused(path)

    @pytest.mark.parametrize("location", ["../secret", "a/../../secret", "", "."])
    def test_outside_the_folder_is_refused(self, tmp_path: Path, location: str) -> None:
        (tmp_path / "secret").write_bytes(bytes(16))
        is_refused(saved(tmp_path / "model", external(location)))

    def test_an_absolute_path_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(16))
        is_refused(saved(tmp_path / "model", external(str(tmp_path / "secret"))))

    def test_a_link_out_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(16))
        path = saved(tmp_path / "model", external("weights.bin"))
        (path.parent / "weights.bin").symlink_to(tmp_path / "secret")
        is_refused(path)

    def test_a_linked_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other/weights.bin").write_bytes(bytes(16))
        path = saved(tmp_path / "model", external("data/weights.bin"))
        (path.parent / "data").symlink_to(tmp_path / "other")
        is_refused(path)

    @pytest.mark.parametrize("kind", ["attribute", "subgraph", "sparse"])
    def test_every_tensor_is_looked_at(self, tmp_path: Path, kind: str) -> None:
        tensor = external("../secret")
        if kind == "attribute":
            node = helper.make_node("Constant", [], ["c"], value=tensor)
        elif kind == "subgraph":
            inner = helper.make_graph([], "inner", [], [], [tensor])
            node = helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner)
        else:
            indices = numpy_helper.from_array(np.arange(4), "indices")
            sparse = helper.make_sparse_tensor(external("../secret"), indices, [9])
            node = helper.make_node("Constant", [], ["c"], sparse_value=sparse)
        is_refused(saved(tmp_path, WEIGHTS, node))


def test_an_engine_in_disguise_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context=b"engine")
    is_refused(saved(tmp_path, WEIGHTS, node))


def test_what_the_model_asks_for_is_listed(tmp_path: Path) -> None:
    graph = "g (float16[batch,4] x) => (float16[] y) { y = MatMul(x, w) }"
    made = parse_onnx(graph, {"w": np.eye(4, dtype=np.float16)})
    helper.set_model_props(made, {"task": "detect"})
    onnx.save(made, tmp_path / "model.onnx")
    facts = Model.open(tmp_path / "model.onnx").facts
    assert [(tensor.dtype, tensor.shape) for tensor in facts.inputs] == [("float16", ("batch", 4))]
    assert facts.inputs[0].is_dynamic
    assert facts.outputs[0].shape is None
    assert (facts.operators, facts.opset, facts.metadata) == ({"MatMul": 1}, 17, {"task": "detect"})
    assert not facts.is_quantized


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    model = saved(tmp_path)
    document = onnx.load(model)
    document.opset_import.add(domain="own", version=1)
    for operator in ("Neg", "Abs"):
        node = helper.make_node(operator, ["a"], ["b"])
        document.functions.append(
            helper.make_function("own", "Twice", ["a"], ["b"], [node], [helper.make_opsetid("", 20)])
        )
    onnx.save(document, model)
    is_refused(model)
