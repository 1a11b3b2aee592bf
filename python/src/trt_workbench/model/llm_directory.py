"""A folder with a causal language model in Hugging Face's format: what it holds, and if it is safe to load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.input_files import open_regular, read_json
from trt_workbench.model.llm_known import is_known

# Configurations name the longest sequence differently.
_POSITION_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length")
# Their positions begin after the number of the padding token: as many of them are never used.
_POSITIONS_AFTER_PADDING = (
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "camembert",
    "data2vec-text",
    "xmod",
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
# Ends of the names of classes that see the token that they predict, or predict none.
_NOT_CAUSAL = ("ForMaskedLM", "ForPreTraining", "Classification", "ForQuestionAnswering", "ForMultipleChoice")
_MOST_LAYERS = 10_000  # far beyond any model's: a number that is damaged would be built layer by layer
_TOKENIZER_SETTINGS = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (*_TOKENIZERS, *_TOKENIZER_SETTINGS)
"""What a tokenizer is read from, as far as a folder has it."""


@dataclass(frozen=True)
class LlmDirectory:
    """A folder that was checked: a configuration, and weights as safetensors.

    Attributes:
        path: the folder.
        config: content of config.json.
        weights: the safetensors files, in order of name.
    """

    path: Path
    config: Mapping[str, Any]
    weights: tuple[Path, ...]

    @property
    def model_type(self) -> str:
        """Architecture as transformers names it, such as `llama`."""
        return str(self.config["model_type"])

    @property
    def brings_code(self) -> bool:
        """Whether Python code comes with the model; it is never executed."""
        return "auto_map" in self.config

    @property
    def positions(self) -> int | None:
        """Longest sequence that the model was made for, in tokens; None if the configuration does not say."""
        size = self._size(_POSITION_KEYS)
        if size and self.model_type in _POSITIONS_AFTER_PADDING:
            padding = self.config.get("pad_token_id", 1)
            size -= padding + 1 if isinstance(padding, int) and 0 <= padding < size - 1 else 0
        return size

    @property
    def vocabulary(self) -> int | None:
        """How many tokens the model knows; None if the configuration does not say."""
        return self._size(("vocab_size",))

    @cached_property
    def ends(self) -> frozenset[int]:
        """Ids of the tokens that end a text, as the configuration and that of generation name them."""
        file = self.path / "generation_config.json"
        found: set[int] = set()
        for config in (self.config, read_json(file) if file.is_file() else {}):
            ends = config.get("eos_token_id") if isinstance(config, dict) else None
            found |= {one for one in (ends if isinstance(ends, list) else [ends]) if isinstance(one, int)}
        return frozenset(found)

    @property
    def layers(self) -> int | None:
        """How many layers the model has; None if the configuration does not say."""
        return self._size(("num_hidden_layers", "n_layer", "n_layers", "num_layers"))

    def _size(self, keys: Sequence[str]) -> int | None:
        """Return the first of `keys` that the configuration of the text model has, if it is a size."""
        text = self.config.get("text_config", self.config)
        found = next((text[key] for key in keys if isinstance(text.get(key), int)), None)
        return found if found and found > 0 else None

    @cached_property
    def sha256(self) -> str:
        """Hash over the configuration and the weights: what decides the logits."""
        return _with_files(hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()), self.weights)

    @cached_property
    def tokenizer_sha256(self) -> str:
        """Hash over the files of the tokenizer: what decides the tokens."""
        return _with_files(hashlib.sha256(), filter(Path.is_file, (self.path / name for name in TOKENIZER_FILES)))

    @property
    def has_tokenizer(self) -> bool:
        """Whether a file of any kind of tokenizer is there."""
        return any((self.path / name).is_file() for name in _TOKENIZERS)


def examine_llm_directory(path: Path | str) -> LlmDirectory:
    """Check that `path` is a folder whose model can be loaded without executing anything that it brings.

    Raises:
        UsageProblem: it is no folder (such as a name on a model hub), the configuration is missing or wrong, the model
            needs code of its own or is no causal language model, or its weights are missing, incomplete or pickles.
        ComponentMissing: the model brings code of its own, and transformers, which may have a class for it, is missing.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise UsageProblem(
            "A model is a local folder; no model is downloaded by name. For a model from a hub, run `hf download "
            "NAME --local-dir DIR` and pass that folder. "
            f"{'This is a file' if folder.exists() else 'The folder does not exist'}: {folder}"
        )
    config = _read_json(
        folder / "config.json", "The folder is not a model in Hugging Face's format: it lacks config.json"
    )
    _check_architecture(folder, config)
    directory = LlmDirectory(folder, config, _find_weights(folder))
    if (layers := directory.layers) and layers > _MOST_LAYERS:
        raise UsageProblem(f"config.json declares {layers} layers, more than any model has: {folder}")
    return directory


def _check_architecture(folder: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("model_type")
    if "auto_map" in config and not (isinstance(kind, str) and is_known(kind)):
        raise UsageProblem(
            "The model needs Python code from its own folder (auto_map), which is never executed, because "
            f"transformers has no class for its model_type {kind!r}: {folder}"
        )
    if not isinstance(kind, str):
        raise UsageProblem(f"config.json does not name a model_type, so the architecture is unknown: {folder}")
    if config.get("is_encoder_decoder"):
        raise UsageProblem(f"{kind} is an encoder-decoder; only causal language models are exported: {folder}")
    names = config.get("architectures")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    if names and not config.get("is_decoder") and all(name.endswith(_NOT_CAUSAL) for name in names):
        raise UsageProblem(
            f"config.json names {names[0]}, which is not a causal language model: a token's prediction does not "
            f"depend only on earlier tokens, so its perplexity and its generated text are meaningless: {folder}"
        )


def _find_weights(folder: Path) -> tuple[Path, ...]:
    single = folder / "model.safetensors"
    if single.is_file():
        return (single,)
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        raise _no_weights(folder)
    shards = _read_json(index, "The index of the weights is missing").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise UsageProblem(f"The index lists no weights: {index}")
    names = sorted(set(shards.values()))
    if outside := [name for name in names if Path(name).name != name]:
        raise UsageProblem(f"The index names a file outside the model's folder, {outside[0]!r}: {index}")
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise UsageProblem(f"{len(missing)} of {len(names)} weight files are missing, such as {missing[0]}: {folder}")
    return tuple(folder / name for name in names)


def _no_weights(folder: Path) -> UsageProblem:
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if not pickles:
        return UsageProblem(f"The folder holds no weights (model.safetensors): {folder}")
    return UsageProblem(
        f"The weights are pickles ({pickles[0]}). They are refused because pickles can execute code while loading. "
        "If you trust their origin, convert them once: load them with torch.load(..., weights_only=True) and write "
        f"model.safetensors with safetensors.torch.save_model: {folder}"
    )


def _with_files(total: hashlib._Hash, paths: Iterable[Path]) -> str:
    """Return the hash `total` over what it has and the names and contents of files."""
    for path in paths:
        with open_regular(path) as file:
            total.update(f"\n{path.name}:{hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return total.hexdigest()


def _read_json(path: Path, absent: str) -> dict[str, Any]:
    try:
        document = read_json(path, finite=False)  # transformers writes Infinity, such as Mamba-2's time_step_limit
    except FileNotFoundError as error:
        raise UsageProblem(f"{absent}: {path.parent}") from error
    except ValueError as error:
        raise UsageProblem(f"Not valid JSON ({error}): {path}") from error
    if not isinstance(document, dict):
        raise UsageProblem(f"A JSON object is expected: {path}")
    return document
