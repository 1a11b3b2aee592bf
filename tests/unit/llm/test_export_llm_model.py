"""Which checkpoints are loaded as causal language models."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.texts import held, refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.llm_directory import examine_llm_directory

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from trt_workbench.backends.torch.llm_model import load_causal_lm, quiet_transformers  # noqa: E402

Folders = Callable[[str], Path]
_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_BERT |= {"vocab_size": 300, "max_position_embeddings": 64}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": _BERT,
    "roberta": _BERT,
    "electra": {**_BERT, "embedding_size": 32},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 300},
}


def save(folder: Path, family: str, kind: str, **settings: Any) -> Path:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **CONFIGS[family], **settings)
    with quiet_transformers():
        getattr(transformers, kind).from_config(config).save_pretrained(folder)
    return folder


def edit(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_a_masked_model_is_refused_by_its_configuration(tmp_path: Path, family: str) -> None:
    save(tmp_path, family, "AutoModelForMaskedLM")
    with refused(UsageProblem):
        examine_llm_directory(tmp_path)
    # without the name of the class, what it computes decides
    edit(tmp_path, architectures=None)
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))


def test_xlnet_sees_both_directions(tmp_path: Path) -> None:
    save(tmp_path, "xlnet", "AutoModelForCausalLM")
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_a_decoder_of_the_same_architecture_is_taken(tmp_path: Path, family: str) -> None:
    save(tmp_path, family, "AutoModelForCausalLM", is_decoder=True)
    load_causal_lm(examine_llm_directory(tmp_path))
    edit(tmp_path, is_decoder=False)
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(tmp_path))


def with_code(source: Path, folder: Path) -> Path:
    """Copy a model and put code beside it, as checkpoints do that are older than their class in transformers."""
    shutil.copytree(source, folder)
    for name in ("configuration", "modeling"):
        (folder / f"{name}_own.py").write_text(f"open({str(folder / 'executed')!r}, 'w')\nclass Own: pass\n")
    edit(folder, auto_map={"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"})
    return folder


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
def test_code_beside_a_known_model_is_left_alone(llm_folder: Folders, tmp_path: Path, family: str) -> None:
    folder = with_code(llm_folder(family), tmp_path / "m")
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        found = load_causal_lm(examine_llm_directory(folder))(input_ids=tokens).logits
        expected = load_causal_lm(examine_llm_directory(llm_folder(family)))(input_ids=tokens).logits
    assert torch.equal(found, expected)
    assert not (folder / "executed").exists()


def test_code_that_has_more_weights_is_another_model(llm_folder: Folders, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = with_code(llm_folder("llama"), tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    extra = {"model.layers.0.self_attn.gate.weight": torch.ones(32)}
    save_file({**weights, **extra}, folder / "model.safetensors", {"format": "pt"})
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(folder))


def test_code_of_an_unknown_model_is_refused(llm_folder: Folders, tmp_path: Path) -> None:
    folder = with_code(llm_folder("llama"), tmp_path / "m")
    edit(folder, model_type="own")
    with refused(UsageProblem):
        examine_llm_directory(folder)


def test_weights_without_a_place_are_named(llm_folder: Folders, tmp_path: Path) -> None:
    """transformers leaves them out and says so in a log alone: such as a config.json with too few layers."""
    folder = tmp_path / "m"
    shutil.copytree(llm_folder("llama"), folder)
    notes: list[str] = []
    load_causal_lm(examine_llm_directory(folder), note=notes.append)
    assert notes == []
    edit(folder, num_hidden_layers=1)
    load_causal_lm(examine_llm_directory(folder), note=notes.append)
    (note,) = notes
    held(note)


def test_weights_of_another_shape_are_named(llm_folder: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(llm_folder("llama"), folder)
    edit(folder, num_key_value_heads=1)
    with refused(UsageProblem):
        load_causal_lm(examine_llm_directory(folder))


def test_an_architecture_that_is_no_language_model(tmp_path: Path) -> None:
    """transformers' message names all of the some 200 that are."""
    config = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    with quiet_transformers():
        transformers.ViTModel(transformers.ViTConfig(**config)).save_pretrained(tmp_path)
    with refused(UsageProblem) as caught:
        load_causal_lm(examine_llm_directory(tmp_path))
    assert "GPT2Config" not in str(caught.value)


def test_positions_that_begin_after_the_padding(tmp_path: Path) -> None:
    directory = examine_llm_directory(save(tmp_path, "roberta", "AutoModelForCausalLM", is_decoder=True))
    assert directory.positions == 62  # of 64: the padding token is 1, the first position 2
    model = load_causal_lm(directory)
    model(input_ids=torch.full((1, 62), 5))
    with pytest.raises(RuntimeError):
        model(input_ids=torch.full((1, 63), 5))
