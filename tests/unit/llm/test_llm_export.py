"""What the exported graphs compute, on ONNX Runtime against PyTorch."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trt_workbench.backends.base import Availability
from trt_workbench.core.errors import CheckFailed, UsageProblem
from trt_workbench.model.llm_directory import LlmDirectory, examine_llm_directory

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.texts import held, refused

from trt_workbench.llm import export
from trt_workbench.llm.export import (
    MANIFEST,
    ExportSettings,
    check_folder,
    export_llm,
    exported_graph,
    graph_from_export,
    parse_graphs,
)
from trt_workbench.llm.graph import GRAPHS

Folders = Callable[[str], Path]


FAMILIES = ["gpt2", "llama", "qwen2", "opt", "mistral", "cohere", "gemma2", "mixtral", "gpt_oss", "bloom"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_graph_computes_what_pytorch_computes(llm_folder: Folders, tmp_path: Path, family: str) -> None:
    directory = examine_llm_directory(llm_folder(family))
    manifest = export_llm(directory, tmp_path / "out", ExportSettings(GRAPHS))
    assert [entry["kind"] for entry in manifest["graphs"]] == list(GRAPHS)
    for entry in manifest["graphs"]:
        cases = entry["proof"]["cases"]
        assert [(case["batch"], case["length"]) for case in cases] == [(1, 1), (3, 11), (1, 64)]
        for case in cases:
            assert case["max_abs_logit"] > 0.5  # differences are measured against something
            assert case["max_abs_difference"] < 2e-5
    assert json.loads((tmp_path / "out" / "export.json").read_text()) == manifest
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"logits.onnx", "cached.onnx", "static.onnx", "tokenizer.json", "config.json"} <= names


def test_a_fixed_batch_is_proved_at_that_batch(llm_folder: Folders, tmp_path: Path) -> None:
    directory = examine_llm_directory(llm_folder("gpt2"))
    manifest = export_llm(directory, tmp_path / "out", ExportSettings(("static",), cache_length=32, batch=2))
    cases = manifest["graphs"][0]["proof"]["cases"]
    assert [(case["batch"], case["length"]) for case in cases] == [(2, 1), (2, 11), (2, 32)]


def test_a_graph_that_computes_something_else_is_refused(llm_folder: Folders, tmp_path: Path) -> None:
    directory = examine_llm_directory(llm_folder("gpt_neo"))
    export_llm(directory, tmp_path / "good", ExportSettings(("logits", "cached")))
    for kind in ("static", "step"):
        with refused(CheckFailed):
            export_llm(directory, tmp_path / "bad", ExportSettings((kind,)))
    assert [path.name for path in tmp_path.iterdir()] == ["good"]


def test_a_graph_that_runs_at_the_traced_size_alone_is_refused(llm_folder: Folders, tmp_path: Path) -> None:
    directory = examine_llm_directory(llm_folder("mamba"))
    with refused(CheckFailed):
        export_llm(directory, tmp_path / "out", ExportSettings(("logits",)))
    for kind in ("cached", "step"):
        with refused(UsageProblem):
            export_llm(directory, tmp_path / "out", ExportSettings((kind,)))
    assert list(tmp_path.iterdir()) == []


def test_graphs_are_kept_by_what_they_depend_on(
    llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    directory = examine_llm_directory(llm_folder("llama"))
    said: list[str] = []
    first = exported_graph(directory, "logits", ExportSettings(), said.append)
    assert len(said) == 3
    again = exported_graph(directory, "logits", ExportSettings(cache_length=8), said.append)
    assert again == first  # a logits graph has no cache
    assert len(said) == 3
    other = exported_graph(directory, "logits", ExportSettings(opset=18, inline_limit_bytes=0), said.append)
    assert other.path != first.path
    assert other.data.is_file()
    before = first.path.read_bytes()
    first.path.write_bytes(before[:-1])
    assert exported_graph(directory, "logits", ExportSettings(), said.append) == first
    assert first.path.read_bytes() == before
    assert any("logits.onnx changed since it was written" in text for text in said)


def test_without_onnx_runtime(llm_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path))
    absent = Availability(ok=False, reason="onnxruntime 1.0 is older than 2.0.")
    directory, said = examine_llm_directory(llm_folder("llama")), []
    with monkeypatch.context() as without:
        without.setattr(export, "availability", lambda _: absent)
        unproved = exported_graph(directory, "logits", ExportSettings(), said.append)
    held(said[0])
    manifest = json.loads((unproved.path.parent / "export.json").read_text())
    assert manifest["graphs"][0]["proof"] is None
    # one that was not proved is not taken where it can be
    assert exported_graph(directory, "logits", ExportSettings()).path != unproved.path


def test_graphs_from_another_machine(llm_folder: Folders, tmp_path: Path) -> None:
    directory = examine_llm_directory(llm_folder("llama"))
    with refused(UsageProblem):
        graph_from_export(tmp_path, directory, "logits")
    settings = ExportSettings(("logits", "static"), cache_length=32, inline_limit_bytes=0)
    export_llm(directory, tmp_path, settings)
    found = graph_from_export(tmp_path, directory, "static", 32)
    assert (found.path, found.data) == (tmp_path / "static.onnx", tmp_path / "static.onnx.data")
    assert (found.layers, found.cache_length) == (2, 32)
    with refused(UsageProblem):
        graph_from_export(tmp_path, directory, "static", 33)
    with refused(UsageProblem):
        graph_from_export(tmp_path, directory, "static", 32, 4)
    with refused(UsageProblem):
        graph_from_export(tmp_path, directory, "cached")
    with refused(UsageProblem):
        graph_from_export(tmp_path, directory, "step", 26, 2)
    with refused(UsageProblem):
        graph_from_export(tmp_path, examine_llm_directory(llm_folder("gpt2")), "logits")


def test_a_second_export_replaces_the_first(llm_folder: Folders, tmp_path: Path) -> None:
    directory = examine_llm_directory(llm_folder("llama"))
    export_llm(directory, tmp_path, ExportSettings(inline_limit_bytes=0))
    assert (tmp_path / "logits.onnx.data").is_file()
    export_llm(directory, tmp_path, ExportSettings())
    assert not (tmp_path / "logits.onnx.data").exists()


def test_more_slots_than_positions() -> None:
    directory = LlmDirectory(Path("m"), {"model_type": "llama", "max_position_embeddings": 64}, ())
    assert ExportSettings().slots(directory) == 64
    with refused(UsageProblem):
        ExportSettings(cache_length=65).slots(directory)


def test_names_of_graphs() -> None:
    assert parse_graphs("cached, logits", GRAPHS) == ("logits", "cached")
    for text in ("", "logits,decoder"):
        with refused(UsageProblem):
            parse_graphs(text, GRAPHS)


def test_a_model_whose_logits_are_not_finite(llm_folder: Folders, tmp_path: Path) -> None:
    """The export is not to blame."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "m"
    shutil.copytree(llm_folder("llama"), folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.mlp.up_proj.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with refused(UsageProblem):
        export_llm(examine_llm_directory(folder), tmp_path / "out", ExportSettings())


def test_all_of_a_tokenizer_is_copied(llm_folder: Folders, tmp_path: Path) -> None:
    source = tmp_path / "model"
    shutil.copytree(llm_folder("llama"), source)
    for name in ("vocab.json", "merges.txt"):
        (source / name).write_text(name)
    output = tmp_path / "out"
    output.mkdir()
    (output / "vocab.txt").write_text("of somebody, and of no name that is written")
    export_llm(examine_llm_directory(source), output, ExportSettings(prove=False))
    assert [(output / name).read_text() for name in ("vocab.json", "merges.txt")] == ["vocab.json", "merges.txt"]
    (output / MANIFEST).unlink()
    (output / "merges.txt").write_text("another")
    with pytest.raises(UsageProblem, match=r"merges\.txt"):
        check_folder(examine_llm_directory(source), output, ExportSettings())
