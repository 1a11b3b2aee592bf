"""Exports as files; that they compute the right thing is tested with ONNX Runtime in evaluate/test_llm_export.py."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from trt_workbench.backends.torch.llm_model import load_causal_lm  # noqa: E402
from trt_workbench.llm.graph import GraphKind, export_graph, state_names  # noqa: E402
from trt_workbench.llm.graphs import MASKED, ExportableCalls  # noqa: E402
from trt_workbench.model.llm_directory import examine_llm_directory  # noqa: E402

Folders = Callable[[str], Path]


class Bessel(torch.nn.Module):
    """An activation that ONNX does not have."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.special.i0(values)


def test_inputs_and_outputs(llm_folder: Folders, tmp_path: Path) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("llama")))
    logits = Model.open(export_graph(model, "logits", tmp_path / "logits.onnx").path).facts
    assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in logits.inputs] == [
        ("input_ids", "int64", ("batch", "sequence")),
        ("attention_mask", "int64", ("batch", "sequence")),
    ]
    assert [(tensor.name, tensor.shape) for tensor in logits.outputs] == [("logits", ("batch", "sequence", 300))]
    assert logits.opset == 17
    assert logits.metadata["trt_workbench.graph"] == "logits"

    cached = export_graph(model, "cached", tmp_path / "cached.onnx", opset=20)
    facts = Model.open(cached.path).facts
    before, after = state_names(2)
    assert facts.opset == 20
    assert cached.layers == 2
    assert [tensor.name for tensor in facts.inputs] == ["input_ids", "attention_mask", *before]
    assert [tensor.name for tensor in facts.outputs] == ["logits", *after]
    assert facts.inputs[1].shape == ("batch", "total")
    # 2 key and value heads of size 8 for 4 query heads
    assert facts.inputs[2].shape == ("batch", 2, "past", 8)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("kind", "sequence"), [("static", "sequence"), ("step", 1)])
def test_a_graph_of_slots_and_fixed_batch(
    llm_folder: Folders, tmp_path: Path, kind: GraphKind, sequence: str | int, batch: int
) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("llama")))
    graph = export_graph(model, kind, tmp_path / "m.onnx", cache_length=48, batch=batch)
    assert (graph.kind, graph.cache_length, graph.batch) == (kind, 48, batch)
    facts = Model.open(graph.path).facts
    assert [(tensor.name, tensor.shape) for tensor in facts.inputs[:3]] == [
        ("input_ids", (batch, sequence)),
        ("start", (1,)),
        ("past_key_values.0.key", (batch, 2, 48, 8)),
    ]
    # the state that goes out fits the state that comes in, also where a dimension of 1 could have broadcast
    vocabulary = model.get_input_embeddings().num_embeddings
    assert facts.outputs[0].shape == (batch, sequence, vocabulary)
    assert {tensor.shape for tensor in facts.outputs[1:]} == {(batch, 2, 48, 8)}


@pytest.mark.parametrize("kind", ["static", "step"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "mistral", "gpt_oss", "bloom"])
def test_one_mask_serves_every_sequence(llm_folder: Folders, tmp_path: Path, kind: GraphKind, family: str) -> None:
    """TensorRT 8.6 reads a mask with a batch dimension wrongly from the second sequence on."""
    import onnxruntime as ort

    model = load_causal_lm(examine_llm_directory(llm_folder(family)))
    path = export_graph(model, kind, tmp_path / "m.onnx", cache_length=16, batch=3).path
    document = onnx.load(path)
    made = {name: node for node in document.graph.node for name in node.output}
    masks = [name for node in document.graph.node if node.op_type == "Add" for name in node.input]
    masks = list(dict.fromkeys(name for name in masks if name in made and made[name].op_type == "Where"))
    assert masks
    document.graph.output.extend(onnx.ValueInfoProto(name=name) for name in masks)
    session = ort.InferenceSession(document.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {"input_ids": np.zeros((3, 1), np.int64), "start": np.array([5])}
    for tensor in session.get_inputs():
        if tensor.name not in feed:
            feed[tensor.name] = np.zeros(tensor.shape, np.float32)
    for mask in session.run(masks, feed):
        assert mask.shape == (1, 1, 1, 16)
        assert mask[0, 0, 0, 5] == 0
        np.testing.assert_array_equal(mask[0, 0, 0, 6:], MASKED)


def test_masks_can_be_held_in_half_precision(llm_folder: Folders, tmp_path: Path) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("llama")))
    graph = onnx.load(export_graph(model, "logits", tmp_path / "m.onnx").path).graph
    constants = [onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer]
    constants += [onnx.numpy_helper.to_array(node.attribute[0].t) for node in graph.node if node.op_type == "Constant"]
    values = np.concatenate([array.ravel() for array in constants if array.dtype == np.float32])
    assert values.min() == np.float32(MASKED)
    assert np.isfinite(values.astype(np.float16)).all()


def test_weights_beside_the_graph(llm_folder: Folders, tmp_path: Path) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("gpt2")))
    inline = export_graph(model, "logits", tmp_path / "a.onnx")
    beside = export_graph(model, "logits", tmp_path / "b.onnx", inline_limit_bytes=1000)
    assert inline.data is None
    assert beside.data == tmp_path / "b.onnx.data"
    assert Model.open(beside.path).external_files == (beside.data,)
    assert beside.data.stat().st_mode == beside.path.stat().st_mode
    assert beside.path.stat().st_size < inline.path.stat().st_size / 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "b.onnx.data"]


def test_models_above_the_limit_of_protobuf(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch writes more than 2 GiB to a path alone, and takes a Path for a buffer."""
    places = []
    real = torch.onnx.export

    def export(module: object, arguments: object, place: object, **options: object) -> object:
        places.append(place)
        return real(module, arguments, place, **options)

    monkeypatch.setattr(torch.onnx, "export", export)
    export_graph(load_causal_lm(examine_llm_directory(llm_folder("gpt2"))), "logits", tmp_path / "m.onnx")
    assert [type(place) for place in places] == [str]


def test_an_operator_without_an_onnx_form(
    llm_folder: Folders, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("llama")))
    model.model.layers[0].mlp.act_fn = Bessel()
    with refused(UsageProblem) as caught:
        export_graph(model, "logits", tmp_path / "m.onnx")
    assert "aten::i0" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().out == ""


def test_an_opset_that_cannot_be_written(llm_folder: Folders, tmp_path: Path) -> None:
    model = load_causal_lm(examine_llm_directory(llm_folder("llama")))
    with refused(UsageProblem):
        export_graph(model, "logits", tmp_path / "m.onnx", opset=9)
    with refused(UsageProblem):
        export_graph(model, "static", tmp_path / "m.onnx")


def test_a_checkpoint_that_lacks_weights(llm_folder: Folders, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    source = llm_folder("llama")
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    weights = load_file(source / "model.safetensors")
    first = sorted(weights)[0]
    save_file({name: value for name, value in weights.items() if name != first}, tmp_path / "model.safetensors")
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))


def test_an_unknown_architecture(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "quantum"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))


def test_expm1_becomes_what_the_exporter_has_without_losing_small_values() -> None:
    """As Apertus computes it."""
    values = torch.tensor([-80.0, -3, -1e-6, 0, 1e-6, 0.5, 1, 20, 80], dtype=torch.float32)
    with ExportableCalls():
        found = [torch.expm1(values), values.expm1()]
    for one in found:
        np.testing.assert_allclose(one, np.expm1(values.numpy()), rtol=1e-5)
    assert torch.exp(values)[4] - 1 != found[0][4]
