import json
from pathlib import Path
from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.llm_directory import examine_llm_directory

CONFIG = {"model_type": "llama", "max_position_embeddings": 64, "vocab_size": 300}


def folder(root: Path, config: Any = CONFIG, *names: str) -> Path:
    (root / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name in names:
        (root / name).write_bytes(b"weights")
    return root


def test_what_a_folder_says(tmp_path: Path) -> None:
    found = examine_llm_directory(folder(tmp_path, CONFIG, "model.safetensors"))
    assert (found.model_type, found.positions, found.has_tokenizer) == ("llama", 64, False)
    assert found.weights == (tmp_path / "model.safetensors",)
    before = found.sha256
    (tmp_path / "model.safetensors").write_bytes(b"Weights")
    assert examine_llm_directory(tmp_path).sha256 != before


def test_what_decides_the_tokens(tmp_path: Path) -> None:
    root = folder(tmp_path, CONFIG, "model.safetensors", "vocab.json", "merges.txt", "README.md")
    found = {examine_llm_directory(root).tokenizer_sha256}
    (root / "README.md").write_bytes(b"other")
    assert {examine_llm_directory(root).tokenizer_sha256} == found
    for name in ("merges.txt", "tokenizer_config.json"):
        (root / name).write_bytes(b"other")
        found.add(examine_llm_directory(root).tokenizer_sha256)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("config", "positions"),
    [({"n_positions": 9}, 9), ({"max_seq_len": 5}, 5), ({}, None), ({"text_config": {"n_ctx": 3}}, 3)],
)
def test_positions_by_any_name(tmp_path: Path, config: dict[str, Any], positions: int | None) -> None:
    root = folder(tmp_path, {"model_type": "x", **config}, "model.safetensors")
    assert examine_llm_directory(root).positions == positions


def test_shards(tmp_path: Path) -> None:
    root = folder(tmp_path, CONFIG, "b.safetensors", "a.safetensors")
    index = {"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "a.safetensors"}}
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    assert [path.name for path in examine_llm_directory(root).weights] == ["a.safetensors", "b.safetensors"]


@pytest.mark.parametrize("shard", ["gone.safetensors", "../model.safetensors"])
def test_shards_that_are_not_there(tmp_path: Path, shard: str) -> None:
    root = folder(tmp_path)
    (root / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": shard}}))
    with refused(UsageProblem):
        examine_llm_directory(root)


def test_a_hub_name_is_not_downloaded() -> None:
    with refused(UsageProblem):
        examine_llm_directory("openai-community/gpt2")


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (CONFIG, ()),
        (CONFIG, ("pytorch_model.bin",)),
        ("{", ("model.safetensors",)),
        ("[]", ("model.safetensors",)),
        ({}, ("model.safetensors",)),
        ({**CONFIG, "architectures": ["LlamaForSequenceClassification"]}, ()),
        ({**CONFIG, "architectures": ["BertForMaskedLM"]}, ()),
        ({**CONFIG, "is_encoder_decoder": True}, ("model.safetensors",)),
        ({**CONFIG, "num_hidden_layers": 2**31 - 1}, ("model.safetensors",)),
    ],
)
def test_what_is_refused(tmp_path: Path, config: Any, names: tuple[str, ...]) -> None:
    with refused(UsageProblem):
        examine_llm_directory(folder(tmp_path, config, *names))


def test_no_configuration(tmp_path: Path) -> None:
    with refused(UsageProblem):
        examine_llm_directory(tmp_path)
