"""The tokenizer of a language model's folder, by transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.torch.llm_model import quiet_transformers
from trt_workbench.core.errors import ComponentMissing, UsageProblem, panics_as_errors, reason_of
from trt_workbench.core.launcher import package
from trt_workbench.core.variables import keep_compiled_code
from trt_workbench.model.llm_directory import LlmDirectory


class EncodedText(NamedTuple):
    """A tokenised text: ids int64 [N], and how many UTF-8 bytes of the text each stands for, int64 [N], if known."""

    ids: NDArray[np.int64]
    byte_counts: NDArray[np.int64] | None


class LlmTokenizer:
    """Text to token ids without special tokens, and back.

    Attributes:
        kind: its class in transformers.
        bos_id: id of the token that begins a text, None if there is none.
        adds_bos: whether the tokenizer by itself puts that token before a text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.kind = type(tokenizer).__name__
        self.bos_id: int | None = tokenizer.bos_token_id
        self.adds_bos = list(tokenizer("a").input_ids[:1]) == [self.bos_id]  # fails if it cannot be used

    def encode(self, text: str) -> EncodedText:
        """Return the tokens of the whole text; it is not cut at any length."""
        fast = bool(getattr(self._tokenizer, "is_fast", False))
        with quiet_transformers():  # it would warn that the text is longer than the model's positions
            encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
        ids = np.array(encoded["input_ids"], np.int64)
        if not fast:
            return EncodedText(ids, None)
        return EncodedText(ids, byte_counts(text, [end for _, end in encoded["offset_mapping"]]))

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Return the text of the tokens."""
        with panics_as_errors():
            text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)
        return text


def byte_counts(text: str, ends: Sequence[int]) -> NDArray[np.int64]:
    """Return how many UTF-8 bytes of a text each token stands for, int64 [N]; together all up to the last one's end.

    What lies between two tokens, such as a blank that a tokenizer leaves out, belongs to the second one. Tokens that
    end at one character, as where its bytes are tokens, share its bytes evenly.

    Args:
        text: that was cut.
        ends: of the tokens, in characters.
    """
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[np.maximum.accumulate(np.array(ends, np.int64))]
    places, first, group, count = np.unique(at, return_index=True, return_inverse=True, return_counts=True)
    before = np.concatenate([np.zeros(1, np.int64), places[:-1]])[group]
    rank = np.arange(len(at)) - first[group] + 1
    counts: NDArray[np.int64] = np.diff(before + (at - before) * rank // count[group], prepend=0)
    return counts


def other_tokens(directory: LlmDirectory, tokenizer: LlmTokenizer, text: str, encoded: EncodedText) -> str | None:
    """Return a sentence if other programs cut the text into other tokens; None if they do not.

    For some architectures transformers builds a tokenizer of its own class with only the vocabulary of tokenizer.json.

    Args:
        directory: where the tokenizer was loaded from.
        tokenizer: the loaded one.
        text: any text.
        encoded: its tokens.
    """
    from tokenizers import Tokenizer

    file = directory.path / "tokenizer.json"
    if not file.is_file():
        return None
    with panics_as_errors():
        own = Tokenizer.from_file(str(file))
        own.no_truncation()
        own.no_padding()
        ids = own.encode(text, add_special_tokens=False).ids
    if encoded.ids.tolist() == ids:
        return None
    return (
        f"transformers reads the tokenizer as {tokenizer.kind}, which splits the text into {len(encoded.ids)} "
        f"tokens, not into the {len(ids)} of tokenizer.json, which other programs use."
    )


def load_tokenizer(directory: LlmDirectory) -> LlmTokenizer:
    """Load the tokenizer from the model's folder.

    Raises:
        ComponentMissing: transformers cannot be imported.
        UsageProblem: there is no tokenizer, or it cannot be loaded.
    """
    if not directory.has_tokenizer:
        raise UsageProblem(
            "The model's folder has no tokenizer, so text cannot be converted to tokens. Copy tokenizer.json and "
            f"tokenizer_config.json of the model into it: {directory.path}"
        )
    keep_compiled_code()
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise ComponentMissing(
            f"Tokenizers need transformers, which cannot be imported ({error}). {package('transformers')}"
        ) from error
    try:
        with quiet_transformers():
            loaded = AutoTokenizer.from_pretrained(directory.path, local_files_only=True, trust_remote_code=False)
            return LlmTokenizer(loaded)
    # a broken tokenizer fails in as many ways as there are kinds of them
    except Exception as error:
        raise UsageProblem(f"The tokenizer cannot be loaded ({reason_of(error)}): {directory.path}") from error
